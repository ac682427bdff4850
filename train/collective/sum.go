package collective

import (
	"fmt"
	"unsafe"

	"memopt/graph"
	"memopt/internal/simd"
)

// Add sets dst to a + b, element by element of a type that can be summed. All have dst's length, a
// multiple of the element's, and lie at addresses that are multiples of it; dst may be a or b.
func Add(d graph.DType, dst, a, b []byte) {
	if d == graph.Float64 {
		addFloat64(elements[float64](dst), elements[float64](a), elements[float64](b))
		return
	}
	simd.Add(elements[float32](dst), elements[float32](a), elements[float32](b))
}

func addFloat64(dst, a, b []float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

// elements is the memory of a buffer as numbers.
func elements[T float32 | float64](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// Check returns an error for an operation that is invalid on a buffer for a number of ranks.
func Check(op Op, d graph.DType, buf []byte, ranks int) error {
	sums := op == AllReduce || op == ReduceScatter
	if !sums && op != AllGather {
		return fmt.Errorf("%v is no operation of a group", op)
	}
	if sums && d != graph.Float32 && d != graph.Float64 {
		return fmt.Errorf("%v of %v: only elements of type float and double can be summed", op, d)
	}
	size := max(d.Bits()/8, 1)
	if len(buf)%size != 0 {
		return fmt.Errorf("%v of %v: %d bytes are no whole number of elements of %d bytes", op, d, len(buf), size)
	}
	if at := uintptr(unsafe.Pointer(unsafe.SliceData(buf))); sums && at%uintptr(size) != 0 {
		return fmt.Errorf("%v of %v: the buffer lies at %#x, which is no multiple of %d", op, d, at, size)
	}
	if op != AllReduce && len(buf)%(ranks*size) != 0 {
		return fmt.Errorf("%v of %v: a buffer of %d bytes has no equal pieces for %d ranks", op, d, len(buf), ranks)
	}
	return nil
}
