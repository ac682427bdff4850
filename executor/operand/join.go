package operand

import "memopt/executor"

// Joining puts all inputs together along an axis.
// https://onnx.ai/onnx/operators/onnx__Concat.html
type Joining struct {
	Attr int64 // the axis as the node has it
	Axis int   // counted from the front

	shape []int // of the result
}

// Read sets Axis and checks the inputs.
func (j *Joining) Read(c *executor.Ctx) (err error) {
	first := c.In(0)
	if j.Axis, err = Axis(c, j.Attr, first.Rank()); err != nil {
		return err
	}
	j.shape = append(j.shape[:0], first.Shape...)
	for i := 1; i < c.Inputs(); i++ {
		x := c.In(i)
		if x.Rank() != len(j.shape) {
			return c.Errorf("input %d has shape %v, wanted rank %d as input 0", i, x.Shape, len(j.shape))
		}
		if !equalBut(x.Shape, j.shape, j.Axis) {
			return c.Errorf("input %d has shape %v and input 0 has shape %v; they may differ in axis %d alone",
				i, x.Shape, first.Shape, j.Axis)
		}
		j.shape[j.Axis] += x.Shape[j.Axis]
	}
	return nil
}

// Run copies each input into its place, after Read.
func (j *Joining) Run(c *executor.Ctx, m Copier) error {
	y := c.Out(0, j.shape...)
	if y == nil {
		return nil
	}
	outer, inner, at := Product(j.shape[:j.Axis]), Product(j.shape[j.Axis+1:]), 0
	for i := range c.Inputs() {
		x := c.In(i)
		n := x.Shape[j.Axis] * inner
		m.Begin()
		m.Add(outer, j.shape[j.Axis]*inner, n)
		m.Add(n, 1, 1)
		if err := m.Copy(c, y.Data, at, x.Data, 0); err != nil {
			return err
		}
		at += n
	}
	return nil
}
