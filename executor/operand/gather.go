package operand

import (
	"memopt/executor"
	"memopt/graph"
)

// Gathering takes slices of input 0 along an axis, at the indices in input 1. A ShrunkenGather has
// a list of at most as many indices as the axis has elements.
// https://onnx.ai/onnx/operators/onnx__Gather.html
type Gathering struct {
	Shrunk bool
	Axis   int
	Shape  []int // of the result

	attr int64
}

// NewGathering reads the axis, 0 if the node has none.
func NewGathering(p *executor.Prep) Gathering { return Gathering{attr: p.Node.Int("axis", 0)} }

// Read sets Axis and Shape.
func (g *Gathering) Read(c *executor.Ctx) (err error) {
	x, at := c.In(0), c.In(1)
	if g.Axis, err = Axis(c, g.attr, x.Rank()); err != nil {
		return err
	}
	if long := x.Shape[g.Axis]; g.Shrunk && (at.Rank() != 1 || at.Shape[0] > long) {
		return c.Errorf("input 1 has shape %v, wanted a list of at most %d indices", at.Shape, long)
	}
	g.Shape = append(append(append(g.Shape[:0], x.Shape[:g.Axis]...), at.Shape...), x.Shape[g.Axis+1:]...)
	return nil
}

// ReadGrad is Read for the gradient of Gather, whose inputs are the shape of the data, the indices
// and the incoming gradient. Shape is that of the data.
func (g *Gathering) ReadGrad(c *executor.Ctx) (err error) {
	if g.Shape, err = Shape(c, 0, g.Shape[:0]); err != nil {
		return err
	}
	if g.Axis, err = Axis(c, g.attr, len(g.Shape)); err != nil {
		return err
	}
	at, dy := c.In(1), c.In(2)
	lead, rest := g.Shape[:g.Axis], g.Shape[g.Axis+1:]
	if dy.Rank() < g.Axis || !Joined(dy.Shape[:g.Axis], lead, nil) || !Joined(dy.Shape[g.Axis:], at.Shape, rest) {
		return c.Errorf("input 2 has shape %v, wanted %v, %v and %v", dy.Shape, lead, at.Shape, rest)
	}
	return nil
}

// Unflattening is the geometry of a PadAndUnflatten: it puts the rows of input 0, of Inner elements
// each, at the indices in input 1 of a result of Rows rows, whose first dims input 2 lists.
type Unflattening struct {
	Rows, Inner int
	Shape       []int // of the result
}

// Read sets the numbers for elements of a type.
func (u *Unflattening) Read(c *executor.Ctx, d graph.DType) (err error) {
	x, at := c.In(0), c.In(1)
	if x.Rank() < 1 || at.Rank() != 1 || at.Shape[0] != x.Shape[0] {
		return c.Errorf("inputs have shapes %v and %v, wanted rows and a list of as many indices", x.Shape, at.Shape)
	}
	if u.Shape, err = Shape(c, 2, u.Shape[:0]); err != nil {
		return err
	}
	u.Rows = 1
	for _, n := range u.Shape {
		if u.Rows >= 0 {
			u.Rows = Times(u.Rows, n)
		}
	}
	u.Shape = append(u.Shape, x.Shape[1:]...)
	if _, ok := executor.Bytes(d, u.Shape); !ok {
		return c.Errorf("input 2 makes the shape %v, which no memory holds", u.Shape)
	}
	u.Inner = Product(x.Shape[1:])
	return nil
}
