package driver

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"unsafe"
)

// Alloc takes memory of the device.
func (d *cuda) Alloc(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.do(cuMemAlloc, d.addr(0), uintptr(n)); err != nil {
		return nil, err
	}
	return Memory(uintptr(d.out[0]), n), nil
}

// Free frees memory.
func (d *cuda) Free(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.do(cuMemFree, Address(b))
}

// Pin takes memory of the host that stays where it is.
func (d *cuda) Pin(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.do(cuMemHostAlloc, d.addr(0), uintptr(n), 0); err != nil {
		return nil, err
	}
	d.capture.pinned[uintptr(d.out[0])] = n
	return Memory(uintptr(d.out[0]), n), nil
}

// Unpin frees it.
func (d *cuda) Unpin(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.capture.pinned, Address(b))
	return d.do(cuMemFreeHost, Address(b))
}

// MemInfo asks how much memory is free.
func (d *cuda) MemInfo() (free, total int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err = d.do(cuMemGetInfo, d.addr(0), d.addr(1))
	return int64(d.out[0]), int64(d.out[1]), err
}

// copy makes one of the three copies.
func (d *cuda) copy(f function, s Stream, dst, src []byte) error {
	if len(dst) != len(src) {
		return fmt.Errorf("a copy of %d bytes to %d bytes", len(src), len(dst))
	}
	if len(src) == 0 {
		return nil
	}
	err := d.do(f, Address(dst), Address(src), uintptr(len(src)), uintptr(s))
	runtime.KeepAlive(src)
	runtime.KeepAlive(dst)
	return err
}

// CopyIn copies from the host. If the memory is not pinned, the driver has copied it, to the device
// or aside, when it returns (CUDA Driver API, section on API synchronization behavior).
func (d *cuda) CopyIn(s Stream, dst, src []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	from, err := d.stage(s, src)
	if err != nil {
		return err
	}
	return d.copy(cuMemcpyHtoDAsync, s, dst, from)
}

// CopyOut copies to the host and waits.
func (d *cuda) CopyOut(s Stream, dst, src []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.copy(cuMemcpyDtoHAsync, s, dst, src); err != nil {
		return err
	}
	return d.do(cuStreamSynchronize, uintptr(s))
}

// CopyOutAsync copies to the host's pinned memory.
func (d *cuda) CopyOutAsync(s Stream, dst, src []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.copy(cuMemcpyDtoHAsync, s, dst, src)
}

// Copy copies within the device.
func (d *cuda) Copy(s Stream, dst, src []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.copy(cuMemcpyDtoDAsync, s, dst, src)
}

// Fill sets bytes.
func (d *cuda) Fill(s Stream, dst []byte, value byte) error {
	if len(dst) == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.do(cuMemsetD8Async, Address(dst), uintptr(value), uintptr(len(dst)), uintptr(s))
}

// Options of cuModuleLoadDataEx.
const (
	jitErrorLog     = 5
	jitErrorLogSize = 6
)

// Load compiles PTX for the device. The error has the compiler's messages.
func (d *cuda) Load(name string, image []byte) (Module, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.image = append(bytes.TrimRight(image, "\x00"), 0) // kept in d: a stack may move while C reads
	defer func() { d.image = nil }()
	d.opt.keys[0], d.opt.keys[1] = jitErrorLog, jitErrorLogSize
	d.opt.values[0], d.opt.values[1] = uintptr(unsafe.Pointer(&d.log[0])), uintptr(len(d.log))
	clear(d.log[:])
	err := d.do(cuModuleLoadDataEx, d.addr(0), uintptr(unsafe.Pointer(&d.image[0])), 2,
		uintptr(unsafe.Pointer(&d.opt.keys[0])), uintptr(unsafe.Pointer(&d.opt.values[0])))
	if err != nil {
		log := strings.Join(strings.Fields(text(d.log[:])), " ")
		return 0, withoutCompiler(fmt.Errorf("compiling the kernels of %s for %s: %w %s", name, d.info.Name, err, log))
	}
	d.made = append(d.made, made{cuModuleUnload, uintptr(d.out[0])})
	return Module(d.out[0]), nil
}

// withoutCompiler makes a *Missing of an error that says that the driver has no compiler for the
// kernels, or one that does not know the device or the version of PTX.
// libnvidia-ptxjitcompiler.so.1 has it, a file beside libcuda.so.1 that small containers may lack.
func withoutCompiler(err error) error {
	cudaErr := (*Error)(nil)
	if !errors.As(err, &cudaErr) {
		return err
	}
	switch cudaErr.Code {
	// NO_BINARY_FOR_GPU, JIT_COMPILER_NOT_FOUND, UNSUPPORTED_PTX_VERSION, JIT_COMPILATION_DISABLED
	case 209, 221, 222, 223:
		return &Missing{
			fmt.Errorf("%w (update the NVIDIA driver, see that libnvidia-ptxjitcompiler.so.1 is there and "+
				"CUDA_DISABLE_PTX_JIT is not set)", err),
		}
	}
	return err
}

// Function finds a kernel.
func (d *cuda) Function(m Module, name string) (Function, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(name) >= len(d.name) {
		return 0, fmt.Errorf("kernel %s: a name of more than %d bytes", name, len(d.name)-1)
	}
	d.name[copy(d.name[:], name)] = 0
	if err := d.do(cuModuleGetFunction, d.addr(0), uintptr(m), uintptr(unsafe.Pointer(&d.name[0]))); err != nil {
		return 0, fmt.Errorf("kernel %s: %w", name, err)
	}
	return Function(d.out[0]), nil
}

// Launch starts a kernel. The driver has copied the arguments when it returns.
func (d *cuda) Launch(f Function, shape Shape, s Stream, a *Args) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.param = uintptr(unsafe.Pointer(unsafe.SliceData(a.Bytes())))
	err := d.do(cuLaunchKernel, uintptr(f),
		uintptr(shape.Grid[0]), uintptr(shape.Grid[1]), uintptr(shape.Grid[2]),
		uintptr(shape.Block[0]), uintptr(shape.Block[1]), uintptr(shape.Block[2]),
		uintptr(shape.Shared), uintptr(s), uintptr(unsafe.Pointer(&d.param)), 0)
	runtime.KeepAlive(a)
	return err
}

// nonBlocking streams do not wait for the default stream.
const nonBlocking = 1

// NewStream makes a stream.
func (d *cuda) NewStream() (Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.do(cuStreamCreate, d.addr(0), nonBlocking); err != nil {
		return 0, err
	}
	d.made = append(d.made, made{cuStreamDestroy, uintptr(d.out[0])})
	return Stream(d.out[0]), nil
}

// Sync waits for a stream.
func (d *cuda) Sync(s Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.do(cuStreamSynchronize, uintptr(s))
}

// NewEvent makes an event.
func (d *cuda) NewEvent() (Event, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.do(cuEventCreate, d.addr(0), 0); err != nil {
		return 0, err
	}
	d.made = append(d.made, made{cuEventDestroy, uintptr(d.out[0])})
	return Event(d.out[0]), nil
}

// Record makes the event happen when the stream comes to it.
func (d *cuda) Record(e Event, s Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.do(cuEventRecord, uintptr(e), uintptr(s))
}

// Wait makes the stream wait for the event.
func (d *cuda) Wait(s Stream, e Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.do(cuStreamWaitEvent, uintptr(s), uintptr(e), 0)
}

// Elapsed returns the time between two events.
func (d *cuda) Elapsed(from, to Event) (float64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.do(cuEventElapsedTime, d.addr(0), uintptr(from), uintptr(to))
	return float64(math.Float32frombits(uint32(d.out[0]))), err
}
