package cuda

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// oneHot inserts an axis of length depth: the place that the input names has the second of two
// values, and all others have the first.
type oneHot struct {
	*launch
	axis int64
	wide uint32
	out  []int
}

// newOneHot makes the kernel of OneHot.
func newOneHot(d *Device, p *executor.Prep) (executor.Kernel, error) {
	size, t := operand.ElementBytes(p.DType(2)), p.DType(0)
	depth := p.DType(1)
	if size == 0 || t != graph.Int64 && t != graph.Int32 || depth != graph.Int64 && depth != graph.Int32 {
		return nil, noTypes(p)
	}
	l, err := d.launch("movefill", "onehot_"+sizeName(size))
	k := &oneHot{launch: l, axis: p.Node.Int("axis", -1)}
	if t == graph.Int64 {
		k.wide = 1
	}
	return k, err
}

// Run fills the output.
func (k *oneHot) Run(c *executor.Ctx) error {
	x, values := c.In(0), c.In(2)
	if c.In(1).Len() != 1 || values.Len() != 2 {
		return c.Errorf("inputs 1 and 2 are %v and %v, wanted one element and two", c.In(1), values)
	}
	depth, err := operand.Int(c, 1, 0)
	if err != nil {
		return err
	}
	if depth < 0 {
		return c.Errorf("input 1, the depth, is %d", depth)
	}
	axis, err := operand.Axis(c, k.axis, x.Rank()+1)
	if err != nil {
		return err
	}
	k.out = append(append(append(k.out[:0], x.Shape[:axis]...), depth), x.Shape[axis:]...)
	y := c.Out(0, k.out...)
	if y == nil {
		return nil
	}
	k.begin().In(x.Data).In(values.Data).Out(y.Data).Int(y.Len()).Int(depth).Int(elements(x.Shape[axis:])).
		Uint32(k.wide)
	return k.line(y.Len(), 1)
}
