package operand

import (
	"memopt/executor"
	"memopt/graph/op"
)

// Splitting cuts an axis of input 0 into parts. The sizes are an attribute in versions 2 and 11 and
// input 1 in the others; without sizes, parts are equal, except that since version 18 the last one
// may be smaller. SplitTraining always has its sizes as input 1.
// https://onnx.ai/onnx/operators/onnx__Split.html
type Splitting struct {
	axis          int64
	attr          []int // sizes as attribute; nil if they are missing
	input, uneven bool  // sizes may be input 1; the last equal part may be smaller
	outputs       int
	sizes, shape  []int
}

// NewSplitting makes Split and SplitTraining.
func NewSplitting(p *executor.Prep) (Move, error) {
	training := p.Node.Kind == op.SplitTraining
	s := &Splitting{axis: p.Node.Int("axis", 0), outputs: len(p.Out)}
	s.input = training || p.Version == 1 || p.Version >= 13
	s.uneven = !training && p.Version >= 18
	if !training && p.Version < 13 && p.Node.Attr("split") != nil {
		s.attr = List([]int{}, p.Node.IntList("split", nil))
	}
	if n := p.Node.Int("num_outputs", int64(s.outputs)); s.uneven && n != int64(s.outputs) {
		return nil, p.Errorf("attribute num_outputs is %d and the node has %d outputs", n, s.outputs)
	}
	return s, nil
}

// Run copies the parts that are wanted.
func (s *Splitting) Run(c *executor.Ctx, m Copier) error {
	x := c.In(0)
	axis, err := Axis(c, s.axis, x.Rank())
	if err != nil {
		return err
	}
	if err := s.parts(c, x.Shape[axis]); err != nil {
		return err
	}
	outer, inner, at := Product(x.Shape[:axis]), Product(x.Shape[axis+1:]), 0
	s.shape = append(s.shape[:0], x.Shape...)
	for i, n := range s.sizes {
		s.shape[axis] = n
		if y := c.Out(i, s.shape...); y != nil {
			m.Begin()
			m.Add(outer, n*inner, x.Shape[axis]*inner)
			m.Add(n*inner, 1, 1)
			if err := m.Copy(c, y.Data, 0, x.Data, at); err != nil {
				return err
			}
		}
		at += n * inner
	}
	return nil
}

// parts sets sizes for an axis of length d.
func (s *Splitting) parts(c *executor.Ctx, d int) (err error) {
	s.sizes = s.sizes[:0]
	switch {
	case s.input && c.In(1) != nil:
		if s.sizes, err = Ints(c, 1, s.sizes); err != nil {
			return err
		}
	case s.attr != nil:
		s.sizes = append(s.sizes, s.attr...)
	default:
		return s.equal(c, d)
	}
	if len(s.sizes) != s.outputs {
		return c.Errorf("has %d sizes and %d outputs", len(s.sizes), s.outputs)
	}
	left := d
	for _, n := range s.sizes {
		if n < 0 || n > left {
			return c.Errorf("sizes %v cut an axis of length %d", s.sizes, d)
		}
		left -= n
	}
	if left != 0 {
		return c.Errorf("sizes %v add up to %d and the axis has length %d", s.sizes, d-left, d)
	}
	return nil
}

// equal cuts into equal parts.
func (s *Splitting) equal(c *executor.Ctx, d int) error {
	n := s.outputs
	part := (d + n - 1) / n
	if !s.uneven && part*n != d {
		return c.Errorf("an axis of length %d cannot be cut into %d equal parts", d, n)
	}
	for range n {
		part = min(part, d)
		s.sizes = append(s.sizes, part)
		d -= part
	}
	return nil
}
