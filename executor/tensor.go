package executor

import (
	"fmt"
	"math/bits"
	"unsafe"

	"memopt/graph"
	"memopt/internal/half"
)

// Tensor is a dense array in row-major order. It does not own its memory.
type Tensor struct {
	DType graph.DType
	Shape []int // no dim is negative; empty for a scalar
	// Data are Len elements, little-endian, from a multiple of 8 bytes on. Elements of less than a byte
	// are packed ([memopt/executor/small]).
	Data []byte
}

// Len returns the number of elements.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Rank returns the number of dimensions.
func (t *Tensor) Rank() int { return len(t.Shape) }

// String prints the type as ONNX's text form does: float[2,3].
func (t *Tensor) String() string {
	s := t.DType.String() + "["
	for i, d := range t.Shape {
		if i > 0 {
			s += ","
		}
		s += fmt.Sprint(d)
	}
	return s + "]"
}

// Elem lists the Go types of elements. A bool is a uint8 that is 0 or 1.
type Elem interface {
	float32 | float64 | half.Float16 | half.BFloat16 |
		int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// Of returns the elements of a tensor as a slice of its memory. T must be the Go type of the
// tensor's elements, or another of the same size. For example, Of[uint16] reads a float16 tensor's
// bits.
func Of[T Elem](t *Tensor) []T { return Cast[T](t.Data) }

// Cast views memory as elements.
func Cast[T Elem](data []byte) []T {
	var e T
	n := len(data) / int(unsafe.Sizeof(e))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), n)
}

// Memory views elements as bytes.
func Memory[T Elem](elems []T) []byte {
	var e T
	if len(elems) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(elems))), len(elems)*int(unsafe.Sizeof(e)))
}

// NewTensor makes a tensor on Go's heap with the given contents; for tests and small inputs.
func NewTensor[T Elem](d graph.DType, shape []int, elems ...T) *Tensor {
	return &Tensor{DType: d, Shape: shape, Data: Memory(elems)}
}

// Bytes returns the memory that the elements of a tensor of a shape need; those of less than a byte are
// packed, so that three of 4 bits need 2 bytes. ok is false if a dim is negative or the product overflows int.
func Bytes(d graph.DType, shape []int) (n int, ok bool) {
	width := uint64(d.Bits())
	packed := width%8 != 0
	p := width
	if !packed {
		p /= 8
	}
	for _, dim := range shape {
		if dim < 0 {
			return 0, false
		}
		hi, lo := bits.Mul64(p, uint64(dim))
		if hi != 0 || lo > 1<<62 {
			// A later 0 would make the product 0 again, but intermediate products must fit, too.
			return 0, false
		}
		p = lo
	}
	if packed {
		p = (p + 7) / 8
	}
	return int(p), true
}
