package op

import (
	"fmt"

	"memopt/graph"
	"memopt/symbolic"
)

// Ctx is a node as its shape rule sees it: the rule reads inputs and attributes and calls Out for
// each output that it knows something about.
type Ctx struct {
	Node    *graph.Node
	Info    *Info
	Version int // schema version that the model's operator set selects

	inf   *inference
	outs  []graph.Type
	err   error
	loose error // a deviation from the definition that is accepted all the same
}

// Has reports whether input i is given.
func (c *Ctx) Has(i int) bool { return c.Node.Input(i) != graph.NoValue }

// In returns the type of input i; the zero Type where it is left out.
func (c *Ctx) In(i int) graph.Type {
	id := c.Node.Input(i)
	if id == graph.NoValue {
		return graph.Type{}
	}
	return c.inf.g.Values[id].Type
}

// Shape returns the shape of tensor input i, of unknown rank where it is unknown.
func (c *Ctx) Shape(i int) graph.Shape { return c.In(i).Shape }

// DType returns the element type of input i.
func (c *Ctx) DType(i int) graph.DType { return c.In(i).DType }

// Contents returns the elements of integer or bool input i as expressions, in
// row-major order; ok is false where they are not known. Single elements may still
// be unknown. A scalar has one element.
func (c *Ctx) Contents(i int) (elems []symbolic.Expr, ok bool) {
	id := c.Node.Input(i)
	if id == graph.NoValue {
		return nil, false
	}
	return c.inf.res.Contents(id)
}

// Ints is Contents for inputs that must be numbers, such as axes; ok is false when one is not.
func (c *Ctx) Ints(i int) (ints []int64, ok bool) {
	elems, ok := c.Contents(i)
	if !ok {
		return nil, false
	}
	ints = make([]int64, len(elems))
	for k, e := range elems {
		if ints[k], ok = e.Const(); !ok {
			return nil, false
		}
	}
	return ints, true
}

// Data returns the tensor that input i is, where it is an initializer or a
// Constant node's output that the caller cannot override; else nil.
func (c *Ctx) Data(i int) *graph.TensorData {
	id := c.Node.Input(i)
	if id == graph.NoValue {
		return nil
	}
	v := &c.inf.g.Values[id]
	if v.IsConstant() {
		return v.Data
	}
	if v.Def != graph.NoNode && Of(c.inf.g.Nodes[v.Def].Kind).Has(ConstantRole) {
		return c.inf.g.Nodes[v.Def].TensorAttr("value")
	}
	return nil
}

// Out sets the type of output i. Outputs that the node leaves out may be set too.
func (c *Ctx) Out(i int, t graph.Type) {
	for len(c.outs) <= i {
		c.outs = append(c.outs, graph.Type{})
	}
	c.outs[i] = t
}

// OutTensor is Out for a dense tensor.
func (c *Ctx) OutTensor(i int, d graph.DType, s graph.Shape) { c.Out(i, graph.Tensor(d, s)) }

// SetContents records the elements of integer or bool output i in row-major order.
func (c *Ctx) SetContents(i int, elems []symbolic.Expr) {
	if id := c.Node.Output(i); id != graph.NoValue && elems != nil && len(elems) <= maxContents &&
		c.inf.affordAll(elems) {
		c.inf.res.setContents(id, elems)
		c.inf.res.setDen(id, 1)
	}
}

// Errorf records that the node contradicts its operator's definition. The message follows the
// node's name and should give the value found and the value wanted.
func (c *Ctx) Errorf(format string, args ...any) {
	if c.err == nil {
		c.err = c.fault(fmt.Sprintf(format, args...))
	}
}

// loosely records a deviation from the definition that is accepted.
func (c *Ctx) loosely(format string, args ...any) {
	if c.loose == nil {
		c.loose = c.fault(fmt.Sprintf(format, args...))
	}
}

// fault puts the node's name and its operator before the fault.
func (c *Ctx) fault(text string) error {
	return fmt.Errorf("node %q (%s): %s", c.inf.g.NodeLabel(c.Node.ID), c.Info.Title(c.Version), text)
}

// Failed reports whether Errorf was called.
func (c *Ctx) Failed() bool { return c.err != nil }

func (c *Ctx) outType(i int) graph.Type {
	if i < len(c.outs) {
		return c.outs[i]
	}
	return graph.Type{}
}

// Axis maps an axis attribute or element in [-rank, rank-1] to [0, rank). It calls Errorf, and
// returns false, if the axis is outside. The message calls it by name.
func (c *Ctx) Axis(name string, axis int64, rank int) (int, bool) {
	if rank == 0 {
		c.Errorf("%s is %d and the rank is 0: a scalar has no axes", name, axis)
		return 0, false
	}
	if axis < -int64(rank) || axis >= int64(rank) {
		c.Errorf("%s is %d and the rank is %d; it must be in [%d, %d]", name, axis, rank, -rank, rank-1)
		return 0, false
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), true
}

// OutType returns the type of output i: the one that the rule has set, else, after inference, the
// graph's. FLOPs functions read it.
func (c *Ctx) OutType(i int) graph.Type {
	if i < len(c.outs) {
		return c.outs[i]
	}
	if id := c.Node.Output(i); id != graph.NoValue {
		return c.inf.g.Values[id].Type
	}
	return graph.Type{}
}

// OutElements returns the number of elements of output i.
func (c *Ctx) OutElements(i int) symbolic.Expr { return c.OutType(i).Shape.Elements() }

// Dense reports whether every input that is given is a dense tensor as far as
// it is known; it calls Errorf where one is not.
func (c *Ctx) Dense() bool {
	for i := range c.Node.Inputs {
		if t := c.In(i); t.Form != graph.FormUnknown && t.Form != graph.FormTensor {
			c.Errorf("input %d has type %v, wanted a dense tensor", i, t)
			return false
		}
	}
	return true
}
