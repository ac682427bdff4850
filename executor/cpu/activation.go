package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/simd"
)

// newFloatUnary makes the kernels of functions of one floating-point number.
//
// Each function is defined once, for float64, by scalarFunc. float32 uses the loop that vectorFunc
// returns, if any; everything else is computed in float64 and rounded.
//
// https://onnx.ai/onnx/operators/onnx__Acos.html and so on.
func newFloatUnary(p *executor.Prep) (executor.Kernel, error) {
	d := p.DType(0)
	if kind := p.Node.Kind; kind == op.Erf && d.IsInteger() {
		return elemNode(p, numberLoop(kind, d), d, d)
	}
	as := elemWide(d)
	var loop elemLoop
	heavy := true
	switch as {
	case graph.Float32:
		if f := lightFunc[float32](p); f != nil {
			loop, heavy = loop1(f), false
		} else if f := vectorFunc(p); f != nil {
			loop = loop1(f)
		} else {
			loop = loop1(mathLoop[float32](scalarFunc(p)))
		}
	case graph.Float64:
		if f := lightFunc[float64](p); f != nil {
			loop, heavy = loop1(f), false
		} else {
			loop = loop1(mathLoop[float64](scalarFunc(p)))
		}
	}
	k, err := elemNode(p, loop, as, as)
	if err == nil && heavy {
		k.grain = elemHeavy
	}
	return k, err
}

// scalarFunc returns the function that an operator applies to each element.
func scalarFunc(p *executor.Prep) func(x float64) float64 {
	switch p.Node.Kind {
	case op.Acos:
		return math.Acos
	case op.Acosh:
		return math.Acosh
	case op.Asin:
		return math.Asin
	case op.Asinh:
		return math.Asinh
	case op.Atan:
		return math.Atan
	case op.Atanh:
		return math.Atanh
	case op.Cos:
		return math.Cos
	case op.Cosh:
		return math.Cosh
	case op.Erf:
		return math.Erf
	case op.Exp:
		return math.Exp
	case op.Log:
		return math.Log
	case op.Sigmoid:
		return sigmoid
	case op.Sin:
		return math.Sin
	case op.Sinh:
		return math.Sinh
	case op.Softplus:
		return softplus
	case op.Sqrt:
		return math.Sqrt
	case op.Tan:
		return math.Tan
	case op.Tanh:
		return math.Tanh
	case op.Mish:
		return func(x float64) float64 { return x * math.Tanh(softplus(x)) }
	case op.Gelu:
		if p.Node.Str("approximate", "none") == "tanh" {
			return geluTanh
		}
		return gelu
	case op.GeluMS:
		return gelu
	case op.Swish, op.QuickGelu:
		alpha := sigmoidSlope(p)
		return func(x float64) float64 { return x * sigmoid(alpha*x) }
	}
	return expFunc(p)
}

// expFunc is scalarFunc for the operators that use e^x-1 for negative x.
func expFunc(p *executor.Prep) func(x float64) float64 {
	c := expParams(p)
	return func(x float64) float64 {
		if x > 0 {
			return c.positive * x
		}
		return c.negative * math.Expm1(x*c.inner)
	}
}

// expUnit has the parameters of Elu, Celu and Selu: x*positive for positive x, else
// negative*(e^(x*inner)-1).
type expUnit struct{ positive, negative, inner float64 }

func expParams(p *executor.Prep) expUnit {
	switch p.Node.Kind {
	case op.Celu: // max(0,x) + min(0, alpha*(e^(x/alpha)-1))
		alpha := float64(p.Node.Float("alpha", 1))
		return expUnit{1, alpha, 1 / alpha}
	case op.Selu:
		alpha, gamma := p.Node.Float("alpha", 1.67326319217681884765625), p.Node.Float("gamma",
			1.05070102214813232421875)
		return expUnit{float64(gamma), float64(alpha) * float64(gamma), 1}
	}
	return expUnit{1, float64(p.Node.Float("alpha", 1)), 1} // Elu
}

// sigmoidSlope is alpha in x*sigmoid(alpha*x), which is Swish and ONNX Runtime's QuickGelu and its
// gradient.
func sigmoidSlope(p *executor.Prep) float64 {
	if p.Node.Kind == op.Swish {
		return float64(p.Node.Float("alpha", 1))
	}
	return float64(p.Node.Float("alpha", 1.702))
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// softplus is log(1+e^x), computed so that e^x cannot overflow.
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func gelu(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }

func geluTanh(x float64) float64 { return x / 2 * (1 + math.Tanh(geluInner*(x+geluCubic*x*x*x))) }

// The argument of tanh in Gelu's approximation is geluInner*(x+geluCubic*x³).
const (
	geluInner = 0.7978845608028654 // √(2/π)
	geluCubic = 0.044715
)

// vectorFunc returns the float32 loop of an operator, or nil.
func vectorFunc(p *executor.Prep) func(dst, a []float32) {
	switch p.Node.Kind {
	case op.Erf:
		return simd.Erf
	case op.Exp:
		return simd.Exp
	case op.Log:
		return simd.Log
	case op.Sigmoid:
		return simd.Sigmoid
	case op.Sqrt:
		return simd.Sqrt
	case op.Tanh:
		return simd.Tanh
	case op.Gelu:
		if p.Node.Str("approximate", "none") == "tanh" {
			return simd.GeluTanh
		}
		return simd.Gelu
	case op.GeluMS:
		return simd.Gelu
	case op.Softplus:
		return inChunks(softplusChunk)
	case op.Mish:
		return inChunks(mishChunk)
	case op.Swish, op.QuickGelu:
		alpha := float32(sigmoidSlope(p))
		return inChunks(func(dst, a, t, _, _ []float32) { swishChunk(dst, a, t, alpha) })
	case op.Elu, op.Celu, op.Selu:
		c := expParams(p)
		if c.inner < 0 {
			return nil // Celu with negative alpha: e^(x/alpha) grows
		}
		return inChunks(func(dst, a, t, u, v []float32) { expUnitChunk(dst, a, t, u, v, c) })
	}
	return nil
}

// checkGelu returns an error for a bad attribute of Gelu.
func checkGelu(p *executor.Prep) error {
	if s := p.Node.Str("approximate", "none"); s != "none" && s != "tanh" {
		return p.Errorf("attribute approximate is %q, wanted none or tanh", s)
	}
	return nil
}

// newGelu makes the kernel of Gelu. https://onnx.ai/onnx/operators/onnx__Gelu.html
func newGelu(p *executor.Prep) (executor.Kernel, error) {
	if err := checkGelu(p); err != nil {
		return nil, err
	}
	return newFloatUnary(p)
}

// newCelu makes the kernel of Celu. https://onnx.ai/onnx/operators/onnx__Celu.html
func newCelu(p *executor.Prep) (executor.Kernel, error) {
	if p.Node.Float("alpha", 1) == 0 {
		return nil, p.Errorf("attribute alpha is 0; it is a divisor")
	}
	return newFloatUnary(p)
}

// newShrink makes the kernel of Shrink: x+bias below -lambd, x-bias above lambd, 0 between.
// Integers are computed in float64 and converted as Cast does.
// https://onnx.ai/onnx/operators/onnx__Shrink.html
func newShrink(p *executor.Prep) (executor.Kernel, error) {
	lambd, bias := p.Node.Float("lambd", 0.5), p.Node.Float("bias", 0)
	d := p.DType(0)
	as := elemWide(d)
	if d.IsInteger() && elemCastable(d) {
		as = graph.Float64
	}
	var loop elemLoop
	switch as {
	case graph.Float32:
		loop = shrinkLoop(lambd, bias)
	case graph.Float64:
		loop = shrinkLoop(float64(lambd), float64(bias))
	}
	return elemNode(p, loop, as, as)
}

func shrinkLoop[T elemFloat](lambd, bias T) elemLoop {
	return loop1(func(dst, a []T) {
		a = a[:len(dst)]
		for i, x := range a {
			y := elemPick(x < -lambd, x+bias, 0)
			dst[i] = elemPick(x > lambd, x-bias, y)
		}
	})
}
