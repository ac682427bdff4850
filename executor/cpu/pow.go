package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/simd"
)

// newPow makes the kernel of Pow: x^y in the type of x; y may have another type.
//
// Floating-point x: the power is computed in float64 and rounded, except that the exponents 2 and 3
// become products and 1/2 a square root, which is as accurate or better. Integer x: with an integer
// y, the product of y factors, which wraps around; 1/x^|y| without its fraction for negative y;
// with any other y, the power in float64, converted as Cast does.
//
// https://onnx.ai/onnx/operators/onnx__Pow.html
func newPow(p *executor.Prep) (executor.Kernel, error) {
	if p.Version < 7 {
		return nil, p.Unsupported("schema version %d stretches operands by attributes; from 7 on there is a kernel",
			p.Version)
	}
	base, exponent := p.DType(0), p.DType(1)
	if !elemCastable(exponent) || exponent == graph.Bool {
		return nil, unsupportedTypes(p)
	}
	as, exponentAs := elemWide(base), graph.Float64
	if base.IsInteger() && exponent.IsInteger() {
		exponentAs = graph.Int64
	}
	loop, one := powLoops(as, exponentAs)
	if loop == nil {
		return nil, unsupportedTypes(p)
	}
	k := &elemKernel{loop: loop, grain: elemHeavy, out: elemOut(p, 0, as),
		in: []elemInput{elemIn(p, 0, as), elemIn(p, 1, exponentAs)}}
	if one != nil {
		k.ready = func(k *elemKernel) {
			k.loop = loop
			if in := &k.in[1]; in.place == elemOne && k.n > 0 {
				if l := one(executor.Cast[float64](in.fill)[0]); l != nil {
					k.loop = l
				}
			}
		}
	}
	return k, nil
}

// powLoops returns the loop of Pow for a type of the base and one of the exponent, float64 or
// int64, and the function that chooses a loop for one exponent.
func powLoops(base, exponent graph.DType) (loop elemLoop, one func(y float64) elemLoop) {
	switch base {
	case graph.Float32:
		return loop2(powLoop[float32]), onePower(square)
	case graph.Float64:
		return loop2(powLoop[float64]), onePower(squareLoop[float64])
	case graph.Int8:
		return integerPow[int8](exponent, math.MinInt8, math.MaxInt8), nil
	case graph.Int16:
		return integerPow[int16](exponent, math.MinInt16, math.MaxInt16), nil
	case graph.Int32:
		return integerPow[int32](exponent, math.MinInt32, math.MaxInt32), nil
	case graph.Int64:
		return integerPow[int64](exponent, math.MinInt64, math.MaxInt64), nil
	case graph.Uint8:
		return integerPow[uint8](exponent, 0, math.MaxUint8), nil
	case graph.Uint16:
		return integerPow[uint16](exponent, 0, math.MaxUint16), nil
	case graph.Uint32:
		return integerPow[uint32](exponent, 0, math.MaxUint32), nil
	case graph.Uint64:
		return integerPow[uint64](exponent, 0, math.MaxUint64), nil
	}
	return nil, nil
}

// onePower returns a function that gives the loop for a simple exponent; that of 2 is given.
func onePower[T elemFloat](of2 func(dst, a []T)) func(y float64) elemLoop {
	square, cube, root := loop1(of2), loop1(cubeLoop[T]), loop1(powRootLoop[T])
	return func(y float64) elemLoop {
		switch y {
		case 2:
			return square
		case 3:
			return cube
		case 0.5:
			return root
		}
		return nil
	}
}

func powLoop[T elemFloat](dst, a []T, b []float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, x := range a {
		switch y := b[i]; y {
		case 2:
			dst[i] = x * x
		case 3:
			dst[i] = cube(x)
		case 0.5:
			dst[i] = powRoot(x)
		default:
			dst[i] = T(math.Pow(float64(x), y))
		}
	}
}

func square(dst, a []float32) { simd.Mul(dst, a, a) }

func squareLoop[T elemFloat](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = x * x
	}
}

func cubeLoop[T elemFloat](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = cube(x)
	}
}

func powRootLoop[T elemFloat](dst, a []T) {
	a = a[:len(dst)]
	for i, x := range a {
		dst[i] = powRoot(x)
	}
}

func cube[T elemFloat](x T) T {
	w := float64(x)
	return T(w * w * w)
}

// powRoot returns x^(1/2), which for -0 is 0 and for -Inf is +Inf, unlike the square root.
func powRoot[T elemFloat](x T) T {
	w := float64(x) + 0
	if w < -math.MaxFloat64 {
		w = -w
	}
	return T(math.Sqrt(w))
}

func integerPow[T elemInteger](exponent graph.DType, least, most T) elemLoop {
	if exponent == graph.Int64 {
		return loop2(func(dst, a []T, b []int64) {
			a, b = a[:len(dst)], b[:len(dst)]
			for i, x := range a {
				dst[i] = intPow(x, b[i], most)
			}
		})
	}
	return loop2(func(dst, a []T, b []float64) {
		a, b = a[:len(dst)], b[:len(dst)]
		for i, x := range a {
			dst[i] = truncated(math.Pow(float64(x), b[i]), least, most)
		}
	})
}

// intPow returns x^y. 0 to a negative power gives most, just as infinity does when converted.
func intPow[T elemInteger](x T, y int64, most T) T {
	if y < 0 {
		var zero T
		switch minus := zero - 1; {
		case x == 0:
			return most
		case x == 1 || x == minus && minus < 0 && y&1 == 0:
			return 1
		case x == minus && minus < 0:
			return minus
		}
		return 0
	}
	p := T(1)
	for ; y > 0; y >>= 1 {
		if y&1 == 1 {
			p *= x
		}
		x *= x
	}
	return p
}
