package operand

import "memopt/executor"

// PadMode is the source of the elements outside the input of a Pad.
type PadMode uint8

const (
	PadConstant PadMode = iota
	PadReflect          // the input mirrored at its border elements
	PadEdge             // the border element
	PadWrap             // the input again
)

// padModes are the modes by the attribute.
var padModes = map[string]PadMode{"constant": PadConstant, "reflect": PadReflect, "edge": PadEdge, "wrap": PadWrap}

// Padding is the number of elements that a Pad adds before and after each axis of input 0, or takes
// away if the number is negative. The numbers are the attribute pads before version 11 and input 1
// since; since version 18 they may be for only the axes that input 3 lists.
// https://onnx.ai/onnx/operators/onnx__Pad.html
type Padding struct {
	Mode          PadMode
	Attrs         bool  // pads and value are attributes
	Before, After []int // per axis
	Shape         []int // of the result

	pads, axes []int
	named      []bool
}

// NewPadding reads the attributes but for the value.
func NewPadding(p *executor.Prep) (Padding, error) {
	name := p.Node.Str("mode", "constant")
	mode, ok := padModes[name]
	if !ok || mode == PadWrap && p.Version < 19 {
		return Padding{},
			p.Errorf("attribute mode is %q, wanted constant, reflect or edge, or wrap from version 19 on", name)
	}
	return Padding{Mode: mode, Attrs: p.Version < 11}, nil
}

// Read sets Before, After and Shape, and returns input 2, the element outside the input, or nil if
// it is missing.
func (k *Padding) Read(c *executor.Ctx) (value []byte, err error) {
	x := c.In(0)
	k.axes, k.pads = k.axes[:0], k.pads[:0]
	for i := range x.Rank() {
		k.axes = append(k.axes, i)
	}
	if k.Attrs {
		k.pads = List(k.pads, c.Prep().Node.IntList("pads", nil))
	} else if value, err = k.inputs(c); err != nil {
		return nil, err
	}
	if k.named, err = Named(c, k.axes, x.Rank(), k.named); err != nil {
		return nil, err
	}
	if len(k.pads) != 2*len(k.axes) {
		return nil, c.Errorf("has %d pads for %d axes, wanted two per axis", len(k.pads), len(k.axes))
	}
	k.Before, k.After = k.Before[:0], k.After[:0]
	for range x.Rank() {
		k.Before, k.After = append(k.Before, 0), append(k.After, 0)
	}
	for i, axis := range k.axes {
		if axis < 0 {
			axis += x.Rank()
		}
		k.Before[axis], k.After[axis] = k.pads[i], k.pads[i+len(k.axes)]
	}
	return value, k.sizes(c, x)
}

// inputs reads pads, value and axes from inputs.
func (k *Padding) inputs(c *executor.Ctx) (value []byte, err error) {
	if k.pads, err = Ints(c, 1, k.pads); err != nil {
		return nil, err
	}
	if v := c.In(2); v != nil && v.Len() == 1 {
		value = v.Data[:ElementBytes(v.DType)]
	} else if v != nil && v.Len() != 0 {
		return nil, c.Errorf("input 2 is %v, wanted one element", v)
	}
	if c.In(3) != nil {
		k.axes, err = Ints(c, 3, k.axes[:0])
	}
	return value, err
}

// sizes sets the shape of the result.
func (k *Padding) sizes(c *executor.Ctx, x *executor.Tensor) error {
	const most = 1 << 48 // more than any memory, and sums stay in int
	k.Shape = k.Shape[:0]
	for i, d := range x.Shape {
		a, b := k.Before[i], k.After[i]
		if a < -most || b < -most || a > most || b > most {
			return c.Errorf("axis %d has the pads %d and %d", i, a, b)
		}
		kept := d + min(a, 0) + min(b, 0)
		if kept < 0 || kept == 0 && k.Mode != PadConstant && (a > 0 || b > 0) {
			return c.Errorf("axis %d of input 0, which has shape %v, has the pads %d and %d", i, x.Shape, a, b)
		}
		k.Shape = append(k.Shape, d+a+b)
	}
	return nil
}
