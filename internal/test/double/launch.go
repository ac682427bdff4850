package double

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"memopt/executor/cuda/driver"
	"memopt/executor/cuda/kernels"
)

// kernel is a function of a host library.
type kernel struct {
	name  string
	entry kernels.Entry // zero where the PTX has no such kernel: selftest.cu makes some for the host alone
	call  func(*launch)
}

// launch is memopt_host::launch of kernels/host.h.
type launch struct {
	grid, block [3]uint32
	shared      uint32
	backwards   uint32
	args        unsafe.Pointer
	argsBytes   uint64
	message     *byte
}

// running keeps launches of all doubles apart: the libraries' state is one for the process.
var running sync.Mutex

// Function finds a kernel in a module.
func (d *Double) Function(m driver.Module, name string) (driver.Function, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	call, err := d.modules[m-1].function(name)
	if err != nil {
		return 0, err
	}
	d.functions = append(d.functions, kernel{name, d.modules[m-1].entries[name], call})
	return driver.Function(len(d.functions)), nil
}

// Load compiles the module's source for the host. The image is for devices.
func (d *Double) Load(name string, _ []byte) (driver.Module, error) {
	lib, err := load(name)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.modules = append(d.modules, lib)
	return driver.Module(len(d.modules)), nil
}

// Launch runs a kernel on copies of its operands.
func (d *Double) Launch(f driver.Function, shape driver.Shape, s driver.Stream, a *driver.Args) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.counts.Launches++
	if d.now(s) {
		if d.lost == nil {
			d.lost = d.launch(f, shape, a.Bytes(), a.Pointers())
		}
		return d.lost
	}
	args, pointers := slices.Clone(a.Bytes()), slices.Clone(a.Pointers())
	return d.later(s, func() error { return d.launch(f, shape, args, pointers) })
}

// admits returns an error for a launch that a device would reject.
func (k *kernel) admits(shape driver.Shape, args int) error {
	for i := range shape.Grid {
		if shape.Grid[i] == 0 || shape.Block[i] == 0 || i > 0 && shape.Grid[i] > 65535 || shape.Grid[i] > 1<<31-1 {
			return fmt.Errorf("kernel %s: a launch of grid %v and block %v", k.name, shape.Grid, shape.Block)
		}
	}
	threads := int(shape.Block[0]) * int(shape.Block[1]) * int(shape.Block[2])
	switch e := &k.entry; {
	case *e == kernels.Entry{}:
	case threads > e.Threads:
		return fmt.Errorf("kernel %s: a block of %d threads, where its PTX promises at most %d: THREADS_AT_MOST "+
			"(kernels/bounds.h) sets the bound", k.name, threads, e.Threads)
	case e.Shared+int(shape.Shared) > sharedPerBlock:
		return fmt.Errorf(
			"kernel %s: a block of %d bytes of shared memory, of which a launch asks for %d: there are %d",
			k.name, e.Shared+int(shape.Shared), shape.Shared, sharedPerBlock)
	case args != e.Params:
		return fmt.Errorf("kernel %s: %d bytes of arguments, where its PTX takes %d", k.name, args, e.Params)
	}
	return nil
}

// sharedPerBlock is how much shared memory every device gives a block that has not asked for more.
const sharedPerBlock = 48 << 10

func (d *Double) launch(f driver.Function, shape driver.Shape, args []byte, pointers []driver.Pointer) error {
	k := &d.functions[f-1]
	if k.name == d.fails {
		return fmt.Errorf("kernel %s: an illegal address, as was asked for", k.name)
	}
	if err := k.admits(shape, len(args)); err != nil {
		return err
	}
	running.Lock()
	defer running.Unlock()
	c := &d.operands.call
	args = c.args[:copy(c.args[:], args)]
	err := d.gather(pointers, func(i int, address uintptr) {
		binary.LittleEndian.PutUint64(args[pointers[i].Offset:], uint64(address))
	})
	if err != nil {
		return fmt.Errorf("kernel %s: %w", k.name, err)
	}
	c.launch = launch{grid: shape.Grid, block: shape.Block, shared: shape.Shared, args: unsafe.Pointer(&args[0]),
		argsBytes: uint64(len(args)), message: &c.message[0]}
	c.launch.backwards = uint32(d.counts.Launches % 2)
	c.message[0] = 0
	k.call(&c.launch)
	if n := slices.Index(c.message[:], 0); n > 0 {
		return fmt.Errorf("kernel %s: %s", k.name, c.message[:n])
	}
	if err := d.operands.scatter(); err != nil {
		return fmt.Errorf("kernel %s: %w", k.name, err)
	}
	return nil
}
