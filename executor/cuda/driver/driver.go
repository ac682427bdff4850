// Package driver opens NVIDIA's libraries by name and at run time: libcuda, libcublas, libcudnn and
// libnvidia-ml. Neither cgo nor a toolkit is needed to build it, and if a library is absent, Open
// says so.
//
// Driver is all that executor/cuda asks of it, so that a double on the host can stand in
// (internal/test/double).
package driver

import (
	"fmt"
	"unsafe"
)

// Driver is one device, opened. Memory of the device is a []byte whose address is valid only on the
// device: the host must not read or write it. Work of one stream is done in the order of the
// requests.
//
// A Driver is safe for concurrent use. After an error with Sticky true all calls fail: close the
// driver and open a new one.
type Driver interface {
	Info() Info
	// Alloc returns n bytes of the device's memory at a multiple of 256. The error wraps
	// ErrOutOfMemory if there is not enough.
	Alloc(n int) ([]byte, error)
	// Free frees memory of Alloc, once all requested work is done.
	Free(b []byte) error
	// Pin returns n bytes of the host's memory that the device can read by itself: copies from
	// there may be under way when they return, and graphs read it whenever they are replayed. Unpin
	// gives them back.
	Pin(n int) ([]byte, error)
	Unpin(b []byte) error
	// MemInfo returns how many bytes of the device's memory are free, and how many there are.
	MemInfo() (free, total int64, err error)
	// ProcessMemory returns the bytes of the device that belong to this process, as the management
	// library counts them, or false if it cannot say.
	ProcessMemory() (int64, bool)

	// From the host; src may be changed when it returns, and in a capture, unless it is pinned.
	CopyIn(s Stream, dst, src []byte) error
	CopyOut(s Stream, dst, src []byte) error // to the host; done when it returns
	// CopyOutAsync copies to the host's memory that Pin gave, and may be under way when it returns.
	CopyOutAsync(s Stream, dst, src []byte) error
	Copy(s Stream, dst, src []byte) error // within the device; they do not overlap
	Fill(s Stream, dst []byte, value byte) error

	// Load compiles a module of kernels for the device. name is for messages.
	Load(name string, image []byte) (Module, error)
	Function(m Module, name string) (Function, error)
	// Launch runs a kernel whose one parameter is the struct packed in a.
	Launch(f Function, shape Shape, s Stream, a *Args) error
	// Gemm multiplies matrices with the vendor's library. The error wraps a *Missing if the library
	// is missing, even for an empty product.
	Gemm(s Stream, g *Gemm) error

	// ConvAlgos lists the algorithms of the vendor's library for a convolution, best first.
	// SearchExhaustive runs and times them on the operands of c, overwriting the one that is
	// computed, and leaves out those whose workspace is larger than that of c; the others only use
	// c's ConvCase. The error wraps a *Missing if the library is missing, and a *Refused if it does
	// not offer the case.
	ConvAlgos(s Stream, c *Conv, how ConvSearch) ([]ConvAlgo, error)
	// Convolve runs a convolution by an algorithm that ConvAlgos has named for its ConvCase.
	Convolve(s Stream, c *Conv) error

	NewStream() (Stream, error)
	Sync(s Stream) error // waits for the stream, and returns errors of its work
	NewEvent() (Event, error)
	// Record makes the event happen when the stream has done all work requested so far. Wait makes
	// a stream wait for the latest record: the event may be recorded again right afterwards.
	Record(e Event, s Stream) error
	Wait(s Stream, e Event) error
	// Elapsed returns the milliseconds between two events that have happened.
	Elapsed(from, to Event) (float64, error)

	// BeginCapture records the later work of the stream instead of doing it; EndCapture makes a
	// graph of it, which Replay does at once. Streams that wait for an event that was recorded
	// meanwhile become a part of the capture, until it ends; before that its stream waits for all
	// of their work.
	BeginCapture(s Stream) error
	EndCapture(s Stream) (Graph, error)
	Replay(g Graph, s Stream) error
	FreeGraph(g Graph) error

	Close() error
}

// Handles, as the driver gives them.
type (
	Stream   uintptr
	Event    uintptr
	Module   uintptr
	Function uintptr
	Graph    uintptr
)

// Info describes a device.
type Info struct {
	Name           string
	Ordinal        int
	Major, Minor   int // compute capability
	Processors     int // streaming multiprocessors
	Memory         int64
	DriverVersion  int // of CUDA that the driver supports: 1000*major + 10*minor
	SharedPerBlock int // bytes
}

// Shape is a launch's number of blocks and of threads in each, and the bytes of dynamic shared
// memory of a block.
type Shape struct {
	Grid, Block [3]uint32
	Shared      uint32
}

// Line returns the shape of a launch of blocks in a row.
func Line(blocks, threads int) Shape {
	return Shape{Grid: [3]uint32{uint32(blocks), 1, 1}, Block: [3]uint32{uint32(threads), 1, 1}}
}

// Address returns the first address of device memory, 0 for a nil slice.
func Address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// Memory views n bytes of device memory at an address.
func Memory(address uintptr, n int) []byte {
	// The address is the device's, so it is not a pointer that Go could know.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&address)), n)
}

// Elem is the type of a product's elements.
type Elem uint8

const (
	F32 Elem = iota
	F64
	F16
	BF16
)

var elemNames = [...]string{"float32", "float64", "float16", "bfloat16"}
var elemSizes = [...]int{4, 8, 2, 2}

// String returns the type's name.
func (e Elem) String() string { return elemNames[e] }

// Size returns the bytes of an element.
func (e Elem) Size() int { return elemSizes[e] }

// Gemm is a batch of products C = Alpha*A'*B' + Beta*C of matrices in rows: A' of M rows and K
// columns, B' of K rows and N columns. Where Trans, the operand lies transposed. Strides count
// elements from one product of the batch to the next. Half types are summed up in float32.
type Gemm struct {
	Elem                      Elem
	TransA, TransB            bool
	M, N, K                   int
	Alpha, Beta               float64
	A, B, C                   []byte
	LDA, LDB, LDC             int
	StrideA, StrideB, StrideC int
	Batch                     int
	TF32                      bool   // float32 operands may be rounded to 10 bits
	Workspace                 []byte // of the device, for the library; may be empty
}

// Extents returns the bytes that a product's operands cover.
func (g *Gemm) Extents() (a, b, c int) {
	rows := func(trans bool, r, c, ld, stride int) int {
		if trans {
			r, c = c, r
		}
		if r == 0 || c == 0 || g.Batch == 0 {
			return 0
		}
		return ((g.Batch-1)*stride + (r-1)*ld + c) * g.Elem.Size()
	}
	return rows(g.TransA, g.M, g.K, g.LDA, g.StrideA), rows(g.TransB, g.K, g.N, g.LDB, g.StrideB),
		rows(false, g.M, g.N, g.LDC, g.StrideC)
}

// Missing says that a library or a device is missing.
type Missing struct{ Err error }

func (e *Missing) Error() string { return e.Err.Error() }
func (e *Missing) Unwrap() error { return e.Err }

// Error is the error code of a library's call.
type Error struct {
	Call   string
	Code   int
	Name   string // CUDA_ERROR_...
	Text   string
	Sticky bool // the device's context is lost
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text) }
