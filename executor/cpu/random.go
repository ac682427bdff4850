package cpu

import (
	"math"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
	"memopt/graph/op"
)

// RandomUniform, RandomNormal, their Like variants, and Bernoulli: element i depends only on number
// i (and, for normal numbers, its neighbour) of the node's uniform stream.
// https://onnx.ai/onnx/operators/onnx__RandomUniform.html
// https://onnx.ai/onnx/operators/onnx__RandomNormal.html
// https://onnx.ai/onnx/operators/onnx__Bernoulli.html

// randomKernel draws a tensor. a and b are the bounds of a uniform distribution, or the mean
// and the standard deviation of a normal one.
type randomKernel struct {
	kind  graph.Kind
	draws operand.Draws
	shape []int // nil means the input's shape
	a, b  float64
	dtype graph.DType // of the output

	draw uniformStream
	p    *executor.Tensor // probabilities of Bernoulli
	data []byte
}

func newRandom(p *executor.Prep) (executor.Kernel, error) {
	n := p.Node
	draws, err := operand.DrawsOf(p)
	if err != nil {
		return nil, err
	}
	k := &randomKernel{kind: n.Kind, draws: draws, dtype: p.Out[0]}
	switch n.Kind {
	case op.RandomUniform, op.RandomUniformLike:
		k.a, k.b = float64(n.Float("low", 0)), float64(n.Float("high", 1))
	case op.RandomNormal, op.RandomNormalLike:
		k.a, k.b = float64(n.Float("mean", 0)), float64(n.Float("scale", 1))
	}
	switch n.Kind {
	case op.RandomUniform, op.RandomNormal:
		k.shape = []int{}
		for _, d := range n.IntList("shape", nil) {
			if d < 0 {
				return nil, p.Errorf("attribute shape is %v, wanted no negative dims", n.IntList("shape", nil))
			}
			k.shape = append(k.shape, int(d))
		}
	case op.Bernoulli:
		if !isReal(p.DType(0)) {
			return nil, unsupportedTypes(p)
		}
		if !canStoreReals(k.dtype) {
			return nil, p.Unsupported("no kernel for output type %v", k.dtype)
		}
		return k, nil
	}
	if !isReal(k.dtype) {
		return nil, p.Unsupported("no kernel for output type %v", k.dtype)
	}
	return k, nil
}

// Run draws.
func (k *randomKernel) Run(c *executor.Ctx) error {
	shape := k.shape
	if shape == nil {
		shape = c.In(0).Shape
		k.p = c.In(0)
	}
	k.draw = newUniformStream(k.draws, c.Step)
	y := c.Out(0, shape...)
	k.data = y.Data
	c.Parallel(y.Len(), 1<<12, k)
	return nil
}

// Range computes elements; lo is even, as the grain is.
func (k *randomKernel) Range(lo, hi int) {
	var buf [chunkLen]float64
	for i := lo; i < hi; {
		at, follow := k.draws.Place(i)
		j := i + min(chunkLen-2, hi-i, follow)
		// Normal numbers come in pairs: the first and the last one may need their neighbours' draws.
		odd := int(at & 1)
		u := buf[:(odd+j-i+1)&^1]
		k.draw.numbers(u, at-uint64(odd))
		switch k.kind {
		case op.Bernoulli:
			k.bernoulli(u[odd:][:j-i], i)
		case op.RandomNormal, op.RandomNormalLike:
			normalPairs(u, k.a, k.b)
		default:
			for n, v := range u {
				s := v * (k.b - k.a)
				u[n] = k.a + s
			}
		}
		storeReals(k.dtype, k.data, i, u[odd:][:j-i])
		i = j
	}
}

// bernoulli sets u[i] to 1 where it is below probability first+i, else to 0.
func (k *randomKernel) bernoulli(u []float64, first int) {
	var buf [chunkLen]float64
	for i, p := range chunkIn(k.p.DType, k.p.Data, first, first+len(u), buf[:]) {
		if u[i] < p {
			u[i] = 1
		} else {
			u[i] = 0
		}
	}
}

// normalPairs turns pairs of uniform numbers u, v into the independent normal numbers
// r*cos(2πv) and r*sin(2πv) with r = √(-2 ln(1-u)): Box and Muller, A note on the generation of
// random normal deviates, 1958. 1-u is not 0.
func normalPairs(u []float64, mean, scale float64) {
	for i := 0; i+1 < len(u); i += 2 {
		r := math.Sqrt(-2 * math.Log(1-u[i]))
		sin, cos := math.Sincos(2 * math.Pi * u[i+1])
		a, b := scale*(r*cos), scale*(r*sin)
		u[i], u[i+1] = mean+a, mean+b
	}
}
