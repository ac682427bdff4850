package cpu

import (
	"slices"

	"memopt/executor"
	"memopt/graph"
)

// newDivGrad makes the kernel of DivGrad(dC, A, B), the gradients of C = A/B: dC/B for A and
// -dC*A/B² for B, each summed over the operand's broadcast axes.
func newDivGrad(p *executor.Prep) (executor.Kernel, error) {
	if err := elemSameTypes(p); err != nil {
		return nil, err
	}
	switch elemWide(p.DType(0)) {
	case graph.Float32:
		return divGradOf[float32](p, graph.Float32)
	case graph.Float64:
		return divGradOf[float64](p, graph.Float64)
	}
	return nil, unsupportedTypes(p)
}

// divGradKernel computes in type T.
type divGradKernel[T elemFloat] struct {
	grads []*divGrad[T] // those that are wanted
}

// divGrad computes the gradient of one operand.
type divGrad[T elemFloat] struct {
	terms   *elemKernel // before the sum
	out     elemOutput
	operand int // input
	sum     stretchedSum[T]
}

func divGradOf[T elemFloat](p *executor.Prep, as graph.DType) (executor.Kernel, error) {
	dc, a, b := elemIn(p, 0, as), elemIn(p, 1, as), elemIn(p, 2, as)
	k := &divGradKernel[T]{}
	for i := range 2 {
		if !p.Wants(i) {
			continue
		}
		terms := &elemKernel{grain: elemLight, rule: elemLikeFirst}
		if i == 0 {
			terms.in, terms.loop = []elemInput{dc, b}, loop2(divLoop[T])
		} else {
			terms.in, terms.loop = []elemInput{dc, a, b}, loop3(divisorGradLoop[T])
		}
		k.grads = append(k.grads, &divGrad[T]{terms: terms, out: elemOut(p, i, as), operand: i + 1})
	}
	return k, nil
}

// divisorGradLoop: -g * a/b².
func divisorGradLoop[T elemFloat](dst, g, a, b []T) {
	g, a, b = g[:len(dst)], a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = -g[i] * (a[i] / b[i] / b[i])
	}
}

// Workspace has room for the terms of one gradient at a time.
func (k *divGradKernel[T]) Workspace(in, _ [][]int) int {
	n := 0
	for _, g := range k.grads {
		if !slices.Equal(in[g.operand], in[0]) {
			n = executor.RoundUp(product(in[0]) * g.out.wide)
		}
	}
	return n
}

// Run computes the gradients.
func (k *divGradKernel[T]) Run(c *executor.Ctx) error {
	var scratch []byte
	for _, g := range k.grads {
		x := c.In(g.operand)
		if err := g.terms.plan(c); err != nil {
			return err
		}
		full := g.terms.shape
		if !elemStretches(x.Shape, full) {
			return c.Errorf("input %d has shape %v, which does not stretch to that of input 0, %v",
				g.operand, x.Shape, full)
		}
		y := c.Out(g.out.slot, x.Shape...)
		g.terms.out = g.out
		if g.terms.out.data = y.Data; slices.Equal(x.Shape, full) {
			g.terms.prepare(c)
			c.Parallel(g.terms.n, g.terms.grain, g.terms)
			continue
		}
		if scratch == nil {
			scratch = c.Scratch(g.terms.n * g.out.wide)
		}
		g.terms.out = elemOutput{size: g.out.wide, wide: g.out.wide, data: scratch}
		g.terms.prepare(c)
		c.Parallel(g.terms.n, g.terms.grain, g.terms)
		g.sum.store, g.sum.x, g.sum.y = g.out.store, executor.Cast[T](scratch)[:g.terms.n], y.Data
		g.sum.run(c, full, x.Shape)
	}
	return nil
}

// sumChunk is the number of sums that are made together.
const sumChunk = elemBytes / 8

// stretchedSum sums a tensor over the axes that broadcasting stretches in a shape. Each element of
// the sum is made in one go, in float64 and in one order.
type stretchedSum[T elemFloat] struct {
	x     []T
	y     []byte
	store elemConvert // nil if y is of type T

	loop elemKernel // has the axes, merged as for a loop whose operand 0 is the sum
	step []int      // elements of x from one to the next in each dim
	rows int        // of x for each element of the sum
}

func (s *stretchedSum[T]) run(c *executor.Ctx, full, shape []int) {
	k := &s.loop
	if k.in == nil {
		k.in = make([]elemInput, 1)
	}
	k.shape = append(k.shape[:0], full...)
	k.n, k.in[0].shape = product(full), shape
	k.layout()
	s.step = append(s.step[:0], k.dims...)
	s.rows = 1
	terms, n := 1, 1
	for i := len(k.dims) - 1; i >= 0; i-- {
		s.step[i] = n
		n *= k.dims[i]
		if k.in[0].stride[i] == 0 {
			terms *= k.dims[i]
			if i < len(k.dims)-1 {
				s.rows *= k.dims[i]
			}
		}
	}
	c.Parallel(product(shape), max(1, elemLight/max(1, terms)), s)
}

// place returns where in x element j of the sum starts or, with of = false, how far row j of an
// element is from its first row.
func (s *stretchedSum[T]) place(j int, of bool) int {
	k, off := &s.loop, 0
	last := len(k.dims) - 1
	for i := last; i >= 0; i-- {
		summed := k.in[0].stride[i] == 0
		if summed == of || summed && i == last {
			continue
		}
		q := j / k.dims[i]
		off += (j - q*k.dims[i]) * s.step[i]
		j = q
	}
	return off
}

// Range makes elements lo..hi-1 of the sum.
func (s *stretchedSum[T]) Range(lo, hi int) {
	var sums [sumChunk]float64
	m := takeBuffers()
	narrow := elemFloats[T](&m.b[0], sumChunk)
	k := &s.loop
	last := len(k.dims) - 1
	within := last < 0 || k.in[0].stride[last] == 0 // sums run along rows
	for lo < hi {
		n := min(sumChunk, hi-lo)
		if !within {
			n = min(n, k.dims[last]-lo%k.dims[last])
			clear(sums[:n])
			s.addRows(sums[:n], lo)
		} else {
			for i := range n {
				sums[i] = s.sumRows(lo + i)
			}
		}
		for i, v := range sums[:n] {
			narrow[i] = T(v)
		}
		out := executor.Memory(narrow[:n])
		if s.store == nil {
			copy(s.y[lo*len(out)/n:], out)
		} else {
			s.store(s.y[2*lo:2*(lo+n)], out)
		}
		lo += n
	}
	m.giveBack()
}

// addRows adds to sums, which start at element lo, the rows of their terms.
func (s *stretchedSum[T]) addRows(sums []float64, lo int) {
	start := s.place(lo, true)
	for r := range s.rows {
		at := start + s.place(r, false)
		for i, v := range s.x[at : at+len(sums)] {
			sums[i] += float64(v)
		}
	}
}

// sumRows returns the sum of the rows of element j.
func (s *stretchedSum[T]) sumRows(j int) float64 {
	row := 1
	if n := len(s.loop.dims); n > 0 {
		row = s.loop.dims[n-1]
	}
	start, sum := s.place(j, true), 0.0
	for r := range s.rows {
		at := start + s.place(r, false)
		for _, v := range s.x[at : at+row] {
			sum += float64(v)
		}
	}
	return sum
}
