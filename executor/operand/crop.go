package operand

import "memopt/executor"

// Cropping cuts or pads axes of input 0 about their middle to the lengths that input 1 lists. The
// extra element of an odd difference is at the end.
// https://onnx.ai/onnx/operators/onnx__CenterCropPad.html
type Cropping struct {
	Shape  []int // of the result
	Padded bool  // an axis becomes longer: the result has elements that are 0

	given             bool // the axes are an attribute
	attr              []int64
	axes, want, steps []int
	named             []bool
}

// NewCropping reads the attributes.
func NewCropping(p *executor.Prep) Cropping {
	return Cropping{given: p.Node.Attr("axes") != nil, attr: p.Node.IntList("axes", nil)}
}

// Read sets Shape and Padded.
func (k *Cropping) Read(c *executor.Ctx) (err error) {
	x := c.In(0)
	if k.want, err = Shape(c, 1, k.want[:0]); err != nil {
		return err
	}
	k.axes = List(k.axes[:0], k.attr)
	for i := 0; !k.given && i < x.Rank(); i++ {
		k.axes = append(k.axes, i)
	}
	if k.named, err = Named(c, k.axes, x.Rank(), k.named); err != nil {
		return err
	}
	if len(k.want) != len(k.axes) {
		return c.Errorf("input 1 lists %d lengths for %d axes", len(k.want), len(k.axes))
	}
	k.Shape, k.Padded = append(k.Shape[:0], x.Shape...), false
	for i, axis := range k.axes {
		if axis < 0 {
			axis += x.Rank()
		}
		k.Shape[axis] = k.want[i]
		k.Padded = k.Padded || k.want[i] > x.Shape[axis]
	}
	return nil
}

// Copy copies the part that is in both shapes to y, of the shape that Read has set.
func (k *Cropping) Copy(c *executor.Ctx, m Copier, y *executor.Tensor) error {
	x := c.In(0)
	k.steps = RowMajor(k.steps, k.Shape)
	m.Begin()
	step, from, to := x.Len(), 0, 0
	for i, n := range k.Shape {
		d := x.Shape[i]
		step /= max(d, 1)
		m.Add(min(n, d), k.steps[i], step)
		from += max(d-n, 0) / 2 * step
		to += max(n-d, 0) / 2 * k.steps[i]
	}
	return m.Copy(c, y.Data, to, x.Data, from)
}
