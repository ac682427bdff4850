package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// chunkLen is how many elements at a time are processed by kernels that convert as they go: the
// buffers of a chunk lie on the stack and stay in the first-level cache.
const chunkLen = 512

// chunkFloat are the types that chunks are computed in.
type chunkFloat interface{ float32 | float64 }

// chunkNative reports whether T is the Go type of elements of type d.
func chunkNative[T chunkFloat](d graph.DType) bool {
	var e T
	switch any(e).(type) {
	case float32:
		return d == graph.Float32
	default:
		return d == graph.Float64
	}
}

// chunkIn returns the elements lo..hi-1 of a float operand: its memory if they are of type T, else
// buf with the converted elements. hi-lo is at most chunkLen. For example, float16 elements become
// float32.
func chunkIn[T chunkFloat](d graph.DType, data []byte, lo, hi int, buf []T) []T {
	if chunkNative[T](d) {
		return executor.Cast[T](data)[lo:hi]
	}
	buf = buf[:hi-lo]
	switch d {
	case graph.Float32:
		chunkConvert(buf, executor.Cast[float32](data)[lo:hi])
	case graph.Float64:
		chunkConvert(buf, executor.Cast[float64](data)[lo:hi])
	default:
		var wide [chunkLen]float32
		w := wide[:hi-lo]
		widen(w, d, data[2*lo:2*hi])
		chunkConvert(buf, w)
	}
	return buf
}

// chunkOut returns where to compute the elements lo..hi-1 of a float operand: in its memory,
// or in buf, from where chunkStore takes them.
func chunkOut[T chunkFloat](d graph.DType, data []byte, lo, hi int, buf []T) []T {
	if chunkNative[T](d) {
		return executor.Cast[T](data)[lo:hi]
	}
	return buf[:hi-lo]
}

// chunkStore stores the result of chunkOut as elements lo, lo+1, ...
func chunkStore[T chunkFloat](d graph.DType, data []byte, lo int, from []T) {
	if chunkNative[T](d) {
		return
	}
	hi := lo + len(from)
	switch d {
	case graph.Float32:
		chunkConvert(executor.Cast[float32](data)[lo:hi], from)
	case graph.Float64:
		chunkConvert(executor.Cast[float64](data)[lo:hi], from)
	default:
		var wide [chunkLen]float32
		w := wide[:len(from)]
		chunkConvert(w, from)
		narrow(d, data[2*lo:2*hi], w)
	}
}

func chunkConvert[D, S chunkFloat](dst []D, src []S) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = D(v)
	}
}

// isReal reports whether chunks can hold elements of a type.
func isReal(d graph.DType) bool { return d == graph.Float32 || d == graph.Float64 || isHalf(d) }

// realScalar returns the single element of a float operand.
func realScalar(t *executor.Tensor) (float64, bool) {
	if t.Len() != 1 || !isReal(t.DType) {
		return 0, false
	}
	var buf [1]float64
	return chunkIn(t.DType, t.Data, 0, 1, buf[:])[0], true
}

// storeReals stores numbers as elements lo, lo+1, ... of any numeric type, or bool. For integer
// types, fractions are cut off. There are at most chunkLen numbers.
func storeReals(d graph.DType, data []byte, lo int, from []float64) {
	switch d {
	case graph.Float64:
		copy(executor.Cast[float64](data)[lo:], from)
	case graph.Float32, graph.Float16, graph.BFloat16:
		chunkStore(d, data, lo, from)
	case graph.Bool:
		for i, v := range from {
			data[lo+i] = 0
			if v != 0 {
				data[lo+i] = 1
			}
		}
	case graph.Int8, graph.Uint8:
		storeInts(executor.Cast[uint8](data)[lo:], from)
	case graph.Int16, graph.Uint16:
		storeInts(executor.Cast[uint16](data)[lo:], from)
	case graph.Int32, graph.Uint32:
		storeInts(executor.Cast[uint32](data)[lo:], from)
	case graph.Int64, graph.Uint64:
		storeInts(executor.Cast[uint64](data)[lo:], from)
	}
}

// storeInts stores the low bits of the numbers' integer parts.
func storeInts[T uint8 | uint16 | uint32 | uint64](dst []T, from []float64) {
	dst = dst[:len(from)]
	for i, v := range from {
		dst[i] = T(int64(v))
	}
}

// canStoreReals reports whether storeReals knows a type.
func canStoreReals(d graph.DType) bool {
	return isReal(d) || d == graph.Bool || d.IsInteger() && d.Bits() >= 8
}
