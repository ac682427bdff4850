package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/simd"
)

// AdamOptimizer is a step of Adam (Kingma, Ba: Adam, a method for stochastic optimization, 2015)
// for one weight w with gradient g and moments m and v, count steps after the first:
//
//	g' = g / loss_scale, or g*max_norm_clip/norm where the norm is above loss_scale*max_norm_clip
//	m' = alpha*m + (1-alpha)*g'        a = 1 - alpha^count    (1 without do_bias_correction
//	v' = beta*v + (1-beta)*g'²         b = 1 - beta^count      or where count is 0)
//
//	mode 0: d = -rate * (m'/a / (√(v'/b) + epsilon) + lambda*w)
//	mode 1: p = rate*√b/a * m' / (√v' + epsilon),  d = -p - rate*lambda*(w-p)
//
// Inputs: rate, count, w, g, m, v, w in 16 bits, loss_scale, the norm of all gradients, whether to
// update. Outputs: count+1, m', v', w+d, d, w+d in 16 bits. If there is no update, the outputs are
// the inputs.
// https://github.com/microsoft/onnxruntime/blob/main/orttraining/orttraining/core/graph/training_op_defs.cc

type adamKernel[T chunkFloat] struct {
	alpha, beta, lambda, epsilon, maxNorm T
	correct                               bool
	mode                                  int64

	update                 bool
	rate, scale, a, b      T
	w, g, m, v, h          *executor.Tensor // h: the weight in 16 bits
	newM, newV, newW, newG *executor.Tensor
	newH                   *executor.Tensor
}

func newAdamOptimizer(p *executor.Prep) (executor.Kernel, error) {
	for _, i := range []int{0, 2, 3, 4, 5, 6, 7, 8} {
		if p.Has(i) && !isReal(p.DType(i)) {
			return nil, p.Errorf("input %d has type %v, wanted floats", i, p.DType(i))
		}
	}
	if p.DType(1) != graph.Int64 {
		return nil, p.Errorf("input 1, the update count, has type %v, wanted int64", p.DType(1))
	}
	if p.Has(9) && p.DType(9) != graph.Bool {
		return nil, p.Errorf("input 9, the update signal, has type %v, wanted bool", p.DType(9))
	}
	if m := p.Node.Int("weight_decay_mode", 0); m != 0 && m != 1 {
		return nil, p.Errorf("attribute weight_decay_mode is %d, wanted 0 or 1", m)
	}
	if p.DType(2) == graph.Float64 {
		return newAdam[float64](p.Node), nil
	}
	return newAdam[float32](p.Node), nil
}

func newAdam[T chunkFloat](n *graph.Node) *adamKernel[T] {
	return &adamKernel[T]{
		alpha:   T(n.Float("alpha", 0.9)),
		beta:    T(n.Float("beta", 0.999)),
		lambda:  T(n.Float("lambda", 0)),
		epsilon: T(n.Float("epsilon", 1e-8)),
		maxNorm: T(n.Float("max_norm_clip", 1)),
		correct: n.Int("do_bias_correction", 1) != 0,
		mode:    n.Int("weight_decay_mode", 0),
	}
}

// Run checks the operands and updates.
func (k *adamKernel[T]) Run(c *executor.Ctx) error {
	k.w, k.g, k.m, k.v, k.h = c.In(2), c.In(3), c.In(4), c.In(5), c.In(6)
	for i := 3; i <= 6; i++ {
		if t := c.In(i); t != nil && t.Len() != k.w.Len() {
			return c.Errorf("input %d is %v, wanted the weight's shape %v", i, t, k.w.Shape)
		}
	}
	count, err := k.scalars(c)
	if err != nil {
		return err
	}
	if y := c.Out(0, c.In(1).Shape...); y != nil {
		if executor.Of[int64](y)[0] = count; k.update {
			executor.Of[int64](y)[0]++
		}
	}
	k.newM, k.newV = c.Out(1, k.m.Shape...), c.Out(2, k.v.Shape...)
	k.newW, k.newG = c.Out(3, k.w.Shape...), c.Out(4, k.g.Shape...)
	k.newH = nil
	if c.Wants(5) {
		if k.h == nil {
			return c.Errorf("output 5 is wanted without input 6")
		}
		k.newH = c.Out(5, k.h.Shape...)
	}
	c.Parallel(k.w.Len(), 1<<13, k)
	return nil
}

// scalars reads the inputs that are single numbers.
func (k *adamKernel[T]) scalars(c *executor.Ctx) (count int64, err error) {
	if c.In(1).Len() != 1 {
		return 0, c.Errorf("input 1, the update count, is %v, wanted one number", c.In(1))
	}
	count = executor.Of[int64](c.In(1))[0]
	read := func(i int, def float64) float64 {
		if c.In(i) == nil {
			return def
		}
		v, ok := realScalar(c.In(i))
		if !ok && err == nil {
			err = c.Errorf("input %d is %v, wanted one float", i, c.In(i))
		}
		return v
	}
	k.rate, k.scale = T(read(0, 0)), T(read(7, 1))
	if norm := T(read(8, 0)); norm > k.scale*k.maxNorm {
		k.scale = norm / k.maxNorm
	}
	k.update = true
	if t := c.In(9); t != nil {
		if t.Len() != 1 {
			return 0, c.Errorf("input 9, the update signal, is %v, wanted one bool", t)
		}
		k.update = t.Data[0] != 0
	}
	k.a, k.b = 1, 1
	if k.correct && count > 0 {
		k.a = T(1 - math.Pow(float64(k.alpha), float64(count)))
		k.b = T(1 - math.Pow(float64(k.beta), float64(count)))
	}
	return count, err
}

// Range updates elements.
func (k *adamKernel[T]) Range(lo, hi int) {
	var wb, gb, mb, vb [chunkLen]T
	for i := lo; i < hi; i += chunkLen {
		j := min(i+chunkLen, hi)
		n := j - i
		// Inputs are never written to: outputs are computed in the buffers.
		w, g, m, v := wb[:n], gb[:n], mb[:n], vb[:n]
		copy(w, chunkIn(k.w.DType, k.w.Data, i, j, w))
		copy(g, chunkIn(k.g.DType, k.g.Data, i, j, g))
		copy(m, chunkIn(k.m.DType, k.m.Data, i, j, m))
		copy(v, chunkIn(k.v.DType, k.v.Data, i, j, v))
		switch {
		case !k.update:
		case chunkNative[T](graph.Float32):
			as := func(x []T) []float32 { return executor.Cast[float32](executor.Memory(x)) }
			k.step32(as(w), as(g), as(m), as(v))
		default:
			k.step(w, g, m, v)
		}
		adamStore(k.newM, i, m)
		adamStore(k.newV, i, v)
		adamStore(k.newW, i, w)
		adamStore(k.newG, i, g)
		if k.newH != nil {
			if !k.update {
				copy(w, chunkIn(k.h.DType, k.h.Data, i, j, w))
			}
			adamStore(k.newH, i, w)
		}
	}
}

// step replaces the weights and moments, and overwrites the gradients with the change of the
// weights.
func (k *adamKernel[T]) step(w, g, m, v []T) {
	size := k.rate * T(math.Sqrt(float64(k.b))) / k.a
	for i := range w {
		x := g[i] / k.scale
		m[i] = k.alpha*m[i] + (1-k.alpha)*x
		v[i] = k.beta*v[i] + (1-k.beta)*x*x
		var d T
		if k.mode == 0 {
			d = -k.rate * (m[i]/k.a/(T(math.Sqrt(float64(v[i]/k.b)))+k.epsilon) + k.lambda*w[i])
		} else {
			p := size * m[i] / (T(math.Sqrt(float64(v[i]))) + k.epsilon)
			d = -p - k.rate*k.lambda*(w[i]-p)
		}
		g[i] = d
		w[i] += d
	}
}

// step32 is step with vector instructions. Divisions by a number that is the same for all elements
// become products with its inverse.
func (k *adamKernel[T]) step32(w, g, m, v []float32) {
	var buf [chunkLen]float32
	t := buf[:len(w)]
	rate, decay, a, b := float32(k.rate), float32(k.rate*k.lambda), float32(k.a), float32(k.b)
	simd.MulScalar(g, g, 1/float32(k.scale))
	simd.MulScalar(m, m, float32(k.alpha))
	simd.Axpy(m, g, 1-float32(k.alpha))
	simd.Mul(t, g, g)
	simd.MulScalar(v, v, float32(k.beta))
	simd.Axpy(v, t, 1-float32(k.beta))
	var factor float32 // of m/(√ + epsilon) in the change of w
	if k.mode == 0 {
		simd.MulScalar(t, v, 1/b)
		simd.Sqrt(t, t)
		factor = -rate / a
	} else {
		simd.Sqrt(t, v)
		factor = rate * float32(math.Sqrt(float64(b))) / a * (decay - 1)
	}
	simd.AddScalar(t, t, float32(k.epsilon))
	simd.Div(t, m, t)
	simd.MulScalar(g, t, factor)
	simd.Axpy(g, w, -decay)
	simd.Add(w, w, g)
}

func adamStore[T chunkFloat](t *executor.Tensor, lo int, from []T) {
	if t == nil {
		return
	}
	copy(chunkOut(t.DType, t.Data, lo, lo+len(from), from), from)
	chunkStore(t.DType, t.Data, lo, from)
}
