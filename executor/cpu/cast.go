package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// newCast makes the kernels of Cast and CastLike.
//
// Floating-point numbers become integers by cutting off the fraction. Where the specification
// leaves the result open, numbers outside the integer type's range become the nearest one in it,
// and NaN becomes 0, as on GPUs. Integers are narrowed to their lower bits. Anything but 0 becomes
// true; true becomes 1. Rounding to a narrower floating-point type is to nearest, ties to even.
//
// https://onnx.ai/onnx/operators/onnx__Cast.html
func newCast(p *executor.Prep) (executor.Kernel, error) {
	from, to := p.DType(0), p.DType(1)
	if p.Node.Kind == op.Cast {
		to = graph.DType(p.Node.Int("to", 0))
		if p.Wants(0) && p.Out[0] != to {
			return nil, p.Errorf("attribute to is %v, but output 0 is of type %v", to, p.Out[0])
		}
	}
	for _, d := range []graph.DType{from, to} {
		if !elemCastable(d) && !isSmall(d) {
			return nil, p.Unsupported("no conversion from %v to %v: %v is not supported", from, to, d)
		}
	}
	if isSmall(from) || isSmall(to) {
		return newSmallCast(p, from, to)
	}
	loop := copyLoop
	if convert := elemConversion(from, to); convert != nil {
		loop = func(dst, a, _, _ []byte) { convert(dst, a) }
	}
	return &elemKernel{loop: loop, grain: elemLight, in: []elemInput{elemIn(p, 0, from)}, out: elemOut(p, 0, to)}, nil
}

// elemCastable reports whether there are conversions from and to a type.
func elemCastable(d graph.DType) bool {
	switch d {
	case graph.Bool, graph.Float32, graph.Float64, graph.Float16, graph.BFloat16, graph.Int8, graph.Int16, graph.Int32,
		graph.Int64, graph.Uint8, graph.Uint16, graph.Uint32, graph.Uint64:
		return true
	}
	return false
}

// elemConversion returns the conversion between two types, or nil if they are the same or have no
// conversion.
func elemConversion(from, to graph.DType) elemConvert {
	switch {
	case from == to || !elemCastable(from) || !elemCastable(to):
		return nil
	case isHalf(from) && to == graph.Float32:
		return func(dst, src []byte) { widen(executor.Cast[float32](dst), from, src) }
	case from == graph.Float32 && isHalf(to):
		return func(dst, src []byte) { narrow(to, dst, executor.Cast[float32](src)) }
	case isHalf(from):
		return fromHalf(from, elemConversion(graph.Float32, to), to.Bits()/8)
	}
	switch from {
	case graph.Float32:
		return convertFrom[float32](to)
	case graph.Float64:
		return convertFrom[float64](to)
	case graph.Int8:
		return convertFrom[int8](to)
	case graph.Int16:
		return convertFrom[int16](to)
	case graph.Int32:
		return convertFrom[int32](to)
	case graph.Int64:
		return convertFrom[int64](to)
	case graph.Uint16:
		return convertFrom[uint16](to)
	case graph.Uint32:
		return convertFrom[uint32](to)
	case graph.Uint64:
		return convertFrom[uint64](to)
	}
	return convertFrom[uint8](to) // and bools, which are 0 or 1
}

func convertFrom[A elemNumber](to graph.DType) elemConvert {
	switch to {
	case graph.Bool:
		return convertLoop(toBool[A])
	case graph.Float32:
		return convertLoop(toFloat[float32, A])
	case graph.Float64:
		return convertLoop(toFloat[float64, A])
	case graph.Float16, graph.BFloat16:
		return toHalf[A](to)
	case graph.Int8:
		return toInteger[int8, A](math.MinInt8, math.MaxInt8)
	case graph.Int16:
		return toInteger[int16, A](math.MinInt16, math.MaxInt16)
	case graph.Int32:
		return toInteger[int32, A](math.MinInt32, math.MaxInt32)
	case graph.Int64:
		return toInteger[int64, A](math.MinInt64, math.MaxInt64)
	case graph.Uint8:
		return toInteger[uint8, A](0, math.MaxUint8)
	case graph.Uint16:
		return toInteger[uint16, A](0, math.MaxUint16)
	case graph.Uint32:
		return toInteger[uint32, A](0, math.MaxUint32)
	}
	return toInteger[uint64, A](0, math.MaxUint64)
}

func convertLoop[R, A executor.Elem](f func(dst []R, src []A)) elemConvert {
	return func(dst, src []byte) { f(executor.Cast[R](dst), executor.Cast[A](src)) }
}

func toBool[A elemNumber](dst []uint8, src []A) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = elemTruth(src[i] != 0)
	}
}

func toFloat[R elemFloat, A elemNumber](dst []R, src []A) {
	src = src[:len(dst)]
	for i := range dst {
		dst[i] = R(src[i])
	}
}

// toInteger converts to an integer type with the given smallest and largest number.
func toInteger[R elemInteger, A elemNumber](least, most R) elemConvert {
	half := 0.5
	if A(half) == 0 { // integers
		return convertLoop(func(dst []R, src []A) {
			src = src[:len(dst)]
			for i := range dst {
				dst[i] = R(src[i])
			}
		})
	}
	return convertLoop(func(dst []R, src []A) {
		src = src[:len(dst)]
		for i := range dst {
			dst[i] = truncated(float64(src[i]), least, most)
		}
	})
}

// truncated cuts off the fraction of x and clamps it to two bounds; NaN becomes 0.
//
// float64 cannot represent the upper bound of 64 bits: it is rounded up, to the first number that
// is too large.
func truncated[R elemInteger](x float64, least, most R) R {
	switch {
	case x >= float64(most):
		return most
	case x > float64(least):
		return R(x)
	case x <= float64(least):
		return least
	}
	return 0
}

// halfChunk is the number of elements that pass through float32 at a time on their way from or to
// 16 bits.
const halfChunk = chunkLen

// toHalf rounds numbers to a 16-bit type.
func toHalf[A elemNumber](to graph.DType) elemConvert {
	return func(dst, src []byte) {
		var wide [halfChunk]float32
		for a := executor.Cast[A](src); len(a) > 0; {
			n := min(len(a), halfChunk)
			for i, v := range a[:n] {
				wide[i] = oddFloat32(float64(v))
			}
			narrow(to, dst[:2*n], wide[:n])
			a, dst = a[n:], dst[2*n:]
		}
	}
}

// oddFloat32 rounds x to the one of the two adjacent float32 numbers whose last bit is odd.
// Rounding that again, to fewer bits, gives the same as rounding x at once would.
func oddFloat32(x float64) float32 {
	f := float32(x)
	if r := float64(f); r == x || x != x || math.IsInf(r, 0) {
		return f
	}
	b := math.Float32bits(f)
	if b&1 == 1 {
		return f
	}
	if away := math.Abs(float64(f)) > math.Abs(x); away {
		return math.Float32frombits(b - 1)
	}
	return math.Float32frombits(b + 1)
}

// fromHalf converts a 16-bit type by way of float32. size is the size of an element of the result.
func fromHalf(from graph.DType, next elemConvert, size int) elemConvert {
	if next == nil {
		return nil
	}
	return func(dst, src []byte) {
		m := takeBuffers()
		wide := elemFloats[float32](&m.b[0], halfChunk)
		for n := len(src) / 2; n > 0; n = len(src) / 2 {
			n = min(n, halfChunk)
			widen(wide[:n], from, src[:2*n])
			next(dst[:n*size], executor.Memory(wide[:n]))
			dst, src = dst[n*size:], src[2*n:]
		}
		m.giveBack()
	}
}
