package autograd

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// cut says that a rule runs as if its node had been given slices of its inputs: the gradient of a
// part is all that there is of its output's.
type cut struct {
	part
	axes   []int64 // by input: the axis that is cut; -1 for a whole input
	inputs []Value // by input: the slice, once it has been made; else None
}

// cutNode hands a node to its rule with the one part of its output's gradient, where that pays: a
// product then sees no rows of zeros, and zeros are put around its input's gradient, which is
// smaller. It returns nil if that does not pay, or if there is more than one part.
func (j *joint) cutNode(n *graph.Node) *Ctx {
	y := n.Output(0)
	if y == None || len(n.Outputs) != 1 || len(j.parts[y]) != 1 || j.grads[y] != None {
		return nil
	}
	p := j.parts[y][0]
	if j.opset() < sliceInputs || !j.cutPays(n, p.axis) {
		return nil
	}
	delete(j.parts, y)
	c := j.ctx(n)
	c.cut = &cut{p, Of(n.Kind).Cut(c, p.axis), slices.Repeat([]Value{None}, len(n.Inputs))}
	return c
}

// cutPays reports whether a cut along an axis of a node's output leads to a node where it pays.
func (j *joint) cutPays(n *graph.Node, axis int64) bool {
	row := Of(n.Kind)
	if row.Cut == nil {
		return false
	}
	for i, a := range row.Cut(&Ctx{Node: n, emitter: emitter{j}}, axis) {
		if a < 0 || !j.requires[n.Inputs[i]] {
			continue
		}
		v := &j.g.Values[n.Inputs[i]]
		if row.CutPays || v.Def != graph.NoNode && int(v.Def) < j.forward && j.readers[n.Inputs[i]] == 1 &&
			j.cutPays(j.g.Nodes[v.Def], a) {
			return true
		}
	}
	return false
}

// slice is the part of input i that the cut node makes the part of its output from.
func (c *Ctx) slice(i int, v Value) Value {
	axis := c.cut.axes[i]
	if axis < 0 {
		return v
	}
	if c.cut.inputs[i] == None {
		start, end := c.cutBounds(v, axis)
		c.cut.inputs[i] = c.Slice(v, start, end, c.Vector(axis))
	}
	return c.cut.inputs[i]
}

// cutBounds are the bounds of the part as those of a Slice of v.
func (c *Ctx) cutBounds(v Value, axis int64) (start, end Value) {
	p := &c.cut.part
	length := c.extentOf(v, axis).length
	first, known := p.first.Const()
	if start = c.Vector(first); !known {
		start = c.Sub(c.Dim(v, axis), c.Dim(p.g, p.axis))
	}
	switch rest, ok := length.Sub(p.end()).Const(); {
	case ok && rest > 0:
		end = c.Vector(-rest)
	case ok, !known:
		end = c.Vector(lastIndex)
	default:
		end = c.Add(c.Dim(p.g, p.axis), c.Vector(first))
	}
	return start, end
}

// setCut gives input i the part of its gradient that the cut node has.
func (c *Ctx) setCut(i int, g Value) {
	axis, x := c.cut.axes[i], c.Node.Input(i)
	p := part{g: g, axis: axis, first: c.cut.first, length: c.cut.length}
	p.pad = func() Value { return c.padPart(&p, x) }
	c.setPart(i, p)
}

// SumToInput is SumTo in the shape of input i, or of the part of it that is cut; an input that is cut
// is not stretched.
func (c *Ctx) SumToInput(g Value, i int) Value {
	if c.cut != nil && c.cut.axes[i] >= 0 {
		return g
	}
	return c.SumTo(g, c.Node.Input(i))
}

// padPart puts zeros around a part of x.
func (c *Ctx) padPart(p *part, x Value) Value {
	rank := int64(c.Rank(x))
	pads := make([]int64, 2*rank)
	first, known := p.first.Const()
	if rest, ok := c.extentOf(x, p.axis).length.Sub(p.end()).Const(); known && ok {
		pads[p.axis], pads[rank+p.axis] = first, rest
		return c.padZeros(p.g, pads)
	}
	c.need(scatterFirst)
	left := c.Sub(c.Shape(x), c.ShapeOf(p.g)) // zero along the other axes
	before := left                            // where the part ends with x
	if known {
		pads[p.axis] = first
		before = c.Vector(pads[:rank]...)
	}
	return c.Op("Pad", nil, p.g, c.Concat(0, before, c.Sub(left, before)))
}

// cutSame: a node that makes each element of one of its input's.
func cutSame(_ *Ctx, axis int64) []int64 { return []int64{axis} }

// cutAdd: operands of the output's shape are cut as it is; those that are stretched along the axis, a
// bias, are not.
func cutAdd(c *Ctx, axis int64) []int64 {
	want, ok := c.Dims(c.Node.Output(0))
	axes := make([]int64, len(c.Node.Inputs))
	for i, v := range c.Node.Inputs {
		have, ranked := c.Dims(v)
		if !ok || !ranked {
			return nil
		}
		switch at := axis - int64(len(want)-len(have)); {
		case slices.EqualFunc(have, want, symbolic.Expr.Equal):
			axes[i] = axis
		case at < 0 || have[at].IsConst(1) && !want[axis].IsConst(1):
			axes[i] = -1
		default:
			return nil
		}
	}
	return axes
}

// cutMatMul: rows of a stack times one matrix, where the matrix has fewer rows than columns, so that
// the output is larger than the stack.
func cutMatMul(c *Ctx, axis int64) []int64 {
	a, ok := c.Dims(c.Node.Inputs[0])
	b, ok2 := c.Dims(c.Node.Inputs[1])
	if !ok || !ok2 || len(b) != 2 || int(axis) > len(a)-2 {
		return nil
	}
	rows, known := b[0].Const()
	columns, known2 := b[1].Const()
	if !known || !known2 || rows >= columns {
		return nil
	}
	return []int64{axis, -1}
}
