package operand

import "memopt/executor"

// ArgSearch is an ArgMax or ArgMin of input 0.
// https://onnx.ai/onnx/operators/onnx__ArgMax.html
type ArgSearch struct {
	Less bool // ArgMin
	Last bool // of equal elements the last one counts, not the first
	Axis int

	attr  int64
	keep  bool
	shape []int // of the result
}

// NewArgSearch reads the attributes.
func NewArgSearch(p *executor.Prep, less bool) ArgSearch {
	return ArgSearch{Less: less, Last: p.Node.Int("select_last_index", 0) != 0, attr: p.Node.Int("axis", 0),
		keep: p.Node.Int("keepdims", 1) == 1}
}

// Begin sets the axis, which has elements, and makes output 0. It returns nil if the output is
// empty or not wanted.
func (s *ArgSearch) Begin(c *executor.Ctx) (y *executor.Tensor, err error) {
	x := c.In(0)
	if s.Axis, err = DataAxis(c, s.attr, x.Rank()); err != nil {
		return nil, err
	}
	s.shape = append(s.shape[:0], x.Shape[:s.Axis]...)
	if s.keep {
		s.shape = append(s.shape, 1)
	}
	s.shape = append(s.shape, x.Shape[s.Axis+1:]...)
	if y = outWithElements(c, s.shape); y != nil && x.Shape[s.Axis] == 0 {
		return nil, c.Errorf("axis %d of input 0, of shape %v, has no elements to choose from", s.Axis, x.Shape)
	}
	return y, nil
}

// RunningSum is a CumSum along the axis that input 1 names.
// https://onnx.ai/onnx/operators/onnx__CumSum.html
type RunningSum struct {
	Exclusive bool // a sum leaves out the element at its own place
	Reverse   bool // sums run from the end
	Axis      int
}

// NewRunningSum reads the attributes.
func NewRunningSum(p *executor.Prep) RunningSum {
	return RunningSum{Exclusive: p.Node.Int("exclusive", 0) != 0, Reverse: p.Node.Int("reverse", 0) != 0}
}

// Begin sets the axis and makes output 0. It returns nil if the output is empty or not wanted.
func (s *RunningSum) Begin(c *executor.Ctx) (y *executor.Tensor, err error) {
	x := c.In(0)
	axis, err := Scalar(c, 1, "the axis")
	if err != nil {
		return nil, err
	}
	if s.Axis, err = DataAxis(c, axis, x.Rank()); err != nil {
		return nil, err
	}
	return outWithElements(c, x.Shape), nil
}
