package data

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/half"
)

// convert copies elements of one type to memory of another's. The source need not be aligned.
type convert func(dst, src []byte)

// converter returns the conversion between two types, or nil. It is exact where lossless says so,
// or if the values are known to fit.
func converter(from, to graph.DType) convert {
	switch {
	case from == to:
		return func(dst, src []byte) { copy(dst, src) }
	case to == graph.Bool:
		return nil
	}
	switch from {
	case graph.Bool, graph.Uint8:
		return castFrom[uint8](to)
	case graph.Int8:
		return castFrom[int8](to)
	case graph.Uint16:
		return castFrom[uint16](to)
	case graph.Int16:
		return castFrom[int16](to)
	case graph.Uint32:
		return castFrom[uint32](to)
	case graph.Int32:
		return castFrom[int32](to)
	case graph.Uint64:
		return castFrom[uint64](to)
	case graph.Int64:
		return castFrom[int64](to)
	case graph.Float32:
		return castFrom[float32](to)
	case graph.Float16:
		return widenFrom[half.Float16](to)
	case graph.BFloat16:
		return widenFrom[half.BFloat16](to)
	}
	return nil
}

type number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

func castFrom[F number](to graph.DType) convert {
	switch to {
	case graph.Uint8:
		return cast[F, uint8]
	case graph.Int8:
		return cast[F, int8]
	case graph.Uint16:
		return cast[F, uint16]
	case graph.Int16:
		return cast[F, int16]
	case graph.Uint32:
		return cast[F, uint32]
	case graph.Int32:
		return cast[F, int32]
	case graph.Uint64:
		return cast[F, uint64]
	case graph.Int64:
		return cast[F, int64]
	case graph.Float32:
		return cast[F, float32]
	case graph.Float64:
		return cast[F, float64]
	case graph.Float16:
		return func(dst, src []byte) {
			d := executor.Cast[half.Float16](dst)
			for i, v := range executor.Cast[F](src) {
				d[i] = half.Float16From(float32(v))
			}
		}
	case graph.BFloat16:
		return func(dst, src []byte) {
			d := executor.Cast[half.BFloat16](dst)
			for i, v := range executor.Cast[F](src) {
				d[i] = half.BFloat16From(float32(v))
			}
		}
	}
	return nil
}

func cast[F, T number](dst, src []byte) {
	d := executor.Cast[T](dst)
	for i, v := range executor.Cast[F](src) {
		d[i] = T(v)
	}
}

// halfFloat is float16 or bfloat16.
type halfFloat interface {
	half.Float16 | half.BFloat16
	Float32() float32
}

func widenFrom[F halfFloat](to graph.DType) convert {
	switch to {
	case graph.Float32:
		return widen[F, float32]
	case graph.Float64:
		return widen[F, float64]
	}
	return nil
}

func widen[F halfFloat, T float32 | float64](dst, src []byte) {
	d := executor.Cast[T](dst)
	for i, v := range executor.Cast[F](src) {
		d[i] = T(v.Float32())
	}
}

// significand has the binary digits of a floating-point type, the leading 1 included.
func significand(d graph.DType) int {
	switch d {
	case graph.Float64:
		return 53
	case graph.Float32:
		return 24
	case graph.Float16:
		return 11
	case graph.BFloat16:
		return 8
	}
	return 0
}

// digits has the binary digits of an integer or bool, the sign left out.
func digits(d graph.DType) int {
	switch d {
	case graph.Bool:
		return 1
	case graph.Int8, graph.Int16, graph.Int32, graph.Int64:
		return d.Bits() - 1
	}
	return d.Bits()
}

func signed(d graph.DType) bool { return d.IsInteger() && digits(d) < d.Bits() }

// lossless reports whether every value of one type is a value of another.
func lossless(from, to graph.DType) bool {
	switch {
	case from == to:
		return true
	case converter(from, to) == nil:
		return false
	case from.IsFloat():
		// float16 and bfloat16 are not converted into each other; both have less of an exponent than
		// float32, or the same.
		return to.IsFloat() && significand(from) < significand(to)
	case to.IsFloat():
		return digits(from) <= significand(to)
	}
	return digits(from) <= digits(to) && (!signed(from) || signed(to))
}

// conversion returns how elements of a type become elements of an input. Integers that do not fit
// into the input's type by their own are taken where Check holds them to a range that does.
func conversion(from graph.DType, in *Input) (convert, error) {
	c := converter(from, in.DType)
	ranged := in.Classes > 0 && from.IsInteger() && in.DType.IsInteger() &&
		digits(in.DType) < 64 && in.Classes-1 <= int64(1)<<digits(in.DType)-1 &&
		(!in.HasIgnore || in.Ignore >= 0 && in.Ignore>>digits(in.DType) == 0 ||
			signed(in.DType) && in.Ignore>>digits(in.DType) == -1)
	if c != nil && (lossless(from, in.DType) || ranged) {
		return c, nil
	}
	return nil, fmt.Errorf("has elements of type %v; input %q takes %v, and not every %v is one: "+
		"convert the data (numpy: astype)", from, in.Name, in.DType, from)
}

// scaled returns a conversion to a floating-point type that divides, in float64. from has at most
// 16 bits, so that the quotients are a table.
func scaled(from, to graph.DType, divisor float64) (convert, error) {
	wide := converter(from, graph.Float64)
	narrow := wide != nil && from.IsInteger() && from.Bits() <= 16
	if !narrow || significand(to) == 0 {
		return nil, fmt.Errorf("cannot be divided from %v to %v: "+
			"wanted integers of at most 16 bits, and floats", from, to)
	}
	n := 1 << from.Bits()
	keys, quotients := make([]byte, 2*n), make([]float64, n)
	size := from.Bits() / 8
	for i := range n {
		keys[i*size] = byte(i)
		if size == 2 {
			keys[i*2+1] = byte(i >> 8)
		}
	}
	wide(executor.Memory(quotients), keys[:n*size])
	for i := range quotients {
		quotients[i] /= divisor
	}
	switch to {
	case graph.Float64:
		return looked(from, quotients), nil
	case graph.Float32:
		return looked(from, rounded(quotients, func(v float64) float32 { return float32(v) })), nil
	case graph.Float16:
		return looked(from, rounded(quotients, func(v float64) half.Float16 {
			return half.Float16From(float32(v))
		})), nil
	}
	return looked(from, rounded(quotients, func(v float64) half.BFloat16 {
		return half.BFloat16From(float32(v))
	})), nil
}

func rounded[T executor.Elem](values []float64, round func(float64) T) []T {
	out := make([]T, len(values))
	for i, v := range values {
		out[i] = round(v)
	}
	return out
}

// looked returns a conversion that looks elements up by their bits.
func looked[T executor.Elem](from graph.DType, table []T) convert {
	if from.Bits() == 8 {
		return func(dst, src []byte) {
			d := executor.Cast[T](dst)
			for i, v := range src {
				d[i] = table[v]
			}
		}
	}
	return func(dst, src []byte) {
		d := executor.Cast[T](dst)
		for i, v := range executor.Cast[uint16](src) {
			d[i] = table[v]
		}
	}
}
