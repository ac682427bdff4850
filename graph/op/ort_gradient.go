package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// shapeFromRule returns the rule of a gradient whose operand's shape is an input of its own (slot)
// and whose type is that of the incoming gradient.
func shapeFromRule(slot, grad int) func(*Ctx) {
	return func(c *Ctx) {
		if s := c.shapeOperand(slot); !c.Failed() {
			c.OutTensor(0, c.DType(grad), s)
		}
	}
}

// broadcastGradientArgsRule: two shapes give, for each, the axes that broadcasting stretched; a
// gradient must be summed over these.
//
// The lists are contents, from the last axis to the first as ONNX Runtime makes them. A dim that is
// 1 beside a symbol counts as stretched: should the symbol be 1 in a run, the sum over that axis
// does not change the gradient. Two different symbols, or an unknown dim, leave the lists unknown.
func broadcastGradientArgsRule(c *Ctx) {
	if !c.wantRank(0, 1) || !c.wantRank(1, 1) {
		return
	}
	a, okA := c.Contents(0)
	b, okB := c.Contents(1)
	var axesA, axesB []symbolic.Expr
	ok := okA && okB
	if ok {
		axesA, axesB, ok = stretchedAxes(a, b)
	}
	for k, axes := range [][]symbolic.Expr{axesA, axesB} {
		length := symbolic.Unknown()
		if ok {
			length = symbolic.Const(int64(len(axes)))
			c.SetContents(k, axes)
		}
		c.OutTensor(k, graph.Int64, graph.Dims(length))
	}
}

func stretchedAxes(a, b []symbolic.Expr) (axesA, axesB []symbolic.Expr, ok bool) {
	axesA, axesB = []symbolic.Expr{}, []symbolic.Expr{}
	rank := max(len(a), len(b))
	for axis := rank - 1; axis >= 0; axis-- {
		i, j, at := axis-(rank-len(a)), axis-(rank-len(b)), symbolic.Const(int64(axis))
		switch {
		case i < 0:
			axesA = append(axesA, at)
		case j < 0:
			axesB = append(axesB, at)
		case a[i].Equal(b[j]):
		case a[i].IsUnknown() || b[j].IsUnknown():
			return nil, nil, false
		case a[i].IsConst(1):
			axesA = append(axesA, at)
		case b[j].IsConst(1):
			axesB = append(axesB, at)
		default:
			return nil, nil, false
		}
	}
	return axesA, axesB, true
}

// concatTrainingRule: Concat, and each input's length along the axis.
func concatTrainingRule(c *Ctx) {
	concatRule(c)
	if c.Failed() {
		return
	}
	lengths := make([]symbolic.Expr, len(c.Node.Inputs))
	for i := range lengths {
		lengths[i] = symbolic.Unknown()
		s := c.Shape(i)
		if axis, ok := c.axisAttr(s); ok {
			lengths[i] = s.Dims[axis]
		}
	}
	c.OutTensor(1, graph.Int64, graph.Ints(int64(len(lengths))))
	c.SetContents(1, lengths)
}

// axisAttr reads the attribute axis, 0 where it is absent; ok is false for an unknown rank.
func (c *Ctx) axisAttr(s graph.Shape) (int, bool) {
	if !s.Ranked {
		return 0, false
	}
	return c.Axis("attribute axis", c.Int("axis", 0), len(s.Dims))
}

// splitTrainingRule: Split with the sizes as input 1 and no rule for sizes that are left out.
func splitTrainingRule(c *Ctx) {
	s := c.Shape(0)
	sizes, _ := c.Contents(1)
	if sizes != nil && len(sizes) != len(c.Node.Outputs) {
		c.Errorf("input 1 has %d sizes, wanted %d, one per output", len(sizes), len(c.Node.Outputs))
		return
	}
	axis, ranked := c.axisAttr(s)
	for k := range c.Node.Outputs {
		t := graph.Tensor(c.DType(0), s)
		if ranked {
			size := symbolic.Unknown()
			if sizes != nil {
				size = sizes[k]
			}
			if n, ok := size.Const(); ok && n < 0 {
				c.Errorf("size %d in input 1 is %d; a size cannot be negative", k, n)
				return
			}
			t.Shape = with(s, axis, size)
		}
		c.Out(k, t)
	}
}

// shrunkenGatherRule: a Gather of at most as many slices as there are.
func shrunkenGatherRule(c *Ctx) {
	s, at := c.Shape(0), c.Shape(1)
	axis, ok := c.axisAttr(s)
	if c.Failed() {
		return
	}
	if !ok || !at.Ranked {
		c.OutTensor(0, c.DType(0), graph.Shape{})
		return
	}
	dims := append(append([]symbolic.Expr(nil), s.Dims[:axis]...), at.Dims...)
	c.OutTensor(0, c.DType(0), graph.Dims(append(dims, s.Dims[axis+1:]...)...))
}

// mixedPrecisionScaleRule: input 0 is the scale; the outputs are the other inputs, scaled and
// converted to the type in attribute to, or, with fuse_outputs, one vector of all their elements.
func mixedPrecisionScaleRule(c *Ctx) {
	to := c.DTypeAttr("to", graph.Undefined)
	if to == graph.Undefined {
		c.Errorf("lacks the attribute %q, an element type", "to")
		return
	}
	if c.Int("fuse_outputs", 0) != 0 {
		total := symbolic.Const(0)
		for i := 1; i < len(c.Node.Inputs); i++ {
			total = total.Add(c.Shape(i).Elements())
		}
		c.OutTensor(0, to, graph.Dims(total))
		return
	}
	if len(c.Node.Outputs) != len(c.Node.Inputs)-1 {
		c.Errorf("has %d outputs, wanted %d, one per scaled input", len(c.Node.Outputs), len(c.Node.Inputs)-1)
		return
	}
	for i := 1; i < len(c.Node.Inputs); i++ {
		c.OutTensor(i-1, to, c.Shape(i))
	}
}

// dynamicSliceRule: a Slice whose bounds are inputs; only the rank is sure.
func dynamicSliceRule(c *Ctx) {
	s := c.Shape(0)
	if s.Ranked {
		s = graph.UnknownDims(len(s.Dims))
	}
	c.OutTensor(0, c.DType(0), s)
}
