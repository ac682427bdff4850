// Package double is a stand-in for the CUDA driver on machines without one. It runs the same kernel
// sources, compiled for the host (kernels/host.h), and enforces the rules whose violation costs a
// device its context or gives wrong numbers:
//
//   - The host cannot touch device memory: its addresses are reserved without pages.
//   - Every pointer of a launch must lie in an allocation that lives, with the bytes that were
//     announced for it. A kernel sees copies of these bytes, with others around them that it must
//     not write to and that spoil results if it reads them; nor may it write to what was announced
//     as input.
//   - New memory holds NaNs. Every other launch runs its threads backwards.
//   - With Lazy, work is done when it is waited for and no earlier. Streams that no event orders
//     run in another order every other time, and what is copied beside them holds NaNs until the
//     copy is done.
//   - Close reports memory that was not freed.
package double

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// Options of New. The zero value is a device of 1 GiB.
type Options struct {
	Memory    int64 // bytes of the device
	Lazy      bool
	NoLibrary bool // products are refused as if libcublas were missing
	NoPinning bool // there is no memory of the host to pin
	// NoConvolutions leaves out the library of convolutions. ConvFault is its error when it is
	// asked for the algorithms of a convolution, nil if it has some; a nil function: it has some
	// for all.
	NoConvolutions bool
	ConvFault      func(*driver.ConvCase) error
}

// Counts counts the requests to a double.
type Counts struct {
	Allocs, Frees, Launches, CopiesIn, CopiesOut, Gemms, Syncs, Replays int
	Convolutions, ConvSearches                                          int
	BytesIn, BytesOut, Live, Peak                                       int64
}

// Double is a driver.Driver.
type Double struct {
	mu        sync.Mutex
	opts      Options
	blocks    []block // by address
	counts    Counts
	modules   []*library
	functions []kernel
	streams   []stream
	events    []*mark // by number less one: as it was recorded last
	clock     int
	waits     uint // for streams, so far
	graphs    []*graph
	operands  operands
	conv      convolution
	lost      error
	pinned    [][]byte
	fails     string // kernel whose launches fail
}

// block is an allocation.
type block struct {
	address uintptr
	size    int
	data    []byte // the device's contents; nil if freed
}

// New returns a device.
func New(o Options) *Double {
	if o.Memory == 0 {
		o.Memory = 1 << 30
	}
	return &Double{opts: o, streams: make([]stream, 1)}
}

// FailKernel makes all launches of a kernel fail, as if it had touched memory of others.
func (d *Double) FailKernel(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails = name
}

// Counts returns the counts so far.
func (d *Double) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts
}

// Info describes a device that does not exist.
func (d *Double) Info() driver.Info {
	return driver.Info{Name: "driver double", Major: 7, Processors: 4, Memory: d.opts.Memory, DriverVersion: 12000,
		SharedPerBlock: sharedPerBlock}
}

// poison fills memory that has not been written to: NaN in every float type.
const poison = 0xff

// Alloc reserves addresses, and takes host memory for their contents.
func (d *Double) Alloc(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts.Live+int64(n) > d.opts.Memory {
		return nil, fmt.Errorf("%w: the double's device has %d bytes, %d of them in use; %d more wanted",
			executor.ErrOutOfMemory, d.opts.Memory, d.counts.Live, n)
	}
	address, err := reserve(n)
	if err != nil {
		return nil, err
	}
	b := block{address: address, size: n, data: make([]byte, n)}
	fill(b.data, poison)
	at, _ := slices.BinarySearchFunc(d.blocks, address, byAddress)
	d.blocks = slices.Insert(d.blocks, at, b)
	d.counts.Allocs++
	d.counts.Live += int64(n)
	d.counts.Peak = max(d.counts.Peak, d.counts.Live)
	return driver.Memory(address, n), nil
}

func byAddress(b block, address uintptr) int {
	switch {
	case b.address < address:
		return -1
	case b.address > address:
		return 1
	}
	return 0
}

func fill(b []byte, v byte) {
	if len(b) == 0 {
		return
	}
	b[0] = v
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// Free ends a block. Its addresses are never used again.
func (d *Double) Free(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.drain(); err != nil && d.fails == "" {
		return err
	}
	at, ok := slices.BinarySearchFunc(d.blocks, driver.Address(b), byAddress)
	if !ok || d.blocks[at].data == nil {
		return errors.New("double: Free of memory that was not allocated, or twice")
	}
	d.counts.Frees++
	d.counts.Live -= int64(d.blocks[at].size)
	d.blocks[at].data = nil
	return nil
}

// find returns the device's bytes at b.
func (d *Double) find(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, nil
	}
	address := driver.Address(b)
	at, ok := slices.BinarySearchFunc(d.blocks, address, byAddress)
	if !ok {
		at--
	}
	if at < 0 || address-d.blocks[at].address >= uintptr(d.blocks[at].size) {
		return nil, fmt.Errorf("double: %d bytes at %#x are no device memory", len(b), address)
	}
	blk, off := &d.blocks[at], int(address-d.blocks[at].address)
	switch {
	case blk.data == nil:
		return nil, fmt.Errorf("double: use of %d bytes at %d of a block of %d bytes after it was freed",
			len(b), off, blk.size)
	case off+len(b) > blk.size:
		return nil, fmt.Errorf("double: %d bytes at %d are beyond the end of a block of %d bytes",
			len(b), off, blk.size)
	}
	return blk.data[off : off+len(b) : off+len(b)], nil
}

// Pin returns memory of Go's heap, which stays where it is.
func (d *Double) Pin(n int) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opts.NoPinning {
		return nil, fmt.Errorf("%w: the double pins nothing", executor.ErrOutOfMemory)
	}
	b := make([]byte, max(n, 1))
	d.pinned = append(d.pinned, b)
	return b[:n], nil
}

// Unpin ends it.
func (d *Double) Unpin(b []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, p := range d.pinned {
		if unsafe.SliceData(p) == unsafe.SliceData(b) {
			d.pinned = slices.Delete(d.pinned, i, i+1)
			return nil
		}
	}
	return errors.New("double: Unpin of memory that was not pinned, or twice")
}

// isPinned reports whether memory of the host is pinned.
func (d *Double) isPinned(b []byte) bool {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for _, p := range d.pinned {
		if start := uintptr(unsafe.Pointer(unsafe.SliceData(p))); at >= start &&
			at-start+uintptr(len(b)) <= uintptr(len(p)) {
			return true
		}
	}
	return false
}

// MemInfo counts.
func (d *Double) MemInfo() (free, total int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.opts.Memory - d.counts.Live, d.opts.Memory, nil
}

// ProcessMemory is not known.
func (d *Double) ProcessMemory() (int64, bool) { return 0, false }

// Close reports memory that was not freed.
func (d *Double) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.drain()
	if d.fails != "" {
		err = nil // the error that was wanted
	}
	var leaks []string
	for _, b := range d.blocks {
		if b.data != nil {
			leaks = append(leaks, fmt.Sprintf("%d bytes", b.size))
		}
		release(b.address, b.size)
	}
	d.blocks = nil
	if len(d.pinned) != 0 && err == nil {
		err = fmt.Errorf("double: %d pieces of pinned memory were not given back", len(d.pinned))
	}
	if len(leaks) > 0 && err == nil {
		err = fmt.Errorf("double: %d allocations were not given back: %s", len(leaks), strings.Join(leaks, ", "))
	}
	return err
}

var _ driver.Driver = (*Double)(nil)
