package cpu

import (
	"fmt"
	"slices"
	"strings"

	"memopt/executor"
	"memopt/executor/cpu/blas"
	"memopt/graph"
)

// einsumEquation is an equation in Einstein's notation: a label per axis of every operand and of the result.
// einsumDots stands for any number of axes that broadcast.
type einsumEquation struct {
	terms  [][]byte
	result []byte
}

const einsumDots = '.'

// einsumAxis is the label of the axis that is j places before the last one of an ellipsis.
func einsumAxis(j int) byte { return byte(128 + j) }

// parseEinsum reads an equation. Without an arrow, the result has the ellipsis and then, in
// alphabetical order, the labels that occur once.
func parseEinsum(text string) (eq einsumEquation, err error) {
	left, right, explicit := strings.Cut(strings.ReplaceAll(text, " ", ""), "->")
	var count [256]int
	for _, term := range strings.Split(left, ",") {
		labels, err := parseEinsumTerm(term)
		if err != nil {
			return eq, err
		}
		for _, l := range labels {
			count[l]++
		}
		eq.terms = append(eq.terms, labels)
	}
	if !explicit {
		for l, n := range count { // '.' comes before all letters
			if n == 1 || n > 0 && l == einsumDots {
				eq.result = append(eq.result, byte(l))
			}
		}
		return eq, nil
	}
	if eq.result, err = parseEinsumTerm(right); err != nil {
		return eq, err
	}
	for i, l := range eq.result {
		if count[l] == 0 && l != einsumDots {
			return eq, fmt.Errorf("the result has the label %c, which no operand has", l)
		}
		if slices.Contains(eq.result[:i], l) {
			return eq, fmt.Errorf("the result has the label %c twice", l)
		}
	}
	return eq, nil
}

func parseEinsumTerm(term string) ([]byte, error) {
	labels := []byte{}
	for i := 0; i < len(term); i++ {
		ch := term[i]
		switch {
		case 'a' <= ch && ch <= 'z', 'A' <= ch && ch <= 'Z':
			labels = append(labels, ch)
		case strings.HasPrefix(term[i:], "..."):
			if slices.Contains(labels, einsumDots) {
				return nil, fmt.Errorf("term %q has two ellipses", term)
			}
			labels = append(labels, einsumDots)
			i += 2
		default:
			return nil, fmt.Errorf("term %q has %q, and terms are letters and ellipses", term, ch)
		}
	}
	return labels, nil
}

// newEinsum makes the kernel of https://onnx.ai/onnx/operators/onnx__Einsum.html
func newEinsum(p *executor.Prep) (executor.Kernel, error) {
	text := p.Node.Str("equation", "")
	eq, err := parseEinsum(text)
	if err != nil {
		return nil, p.Errorf("equation %q: %w", text, err)
	}
	if len(eq.terms) != len(p.In) {
		return nil, p.Errorf("equation %q has %d operands and the node %d inputs", text, len(eq.terms), len(p.In))
	}
	for i := range p.In {
		if p.DType(i) != p.DType(0) {
			return nil, p.Errorf("input %d has type %v, wanted %v as input 0", i, p.DType(i), p.DType(0))
		}
	}
	switch p.DType(0) {
	case graph.Float32:
		k := &einsumKernel[float32, float64]{plan: einsumPlan{eq: eq, blas: true}}
		k.multiply = newEinsumGemm(&k.buffers)
		return k, nil
	case graph.Float64:
		k := &einsumKernel[float64, float64]{plan: einsumPlan{eq: eq, blas: true}}
		k.multiply = newEinsumGemm(&k.buffers)
		return k, nil
	case graph.Int8, graph.Uint8: // sums wrap around: the sign does not matter
		return &einsumKernel[uint8, uint8]{plan: einsumPlan{eq: eq}}, nil
	case graph.Int16, graph.Uint16:
		return &einsumKernel[uint16, uint16]{plan: einsumPlan{eq: eq}}, nil
	case graph.Int32, graph.Uint32:
		return &einsumKernel[uint32, uint32]{plan: einsumPlan{eq: eq}}, nil
	case graph.Int64, graph.Uint64:
		return &einsumKernel[uint64, uint64]{plan: einsumPlan{eq: eq}}, nil
	}
	return nil, unsupportedTypes(p)
}

// einsumElem lists the types in which einsum computes.
type einsumElem interface {
	float32 | float64 | uint8 | uint16 | uint32 | uint64
}

// einsumKernel runs the steps of a plan; S holds sums of T.
type einsumKernel[T, S einsumElem] struct {
	plan    einsumPlan
	shapes  [][]int
	buffers [][]T // inputs, output, workspace
	step    *einsumStep
	// multiply computes products by BLAS; nil for integers.
	multiply func(c *executor.Ctx, s *einsumStep)
}

// newEinsumGemm returns a function that computes a product step on buffers.
func newEinsumGemm[T blas.Float](buffers *[][]T) func(c *executor.Ctx, s *einsumStep) {
	blas.Warm()
	g := new(blas.Gemm[T])
	return func(c *executor.Ctx, s *einsumStep) {
		b := *buffers
		g.M, g.N, g.K, g.Alpha, g.Batch = s.m, s.n, s.k, 1, s.places
		g.A, g.TransA, g.LDA = b[s.a.buffer], s.a.trans, s.a.ld
		g.B, g.TransB, g.LDB = b[s.b.buffer], s.b.trans, s.b.ld
		g.C, g.LDC = b[s.c.buffer], s.c.ld
		runGemm(c, g)
	}
}

// Workspace holds the operands of products in the order in which they are multiplied, and
// intermediate results.
func (k *einsumKernel[T, S]) Workspace(in, _ [][]int) int {
	plan := einsumPlan{eq: k.plan.eq, blas: k.plan.blas}
	if plan.build(in) != nil {
		return 0
	}
	var e [1]T
	n := 0
	for _, size := range plan.scratch {
		n += executor.RoundUp(size * len(executor.Memory(e[:])))
	}
	return n
}

// Run computes the result.
func (k *einsumKernel[T, S]) Run(c *executor.Ctx) error {
	k.shapes, k.buffers = k.shapes[:0], k.buffers[:0]
	for i := range c.Inputs() {
		k.shapes = append(k.shapes, c.In(i).Shape)
		k.buffers = append(k.buffers, executor.Of[T](c.In(i)))
	}
	if !k.plan.fits(k.shapes) {
		if err := k.plan.build(k.shapes); err != nil {
			return err
		}
	}
	k.buffers = append(k.buffers, executor.Of[T](c.Out(0, k.plan.shape...)))
	for _, n := range k.plan.scratch {
		k.buffers = append(k.buffers, executor.ScratchOf[T](c, n))
	}
	for i := range k.plan.steps {
		s := &k.plan.steps[i]
		k.step = s
		switch {
		case s.places == nil:
			c.Parallel(s.rows, 1+1<<13/max(1, s.inner*s.terms), (*einsumGather[T, S])(k))
		case s.plain:
			c.Parallel(len(s.places)*s.m, 1+1<<13/max(1, s.n*s.k*s.side), (*einsumProduct[T, S])(k))
		default:
			k.multiply(c, s)
		}
	}
	return nil
}

type einsumGather[T, S einsumElem] einsumKernel[T, S]

// Range copies or sums rows of a gather step.
func (k *einsumGather[T, S]) Range(lo, hi int) {
	s := k.step
	src, dst := k.buffers[s.a.buffer], k.buffers[s.c.buffer]
	for r := lo; r < hi; r++ {
		at := einsumOffset(r, s.dims[:len(s.dims)-1], s.strides)
		row := dst[r*s.inner:][:s.inner]
		stride := s.strides[len(s.dims)-1]
		if s.terms == 1 {
			if stride == 1 {
				copy(row, src[at:])
				continue
			}
			for j := range row {
				row[j] = src[at+j*stride]
			}
			continue
		}
		for j := range row {
			row[j] = T(k.sum(src, at+j*stride))
		}
	}
}

// sum adds up the elements that a gather step takes for one element of its result.
func (k *einsumGather[T, S]) sum(src []T, at int) S {
	s := k.step
	last := len(s.sumDims) - 1
	n, stride := s.sumDims[last], s.sumStrides[last]
	var sum S
	for o := range s.terms / max(n, 1) {
		from := at + einsumOffset(o, s.sumDims[:last], s.sumStrides)
		for i := range n {
			sum += S(src[from+i*stride])
		}
	}
	return sum
}

// einsumOffset returns where element i lies, counted over dims in row-major order.
func einsumOffset(i int, dims, strides []int) int {
	at := 0
	for a := len(dims) - 1; a >= 0; a-- {
		at += i % dims[a] * strides[a]
		i /= dims[a]
	}
	return at
}

type einsumProduct[T, S einsumElem] einsumKernel[T, S]

// Range computes rows of a product step, counted over all products.
func (k *einsumProduct[T, S]) Range(lo, hi int) {
	s := k.step
	a, b, c := k.buffers[s.a.buffer], k.buffers[s.b.buffer], k.buffers[s.c.buffer]
	aRow, aCol := s.a.steps()
	bRow, bCol := s.b.steps()
	for r := lo; r < hi; r++ {
		at, i := s.places[r/s.m], r%s.m
		for j := range s.n {
			x, y, z := at.A+i*aRow, at.B+j*bCol, at.C+i*s.c.ld+j
			for range s.side {
				var sum S
				for l := range s.k {
					sum += S(a[x+l*aCol]) * S(b[y+l*bRow])
				}
				c[z] = T(sum)
				x, y, z = x+s.sideStep.A, y+s.sideStep.B, z+s.sideStep.C
			}
		}
	}
}
