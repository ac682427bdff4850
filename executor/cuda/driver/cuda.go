package driver

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"memopt/executor"
	"memopt/internal/library"
)

// minVersion is the oldest driver that has all functions: CUDA 11.4, for graphs.
const minVersion = 11040

// cuda is the real driver. All fields that C functions write to lie in it, on the heap, where they
// stay.
type cuda struct {
	mu    sync.Mutex
	c     call
	lib   uintptr
	fn    [numFunctions]uintptr
	ctx   uintptr
	dev   uintptr
	info  Info
	lost  error     // the first sticky error
	name  [256]byte // of the device, and of kernels that are looked for
	out   [4]uint64 // results by address
	log   [16 << 10]byte
	image []byte // that is being compiled
	opt   struct {
		keys   [4]int32
		values [4]uintptr
	}
	capture capture
	made    []made
	param   uintptr // the address of packed arguments, for cuLaunchKernel
	blas    *cublas
	dnn     *cudnn
	noDNN   error // why it is not there
	manager *nvml
}

// libraryNames are tried in order, unless MEMOPT_LIBCUDA names the file.
func libraryNames() []string {
	if path := os.Getenv("MEMOPT_LIBCUDA"); path != "" {
		return []string{path}
	}
	return []string{"libcuda.so.1", "libcuda.so"}
}

// Open opens device number ordinal. The error is a *Missing if there is no driver, no device or no
// such device.
func Open(ordinal int) (Driver, error) {
	lib, err := openLibrary(libraryNames())
	if err != nil {
		return nil, &Missing{
			fmt.Errorf("no NVIDIA driver: %w (it comes with the package of the driver; "+
				"MEMOPT_LIBCUDA may name the file)", firstLine(err)),
		}
	}
	d := &cuda{lib: lib, capture: capture{graphs: map[Graph][]uintptr{}, pinned: map[uintptr]int{}}}
	for i, name := range functionNames {
		if d.fn[i], err = symbol(lib, name); err != nil {
			return nil,
				&Missing{
					fmt.Errorf("the NVIDIA driver lacks %s: it is too old; version 470 of 2021 or later is wanted: %w",
						name, firstLine(err)),
				}
		}
	}
	library.Note("libcuda", libraryNames()[0], d.fn[cuInit])
	if err := d.open(ordinal); err != nil {
		return nil, err
	}
	return d, nil
}

// firstLine keeps an error to one line.
func firstLine(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(text)
}

func (d *cuda) open(ordinal int) error {
	if err := d.do(cuInit, 0); err != nil {
		return &Missing{fmt.Errorf("the NVIDIA driver does not start: %w", err)}
	}
	if err := d.do(cuDriverGetVersion, d.addr(0)); err != nil {
		return err
	}
	d.info.DriverVersion = int(int32(d.out[0]))
	if d.info.DriverVersion < minVersion {
		return &Missing{fmt.Errorf("the NVIDIA driver supports CUDA %d.%d; 11.4 or later is wanted: update the driver",
			d.info.DriverVersion/1000, d.info.DriverVersion%1000/10)}
	}
	if err := d.do(cuDeviceGetCount, d.addr(0)); err != nil {
		return err
	}
	if n := int(int32(d.out[0])); ordinal < 0 || ordinal >= n {
		return &Missing{fmt.Errorf("CUDA device %d: there are %d devices, numbered from 0", ordinal, n)}
	}
	if err := d.do(cuDeviceGet, d.addr(0), uintptr(ordinal)); err != nil {
		return err
	}
	d.dev = uintptr(int32(d.out[0]))
	if err := d.describe(ordinal); err != nil {
		return err
	}
	if d.info.Major < 7 {
		return &Missing{fmt.Errorf("CUDA device %d (%s) has compute capability %d.%d; 7.0 or later is wanted",
			ordinal, d.info.Name, d.info.Major, d.info.Minor)}
	}
	return d.enter()
}

// enter makes the device's context this driver's.
func (d *cuda) enter() error {
	if err := d.do(cuDevicePrimaryCtxRetain, d.addr(0), d.dev); err != nil {
		if errors.Is(err, executor.ErrOutOfMemory) {
			return err
		}
		return &Missing{fmt.Errorf("CUDA device %d (%s) cannot be used: %w", d.info.Ordinal, d.info.Name, err)}
	}
	d.ctx = uintptr(d.out[0])
	d.c.pre, d.c.ctx = d.fn[cuCtxSetCurrent], d.ctx
	// Any call shows whether a context that this process has lost before works again.
	if err := d.do(cuMemGetInfo, d.addr(0), d.addr(1)); err != nil {
		d.Close()
		return fmt.Errorf("the context of CUDA device %d (%s) does not work; one that was lost may come back in a "+
			"new process alone: start the program again: %w", d.info.Ordinal, d.info.Name, err)
	}
	if d.do(cuDeviceGetPCIBusId, uintptr(unsafe.Pointer(&d.name[0])), uintptr(len(d.name)), d.dev) == nil {
		d.manager = openNVML(&d.name)
	}
	return nil
}

// Attributes of cuDeviceGetAttribute.
const (
	attrSharedPerBlock = 8
	attrProcessors     = 16
	attrMajor          = 75
	attrMinor          = 76
)

func (d *cuda) describe(ordinal int) error {
	d.info.Ordinal = ordinal
	if err := d.do(cuDeviceGetName, uintptr(unsafe.Pointer(&d.name[0])), uintptr(len(d.name)), d.dev); err != nil {
		return err
	}
	d.info.Name = text(d.name[:])
	for _, a := range []struct {
		to   *int
		attr uintptr
	}{{&d.info.Major, attrMajor}, {&d.info.Minor, attrMinor}, {&d.info.Processors, attrProcessors},
		{&d.info.SharedPerBlock, attrSharedPerBlock}} {
		if err := d.do(cuDeviceGetAttribute, d.addr(0), a.attr, d.dev); err != nil {
			return err
		}
		*a.to = int(int32(d.out[0]))
	}
	if err := d.do(cuDeviceTotalMem, d.addr(0), d.dev); err != nil {
		return err
	}
	d.info.Memory = int64(d.out[0])
	return nil
}

// addr returns the address of result i, cleared.
func (d *cuda) addr(i int) uintptr {
	d.out[i] = 0
	return uintptr(unsafe.Pointer(&d.out[i]))
}

// text returns the string in a buffer up to its first zero.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

// do calls a function and turns its result into an error. The caller holds mu, or is alone.
func (d *cuda) do(f function, args ...uintptr) error {
	if d.lost != nil {
		return d.lost
	}
	d.c.fn = d.fn[f]
	if code := int32(d.c.do(args...)); code != 0 {
		return d.fail(functionNames[f], int(code))
	}
	return nil
}

// codeOutOfMemory is CUDA_ERROR_OUT_OF_MEMORY.
const codeOutOfMemory = 2

// sticky lists the codes of a lost context: faults of kernels and of the device.
func sticky(code int) bool {
	switch code {
	case 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999:
		return true
	}
	return false
}

// fail makes the error of a call.
func (d *cuda) fail(name string, code int) error {
	e := &Error{
		Call: name, Code: code, Name: d.describeCode(cuGetErrorName, code),
		Text: d.describeCode(cuGetErrorString, code), Sticky: sticky(code),
	}
	if code == codeOutOfMemory {
		return fmt.Errorf("%w: %w", executor.ErrOutOfMemory, e)
	}
	if e.Sticky {
		d.lost = e
	}
	return e
}

func (d *cuda) describeCode(f function, code int) string {
	pre := d.c.pre
	d.c.pre, d.c.fn = 0, d.fn[f]
	failed := int32(d.c.do(uintptr(code), d.addr(3))) != 0
	d.c.pre = pre
	if failed || d.out[3] == 0 {
		return "unknown"
	}
	// A string that the library owns for good.
	return text(Memory(uintptr(d.out[3]), lengthOf(uintptr(d.out[3]))))
}

// lengthOf returns the length of a C string, at most 255.
func lengthOf(address uintptr) int {
	for n := range 255 {
		if Memory(address, n+1)[n] == 0 {
			return n
		}
	}
	return 255
}

// made is a module, a stream or an event. Close destroys them: cuBLAS and cuDNN may hold on to the
// context, which then stays.
type made struct {
	destroy function
	handle  uintptr
}

// Info describes the device.
func (d *cuda) Info() Info { return d.info }

// Close releases the device.
func (d *cuda) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == 0 {
		return nil
	}
	if d.dnn != nil && d.lost == nil {
		d.dnn.close(d)
	}
	if d.blas != nil && d.lost == nil {
		d.blas.close(d)
	}
	for _, m := range slices.Backward(d.made) {
		if d.lost == nil {
			d.do(m.destroy, m.handle)
		}
	}
	lost := d.lost
	d.lost, d.c.pre, d.ctx, d.made = nil, 0, 0, nil
	var err error
	if lost != nil {
		// Only a reset clears a sticky error, so that the next Open finds a fresh context. It does
		// not release a retained one.
		err = d.do(cuDevicePrimaryCtxReset, d.dev)
		d.lost = nil
	}
	return errors.Join(err, d.do(cuDevicePrimaryCtxRelease, d.dev))
}

// ProcessMemory asks the management library.
func (d *cuda) ProcessMemory() (int64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.manager == nil {
		return 0, false
	}
	return d.manager.processMemory()
}
