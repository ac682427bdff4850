package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/simd"
)

// newNumberUnary makes the kernels of operators of one operand that take all numbers: Abs, Neg,
// Relu and Sign. The smallest integer is its own negative and absolute value. NaN stays NaN.
// https://onnx.ai/onnx/operators/onnx__Abs.html and so on.
func newNumberUnary(p *executor.Prep) (executor.Kernel, error) {
	d := p.DType(0)
	if loop := signBitLoop(p.Node.Kind, d); loop != nil {
		return elemNode(p, loop, d, d)
	}
	as := elemWide(d)
	return elemNode(p, numberLoop(p.Node.Kind, as), as, as)
}

// signBitLoop returns the loop of Abs and Neg on floating-point numbers: they only touch the sign
// bit.
func signBitLoop(kind graph.Kind, d graph.DType) elemLoop {
	if kind != op.Abs && kind != op.Neg {
		return nil
	}
	neg := kind == op.Neg
	switch d {
	case graph.Float16, graph.BFloat16:
		return signBit[uint16](1<<15, neg)
	case graph.Float32:
		return signBit[uint32](1<<31, neg)
	case graph.Float64:
		return signBit[uint64](1<<63, neg)
	}
	return nil
}

func signBit[T uint16 | uint32 | uint64](bit T, flip bool) elemLoop {
	if flip {
		return loop1(func(dst, a []T) {
			a = a[:len(dst)]
			for i := range dst {
				dst[i] = a[i] ^ bit
			}
		})
	}
	return loop1(func(dst, a []T) {
		a = a[:len(dst)]
		for i := range dst {
			dst[i] = a[i] &^ bit
		}
	})
}

func numberLoop(kind graph.Kind, d graph.DType) elemLoop {
	switch d {
	case graph.Float32:
		if kind == op.Relu {
			return loop1(simd.Relu)
		}
		return numberLoopOf[float32](kind)
	case graph.Float64:
		return numberLoopOf[float64](kind)
	case graph.Int8:
		return numberLoopOf[int8](kind)
	case graph.Int16:
		return numberLoopOf[int16](kind)
	case graph.Int32:
		return numberLoopOf[int32](kind)
	case graph.Int64:
		return numberLoopOf[int64](kind)
	case graph.Uint8:
		return numberLoopOf[uint8](kind)
	case graph.Uint16:
		return numberLoopOf[uint16](kind)
	case graph.Uint32:
		return numberLoopOf[uint32](kind)
	case graph.Uint64:
		return numberLoopOf[uint64](kind)
	}
	return nil
}

func numberLoopOf[T elemNumber](kind graph.Kind) elemLoop {
	switch kind {
	case op.Abs:
		return loop1(absLoop[T])
	case op.Neg:
		return loop1(negLoop[T])
	case op.Relu:
		return loop1(reluLoop[T])
	case op.Sign:
		return loop1(signLoop[T])
	case op.Erf:
		return loop1(mathLoop[T](math.Erf))
	}
	return nil
}

// absLoop is for integers.
func absLoop[T elemNumber](dst, a []T) {
	a = a[:len(dst)]
	for i, v := range a {
		if v < 0 {
			v = -v
		}
		dst[i] = v
	}
}

func negLoop[T elemNumber](dst, a []T) {
	a = a[:len(dst)]
	for i, v := range a {
		dst[i] = -v
	}
}

func reluLoop[T elemNumber](dst, a []T) {
	a = a[:len(dst)]
	for i, v := range a {
		dst[i] = max(v, 0)
	}
}

func signLoop[T elemNumber](dst, a []T) {
	var zero T
	one := zero + 1
	a = a[:len(dst)]
	for i, v := range a {
		switch {
		case v > 0:
			v = one
		case v < 0:
			v = zero - one
		}
		dst[i] = v
	}
}

// mathLoop applies a function of float64 to each element.
func mathLoop[T elemNumber](f func(float64) float64) func(dst, a []T) {
	return func(dst, a []T) {
		a = a[:len(dst)]
		for i, v := range a {
			dst[i] = T(f(float64(v)))
		}
	}
}

// newIsInf makes the kernel of IsInf; attributes say which signs count.
// https://onnx.ai/onnx/operators/onnx__IsInf.html
func newIsInf(p *executor.Prep) (executor.Kernel, error) {
	positive, negative := p.Node.Int("detect_positive", 1) != 0, p.Node.Int("detect_negative", 1) != 0
	return newFloatTest(p, func(signs uint8, frac bool) bool {
		return !frac && (signs == 0 && positive || signs == 1 && negative)
	}, false)
}

// newIsNaN makes the kernel of IsNaN. https://onnx.ai/onnx/operators/onnx__IsNaN.html
func newIsNaN(p *executor.Prep) (executor.Kernel, error) {
	return newFloatTest(p, func(_ uint8, frac bool) bool { return frac }, false)
}

// newIsFinite makes the kernel of ONNX Runtime's IsFinite: neither infinite nor NaN.
func newIsFinite(p *executor.Prep) (executor.Kernel, error) {
	return newFloatTest(p, func(uint8, bool) bool { return false }, true)
}

// newFloatTest makes the kernel of a test of floating-point numbers: special says whether it holds
// for those that are not finite, given the sign bit and whether it is NaN, and finite whether it
// does for the others.
func newFloatTest(p *executor.Prep, special func(sign uint8, nan bool) bool, finite bool) (executor.Kernel, error) {
	var t floatTest
	for sign := range uint8(2) {
		t.infinite[sign] = elemTruth(special(sign, false))
		t.nan[sign] = elemTruth(special(sign, true))
	}
	t.finite = elemTruth(finite)
	d := p.DType(0)
	var loop elemLoop
	switch d {
	case graph.Float16:
		loop = testLoop[uint16](t, 0x7c00)
	case graph.BFloat16:
		loop = testLoop[uint16](t, 0x7f80)
	case graph.Float32:
		loop = testLoop[uint32](t, 0x7f800000)
	case graph.Float64:
		loop = testLoop[uint64](t, 0x7ff0000000000000)
	}
	return elemNode(p, loop, d, graph.Bool)
}

// floatTest has the results of a test, by sign bit where it matters.
type floatTest struct {
	infinite, nan [2]uint8
	finite        uint8
}

// testLoop compares numbers' bits with those of infinity: finite numbers are below, NaNs above.
func testLoop[T uint16 | uint32 | uint64](t floatTest, inf T) elemLoop {
	top := ^T(0)>>1 + 1 // the sign bit
	return loop1(func(dst []uint8, a []T) {
		a = a[:len(dst)]
		for i, v := range a {
			r := t.finite
			if u := v &^ top; u >= inf {
				sign := elemTruth(v&top != 0)
				if r = t.infinite[sign]; u > inf {
					r = t.nan[sign]
				}
			}
			dst[i] = r
		}
	})
}
