package einsum

import (
	"fmt"
	"slices"
)

// Plan is how an equation is computed for operands of certain shapes: operands are multiplied from
// the left to the right, each pair as a batch of matrix products. Buffers are numbered: the
// operands, the result, then workspace.
type Plan struct {
	Shape   []int // of the result
	Steps   []Step
	Scratch []int // elements of each buffer of workspace

	eq     Equation
	shapes [][]int // that the plan is for
	dims   [256]int
	wide   int // axes that the ellipsis stands for
}

// New returns the plan of an equation, to be built for shapes.
func New(eq Equation) *Plan { return &Plan{eq: eq} }

// view is an operand: its strides by label. Each label occurs once.
type view struct {
	buffer        int
	labels        []byte
	dims, strides []int
}

// Step computes one buffer, C: a product multiplies the matrices of A and B; a gather copies, or
// sums, from A alone.
type Step struct {
	Product bool
	A, B, C Matrix

	// A batch of products of M×K by K×N matrices. Only K may be 0.
	M, N, K int
	Batch   []Axis // the outermost first

	// The result of a gather has the dims Dims, at least one; Strides are how far apart its
	// elements are in A. Each is the sum of Terms elements of A.
	Dims, Strides       []int
	SumDims, SumStrides []int
	Terms               int
}

// Axis is an axis of a batch, and how far apart matrices are along it.
type Axis struct{ N, A, B, C int }

// Matrix is the layout of matrices in a buffer.
type Matrix struct {
	Buffer int
	Trans  bool
	LD     int // how far apart rows are, or columns where Trans
}

// Steps returns how far apart rows and columns are.
func (m *Matrix) Steps() (row, col int) {
	if m.Trans {
		return 1, m.LD
	}
	return m.LD, 1
}

// Fits reports whether the plan is built for operands of the given shapes.
func (p *Plan) Fits(shapes [][]int) bool {
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

// Build makes the plan for operands of the given shapes, one per term.
func (p *Plan) Build(shapes [][]int) error {
	*p = Plan{eq: p.eq}
	if len(shapes) != len(p.eq.Terms) {
		return fmt.Errorf("there are %d operands, and the equation has %d", len(shapes), len(p.eq.Terms))
	}
	views, err := p.views(shapes)
	if err != nil {
		return err
	}
	result := p.spread(p.eq.Result, p.wide)
	for _, l := range result {
		p.Shape = append(p.Shape, p.dims[l])
	}
	out := view{buffer: len(shapes), labels: result, dims: p.Shape, strides: strides(p.Shape)}
	acc := views[0]
	for i := 1; i < len(views); i++ {
		keep := result
		for _, v := range views[i+1:] {
			keep = append(slices.Clip(keep), v.labels...)
		}
		var target *view
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

// spread replaces an ellipsis of n axes by labels of its own.
func (p *Plan) spread(term []byte, n int) []byte {
	out := []byte{}
	for _, l := range term {
		if l != dots {
			out = append(out, l)
			continue
		}
		for j := n - 1; j >= 0; j-- {
			out = append(out, dotsAxis(j))
		}
	}
	return out
}

// views finds the dim of every label and describes the operands. A repeated label is a diagonal: a
// step along it is a step along both axes. An axis of length 1 is repeated where another operand
// has more.
func (p *Plan) views(shapes [][]int) ([]view, error) {
	for i := range p.dims {
		p.dims[i] = 1
	}
	terms := make([][]byte, len(shapes))
	for i, s := range shapes {
		term := p.eq.Terms[i]
		labels, dots := len(term), slices.Contains(term, dots)
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
				return nil, fmt.Errorf("input %d has shape %v: axis %d is %d long, and %d elsewhere in the equation",
					i, s, a, d, p.dims[l])
			} else if d != 1 {
				p.dims[l] = d
			}
		}
	}
	views := make([]view, len(shapes))
	for i, s := range shapes {
		views[i] = p.view(i, terms[i], s)
	}
	return views, nil
}

func (p *Plan) view(buffer int, term []byte, shape []int) view {
	v := view{buffer: buffer}
	for a, stride := range strides(shape) {
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

func strides(shape []int) []int {
	s := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= shape[i]
	}
	return s
}

// axis returns the dim and stride of a label; stride 0 where the view does not have it.
func (v *view) axis(l byte) (dim, stride int) {
	at := slices.Index(v.labels, l)
	return v.dims[at], v.strides[at]
}

// gather adds a step that writes a view to a buffer, in the order of labels; the view's other
// labels are summed over. A negative buffer means a new one in workspace.
func (p *Plan) gather(v view, labels []byte, buffer int) view {
	s := Step{Terms: 1}
	out := view{labels: labels}
	for _, l := range labels {
		d, stride := v.axis(l)
		s.Dims, s.Strides = append(s.Dims, d), append(s.Strides, stride)
	}
	out.dims, out.strides = s.Dims, strides(s.Dims)
	for i, l := range v.labels {
		if !slices.Contains(labels, l) {
			s.SumDims, s.SumStrides = append(s.SumDims, v.dims[i]), append(s.SumStrides, v.strides[i])
			s.Terms *= v.dims[i]
		}
	}
	if len(s.Dims) == 0 {
		s.Dims, s.Strides = []int{1}, []int{0}
	}
	if buffer < 0 {
		buffer = p.workspace(product(s.Dims))
	}
	out.buffer = buffer
	s.A.Buffer, s.C.Buffer = v.buffer, buffer
	if product(s.Dims) > 0 {
		p.Steps = append(p.Steps, s)
	}
	return out
}

// product multiplies dims.
func product(dims []int) int {
	n := 1
	for _, d := range dims {
		n *= d
	}
	return n
}

// workspace returns a new buffer of n elements.
func (p *Plan) workspace(n int) int {
	p.Scratch = append(p.Scratch, n)
	return len(p.eq.Terms) + len(p.Scratch)
}

// sumOut sums over the labels that neither the other operand nor the rest of the computation has.
func (p *Plan) sumOut(v view, other, keep []byte) view {
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
