package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/simd"
)

// Gradients of elementwise operators, as ONNX Runtime defines them for training
// (orttraining/orttraining/core/graph/training_op_defs.cc in its repository): from the gradient of
// the result, and the operand or the result, they compute the gradient of the operand.

// newReluGrad makes the kernel of ReluGrad(dY, Y): dY where Y is above 0, else 0. Only bits are
// compared and moved.
func newReluGrad(p *executor.Prep) (executor.Kernel, error) {
	if err := elemSameTypes(p); err != nil {
		return nil, err
	}
	d := p.DType(0)
	var loop elemLoop
	switch d {
	case graph.Float16:
		loop = loop2(reluGradLoop[uint16](0x7c00))
	case graph.BFloat16:
		loop = loop2(reluGradLoop[uint16](0x7f80))
	case graph.Float32:
		loop = loop2(reluGradLoop[uint32](0x7f800000))
	case graph.Float64:
		loop = loop2(reluGradLoop[uint64](0x7ff0000000000000))
	}
	k, err := elemNode(p, loop, d, d)
	if err != nil {
		return nil, err
	}
	k.rule = elemEqualShapes
	return k, nil
}

// reluGradLoop: the bits of numbers above 0 range from 1 to those of infinity.
func reluGradLoop[T uint16 | uint32 | uint64](inf T) func(dst, dy, y []T) {
	return func(dst, dy, y []T) {
		dy, y = dy[:len(dst)], y[:len(dst)]
		for i, g := range dy {
			if y[i]-1 >= inf {
				g = 0
			}
			dst[i] = g
		}
	}
}

// newGrad makes the kernels of SigmoidGrad(dY, Y), TanhGrad(dY, Y) and LeakyReluGrad(dY, Y).
func newGrad(p *executor.Prep) (executor.Kernel, error) {
	var k *elemKernel
	var err error
	switch p.Node.Kind {
	case op.SigmoidGrad:
		k, err = ortNode(p, 2, elemEqualShapes, loop2(sigmoidGradLoop[float32]), loop2(sigmoidGradLoop[float64]))
	case op.TanhGrad:
		k, err = ortNode(p, 2, elemEqualShapes, loop2(tanhGradLoop[float32]), loop2(tanhGradLoop[float64]))
	default:
		alpha := p.Node.Float("alpha", 0.01)
		k, err = ortNode(p, 2, elemEqualShapes, loop2(leakyGradLoop(alpha)), loop2(leakyGradLoop(float64(alpha))))
	}
	if err != nil {
		return nil, err
	}
	k.grain = elemLight
	return k, nil
}

// sigmoidGradLoop: dY * Y * (1-Y).
func sigmoidGradLoop[T elemFloat](dst, dy, y []T) {
	dy, y = dy[:len(dst)], y[:len(dst)]
	for i, g := range dy {
		dst[i] = g * y[i] * (1 - y[i])
	}
}

// tanhGradLoop: dY * (1-Y²), factored so that no bits are lost if Y is close to 1.
func tanhGradLoop[T elemFloat](dst, dy, y []T) {
	dy, y = dy[:len(dst)], y[:len(dst)]
	for i, g := range dy {
		dst[i] = g * ((1 - y[i]) * (1 + y[i]))
	}
}

// leakyGradLoop: dY where Y is above 0, else alpha*dY.
func leakyGradLoop[T elemFloat](alpha T) func(dst, dy, y []T) {
	return func(dst, dy, y []T) {
		dy, y = dy[:len(dst)], y[:len(dst)]
		for i, g := range dy {
			dst[i] = elemPick(y[i] > 0, g, g*alpha)
		}
	}
}

// newGeluGrad makes the kernels of the gradients of Gelu and its kin: GeluGrad(dY, X), also
// Deeploy's, FastGeluGrad(dY, X) for the approximation by tanh, QuickGeluGrad(dY, X), and
// BiasGeluGrad_dX(dY, X, B) and BiasFastGeluGrad_dX(dY, X, B), which are taken at X+B.
func newGeluGrad(p *executor.Prep) (executor.Kernel, error) {
	var chunk func(dst, dy, x, t, u []float32)
	var slope func(x float64) float64
	switch p.Node.Kind {
	case op.GeluGrad, op.GeluGradDeeploy, op.BiasGeluGradDX:
		chunk, slope = geluGradChunk, geluSlope
	case op.FastGeluGrad, op.BiasFastGeluGradDX:
		chunk, slope = geluTanhGradChunk, geluTanhSlope
	default:
		alpha := sigmoidSlope(p)
		chunk = func(dst, dy, x, t, _ []float32) { swishGradChunk(dst, dy, x, t, float32(alpha)) }
		slope = func(x float64) float64 {
			s := sigmoid(alpha * x)
			return s * (1 + alpha*x*(1-s))
		}
	}
	grad32, grad64 := gradInChunks(chunk), slopeLoop(slope)
	if !p.Has(2) {
		return ortNode(p, 2, elemEqualShapes, loop2(func(dst, dy, x []float32) { grad32(dst, dy, x, nil) }),
			loop2(func(dst, dy, x []float64) { grad64(dst, dy, x, nil) }))
	}
	return ortNode(p, 3, elemBiasLast(2), loop3(grad32), loop3(grad64))
}

// slopeLoop multiplies dY by a slope at x, or at x+bias if bias is not nil.
func slopeLoop(slope func(x float64) float64) func(dst, dy, x, bias []float64) {
	return func(dst, dy, x, bias []float64) {
		for i, g := range dy {
			at := x[i]
			if bias != nil {
				at += bias[i]
			}
			dst[i] = g * slope(at)
		}
	}
}

// geluSlope: the normal distribution's integral, plus x times its density.
func geluSlope(x float64) float64 {
	return (1+math.Erf(x/math.Sqrt2))/2 + x*normDensity*math.Exp(-x*x/2)
}

// normDensity is the normal distribution's density at 0.
const normDensity = 0.3989422804014327 // 1/√(2π)

// geluTanhSlope: with t = tanh(v), v = geluInner*(x+geluCubic*x³): (1+t)/2 + x/2*(1-t²)*v'.
func geluTanhSlope(x float64) float64 {
	t := math.Tanh(geluInner * (x + geluCubic*x*x*x))
	return (1+t)/2 + x/2*(1-t*t)*geluInner*(1+3*geluCubic*x*x)
}

// gradInChunks makes a loop from a function that computes a chunk with two buffers, as inChunks
// does. The function gets x, or x+bias if bias is not nil.
func gradInChunks(f func(dst, dy, x, t, u []float32)) func(dst, dy, x, bias []float32) {
	return func(dst, dy, x, bias []float32) {
		m := takeBuffers()
		for len(dst) > 0 {
			n := min(len(dst), chunkLen)
			at := x[:n]
			if bias != nil {
				at = elemFloats[float32](&m.b[2], n)
				simd.Add(at, x[:n], bias[:n])
				bias = bias[n:]
			}
			f(dst[:n], dy[:n], at, elemFloats[float32](&m.b[0], n), elemFloats[float32](&m.b[1], n))
			dst, dy, x = dst[n:], dy[n:], x[n:]
		}
		m.giveBack()
	}
}

func geluGradChunk(dst, dy, x, t, u []float32) {
	simd.MulScalar(t, x, 1/math.Sqrt2)
	simd.Erf(t, t)
	for i, v := range x {
		u[i] = v * v * -0.5
	}
	simd.Exp(u, u)
	for i, v := range x {
		low := 0.5 + 0.5*t[i]
		high := v * (normDensity * u[i])
		dst[i] = dy[i] * (low + high)
	}
}

func geluTanhGradChunk(dst, dy, x, t, _ []float32) {
	for i, v := range x {
		c := geluCubic * v * v * v
		t[i] = geluInner * (v + c)
	}
	simd.Tanh(t, t)
	for i, v := range x {
		w := t[i]
		c := 3 * geluCubic * geluInner * v * v
		high := 0.5 * v * ((1 - w) * (1 + w)) * (geluInner + c)
		low := 0.5 + 0.5*w
		dst[i] = dy[i] * (low + high)
	}
}

// swishGradChunk: with s = sigmoid(alpha*x), dY * s * (1 + alpha*x*(1-s)).
func swishGradChunk(dst, dy, x, t []float32, alpha float32) {
	simd.MulScalar(t, x, alpha)
	simd.Sigmoid(t, t)
	for i, v := range x {
		s := t[i]
		p := alpha * v * (1 - s)
		dst[i] = dy[i] * s * (1 + p)
	}
}
