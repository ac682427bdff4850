package operand

import "memopt/executor"

// StridedView takes the elements of input 0 that lie at fixed steps along each axis of the result: the elements of a
// diagonal, for example, at steps of a row and one. Elements may be in the result several times.
type StridedView struct {
	// The function Of sets the fields below for an input of a shape; the view's own inputs begin at slot at.
	Of    func(v *StridedView, c *executor.Ctx, x []int, at int) error
	Shape []int // of the result
	Step  []int // from one element to the next, in elements of the input, by axis
	First int   // element of the input
	own   []int
}

// NewDiagonal makes PyTorch's diagonal.
func NewDiagonal(*executor.Prep) (Move, error) { return &StridedView{Of: Diagonal}, nil }

// NewUnfold makes PyTorch's unfold.
func NewUnfold(*executor.Prep) (Move, error) { return &StridedView{Of: Unfold}, nil }

// Run copies.
func (v *StridedView) Run(c *executor.Ctx, m Copier) error {
	x := c.In(0)
	if err := v.Of(v, c, x.Shape, 1); err != nil {
		return err
	}
	y := c.Out(0, v.Shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	m.Begin()
	to := y.Len()
	for i, n := range v.Shape {
		to /= n
		m.Add(n, to, v.Step[i])
	}
	return m.Copy(c, y.Data, 0, x.Data, v.First)
}

// axis reads an axis.
func (v *StridedView) axis(c *executor.Ctx, slot, def, rank int) (int, error) {
	axis, err := Int(c, slot, def)
	if err == nil && axis < 0 {
		axis += rank
	}
	if err == nil && (axis < 0 || axis >= rank) {
		err = c.Errorf("input %d, an axis, is outside the rank %d", slot, rank)
	}
	return axis, err
}

// Diagonal: inputs are an offset and two axes, whose diagonal becomes the last axis.
// https://docs.pytorch.org/docs/stable/generated/torch.diagonal.html
func Diagonal(v *StridedView, c *executor.Ctx, x []int, at int) error {
	offset, err := Int(c, at, 0)
	if err != nil {
		return err
	}
	a, err := v.axis(c, at+1, 0, len(x))
	if err != nil {
		return err
	}
	b, err := v.axis(c, at+2, 1, len(x))
	if err != nil {
		return err
	}
	if a == b {
		return c.Errorf("inputs %d and %d are both axis %d, wanted two axes", at+1, at+2, a)
	}
	v.own = RowMajor(v.own, x)
	v.Shape, v.Step = v.Shape[:0], v.Step[:0]
	for i, n := range x {
		if i != a && i != b {
			v.Shape, v.Step = append(v.Shape, n), append(v.Step, v.own[i])
		}
	}
	n := min(x[a], x[b]-offset)
	v.First = offset * v.own[b]
	if offset < 0 {
		n, v.First = min(x[a]+offset, x[b]), -offset*v.own[a]
	}
	v.Shape, v.Step = append(v.Shape, max(n, 0)), append(v.Step, v.own[a]+v.own[b])
	return nil
}

// Unfold: inputs are an axis, a length and a step; the pieces of the axis that begin at every step become an axis
// behind the last one. https://docs.pytorch.org/docs/stable/generated/torch.Tensor.unfold.html
func Unfold(v *StridedView, c *executor.Ctx, x []int, at int) error {
	axis, err := v.axis(c, at, 0, len(x))
	if err != nil {
		return err
	}
	size, err := Int(c, at+1, 1)
	if err != nil {
		return err
	}
	step, err := Int(c, at+2, 1)
	if err != nil {
		return err
	}
	if size < 0 || size > x[axis] || step < 1 {
		return c.Errorf("pieces of %d elements at steps of %d do not fit an axis of %d", size, step, x[axis])
	}
	v.own = RowMajor(v.own, x)
	v.Shape, v.Step, v.First = append(v.Shape[:0], x...), append(v.Step[:0], v.own...), 0
	v.Shape[axis], v.Step[axis] = (x[axis]-size)/step+1, step*v.own[axis]
	v.Shape, v.Step = append(v.Shape, size), append(v.Step, v.own[axis])
	return nil
}
