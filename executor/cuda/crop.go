package cuda

import "memopt/executor"

// centerCropPad cuts or pads axes about their middle; the lengths are read on the host.
type centerCropPad struct {
	boxCopy
	given             bool
	attr              []int64
	axes, want, shape []int
	steps             []int
}

// newCenterCropPad makes the kernel of CenterCropPad.
func newCenterCropPad(d *Device, p *executor.Prep) (executor.Kernel, error) {
	b, err := newBoxCopy(d, p, elementBytes(p.DType(0)))
	return &centerCropPad{boxCopy: b, given: p.Node.Attr("axes") != nil, attr: p.Node.IntList("axes", nil)}, err
}

// Run copies what is in both shapes, and fills the rest with zeros. What is left of an odd difference goes to the end.
func (k *centerCropPad) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.sizes(c, x); err != nil {
		return err
	}
	y := c.Out(0, k.shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	k.steps = rowMajor(k.steps, k.shape)
	k.begin()
	step, from, to, padded := x.Len(), 0, 0, false
	for i, n := range k.shape {
		d := x.Shape[i]
		step /= max(d, 1)
		k.add(min(n, d), k.steps[i], step)
		from += max(d-n, 0) / 2 * step
		to += max(n-d, 0) / 2 * k.steps[i]
		padded = padded || n > d
	}
	if padded {
		if err := k.d.Memory().Fill(y.Data, 0); err != nil {
			return err
		}
	}
	return k.copyBox(c, y.Data, to, x.Data, from)
}

// sizes sets the shape of the result.
func (k *centerCropPad) sizes(c *executor.Ctx, x *executor.Tensor) (err error) {
	if k.want, err = hostShape(c, 1, k.want[:0]); err != nil {
		return err
	}
	k.axes = attrInts(k.axes[:0], k.attr)
	for i := 0; !k.given && i < x.Rank(); i++ {
		k.axes = append(k.axes, i)
	}
	if err := frontAxes(c, k.axes, x.Rank()); err != nil {
		return err
	}
	if len(k.want) != len(k.axes) {
		return c.Errorf("input 1 lists %d lengths for %d axes", len(k.want), len(k.axes))
	}
	k.shape = append(k.shape[:0], x.Shape...)
	for i, axis := range k.axes {
		k.shape[axis] = k.want[i]
	}
	return nil
}
