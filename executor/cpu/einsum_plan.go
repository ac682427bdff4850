package cpu

import (
	"fmt"
	"slices"

	"memopt/executor/cpu/blas"
)

// einsumPlan is how an equation is computed for operands of certain shapes: operands are multiplied from the
// left to the right, each pair as a batch of matrix products.
type einsumPlan struct {
	eq   einsumEquation
	blas bool // products go to BLAS

	shapes  [][]int // that the plan is for
	shape   []int   // of the result
	steps   []einsumStep
	scratch []int // elements of each buffer of workspace
	dims    [256]int
	wide    int // axes that the ellipsis stands for
}

// einsumView is an operand: where elements lie by their labels, each of which occurs once.
type einsumView struct {
	buffer        int // inputs, then the output, then workspace
	labels        []byte
	dims, strides []int
}

// einsumStep computes one buffer: a gather copies, or sums, from one buffer; a product multiplies the matrices
// of two buffers.
type einsumStep struct {
	a, b, c einsumMatrix

	places  []blas.Place // nil: a gather
	m, n, k int
	plain   bool // the products are too small for BLAS
	// Plain products at a place are side of them, these far apart in a, b and c.
	side     int
	sideStep blas.Place

	// The result of a gather is rows of inner elements, each the sum of terms elements.
	dims, strides       []int // of the result, and how far apart its elements are in the source
	sumDims, sumStrides []int
	rows, inner, terms  int
}

// einsumMatrix says how matrices lie in a buffer.
type einsumMatrix struct {
	buffer int
	trans  bool
	ld     int
}

// steps returns how far apart rows and columns are.
func (m *einsumMatrix) steps() (row, col int) {
	if m.trans {
		return 1, m.ld
	}
	return m.ld, 1
}

// fits reports whether the plan is for operands of the given shapes.
func (p *einsumPlan) fits(shapes [][]int) bool {
	if len(p.shapes) != len(shapes) {
		return false
	}
	for i, s := range shapes {
		if !slices.Equal(s, p.shapes[i]) {
			return false
		}
	}
	return true
}

// build makes the plan.
func (p *einsumPlan) build(shapes [][]int) error {
	*p = einsumPlan{eq: p.eq, blas: p.blas}
	views, err := p.views(shapes)
	if err != nil {
		return err
	}
	result := p.spread(p.eq.result, p.wide)
	for _, l := range result {
		p.shape = append(p.shape, p.dims[l])
	}
	out := einsumView{buffer: len(shapes), labels: result, dims: p.shape, strides: einsumStrides(p.shape)}
	acc := views[0]
	for i := 1; i < len(views); i++ {
		keep := result
		for _, v := range views[i+1:] {
			keep = append(slices.Clip(keep), v.labels...)
		}
		var target *einsumView
		if i == len(views)-1 {
			target = &out
		}
		acc = p.contract(acc, views[i], keep, target)
	}
	if acc.buffer != out.buffer {
		p.gather(acc, result, out.buffer)
	}
	for _, s := range shapes {
		p.shapes = append(p.shapes, slices.Clone(s))
	}
	return nil
}

// spread puts labels of their own in the place of an ellipsis of n axes.
func (p *einsumPlan) spread(term []byte, n int) []byte {
	out := []byte{}
	for _, l := range term {
		if l != einsumDots {
			out = append(out, l)
			continue
		}
		for j := n - 1; j >= 0; j-- {
			out = append(out, einsumAxis(j))
		}
	}
	return out
}

// views finds the dim of every label and describes the operands. A repeated label is a diagonal: a step along it
// is a step along both axes. An axis of length 1 is repeated where another operand has more.
func (p *einsumPlan) views(shapes [][]int) ([]einsumView, error) {
	for i := range p.dims {
		p.dims[i] = 1
	}
	terms := make([][]byte, len(shapes))
	for i, s := range shapes {
		term := p.eq.terms[i]
		labels, dots := len(term), slices.Contains(term, einsumDots)
		if dots {
			labels--
		}
		covered := len(s) - labels
		if covered < 0 || covered > 0 && !dots || covered > 100 {
			return nil, fmt.Errorf("input %d has shape %v, and its term in the equation %d labels", i, s, labels)
		}
		if dots {
			p.wide = max(p.wide, covered)
		}
		terms[i] = p.spread(term, covered)
		for a, l := range terms[i] {
			if d := s[a]; d != 1 && p.dims[l] != 1 && p.dims[l] != d {
				return nil, fmt.Errorf("input %d has shape %v: axis %d is %d long, and %d elsewhere in the equation", i, s, a, d, p.dims[l])
			} else if d != 1 {
				p.dims[l] = d
			}
		}
	}
	views := make([]einsumView, len(shapes))
	for i, s := range shapes {
		views[i] = p.view(i, terms[i], s)
	}
	return views, nil
}

func (p *einsumPlan) view(buffer int, term []byte, shape []int) einsumView {
	v := einsumView{buffer: buffer}
	for a, stride := range einsumStrides(shape) {
		l := term[a]
		if shape[a] == 1 {
			stride = 0
		}
		if at := slices.Index(v.labels, l); at >= 0 {
			v.strides[at] += stride
			continue
		}
		v.labels, v.dims, v.strides = append(v.labels, l), append(v.dims, p.dims[l]), append(v.strides, stride)
	}
	return v
}

func einsumStrides(shape []int) []int {
	s := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// axis returns the dim and stride of a label; stride 0 where the view does not have it.
func (v *einsumView) axis(l byte) (dim, stride int) {
	at := slices.Index(v.labels, l)
	return v.dims[at], v.strides[at]
}

// gather adds a step that writes a view to a buffer, in the order of labels; the view's other labels
// are summed over. A negative buffer means a new one in workspace.
func (p *einsumPlan) gather(v einsumView, labels []byte, buffer int) einsumView {
	s := einsumStep{inner: 1, rows: 1, terms: 1}
	out := einsumView{labels: labels}
	for _, l := range labels {
		d, stride := v.axis(l)
		s.dims, s.strides = append(s.dims, d), append(s.strides, stride)
	}
	out.dims, out.strides = s.dims, einsumStrides(s.dims)
	for i, l := range v.labels {
		if !slices.Contains(labels, l) {
			s.sumDims, s.sumStrides = append(s.sumDims, v.dims[i]), append(s.sumStrides, v.strides[i])
			s.terms *= v.dims[i]
		}
	}
	if len(s.dims) == 0 {
		s.dims, s.strides = []int{1}, []int{0}
	}
	s.rows, s.inner = product(s.dims[:len(s.dims)-1]), s.dims[len(s.dims)-1]
	if buffer < 0 {
		buffer = p.workspace(product(s.dims))
	}
	out.buffer = buffer
	s.a.buffer, s.c.buffer = v.buffer, buffer
	if s.rows*s.inner > 0 {
		p.steps = append(p.steps, s)
	}
	return out
}

// workspace returns a new buffer of n elements.
func (p *einsumPlan) workspace(n int) int {
	p.scratch = append(p.scratch, n)
	return len(p.eq.terms) + len(p.scratch)
}

// sumOut sums over the labels that neither the other operand nor the rest of the computation has.
func (p *einsumPlan) sumOut(v einsumView, other, keep []byte) einsumView {
	var labels []byte
	for _, l := range v.labels {
		if slices.Contains(other, l) || slices.Contains(keep, l) {
			labels = append(labels, l)
		}
	}
	if len(labels) == len(v.labels) {
		return v
	}
	return p.gather(v, labels, -1)
}
