package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// constantRule: one of several attributes holds the value.
func constantRule(c *Ctx) {
	attr := c.constantAttr()
	if attr == nil {
		return
	}
	switch v := attr.Value.(type) {
	case *graph.TensorData:
		c.constantTensor(v)
	case *graph.Sparse:
		if v.Values == nil {
			c.Errorf("attribute %q has no values", attr.Name)
			return
		}
		c.OutTensor(0, v.Values.DType, graph.Ints(v.Dims...))
	case int64:
		c.constantList(graph.Int64, graph.Dims(), constants([]int64{v}), 1)
	case []int64:
		c.constantList(graph.Int64, graph.Ints(int64(len(v))), constants(v[:min(len(v), maxContents+1)]), 1)
	case float32:
		elems, den := fractions([]float64{float64(v)}, false)
		c.constantList(graph.Float32, graph.Dims(), elems, den)
	case []float32:
		c.constantFloats(v)
	case string:
		c.OutTensor(0, graph.String, graph.Dims())
	case []string:
		c.OutTensor(0, graph.String, graph.Ints(int64(len(v))))
	}
}

// constantForms lists the attributes that may hold the value, each with an example value.
var constantForms = []struct {
	name string
	form any
}{
	{"value", (*graph.TensorData)(nil)}, {"sparse_value", (*graph.Sparse)(nil)},
	{"value_int", int64(0)}, {"value_ints", []int64(nil)},
	{"value_float", float32(0)}, {"value_floats", []float32(nil)},
	{"value_string", ""}, {"value_strings", []string(nil)},
}

// constantAttr returns the attribute that holds the value, after checking that the value's form
// fits its name.
func (c *Ctx) constantAttr() *graph.Attr {
	for _, f := range constantForms {
		a := c.Node.Attr(f.name)
		if a == nil {
			continue
		}
		if attrForm(a.Value) != attrForm(f.form) {
			c.Errorf("attribute %q holds %s, wanted %s", f.name, attrForm(a.Value), attrForm(f.form))
			return nil
		}
		return a
	}
	c.Errorf("has no value: none of the attributes value, sparse_value, value_int, value_ints, value_float, " +
		"value_floats, value_string, value_strings")
	return nil
}

func (c *Ctx) constantTensor(t *graph.TensorData) {
	if t == nil {
		c.Errorf("attribute value is empty")
		return
	}
	if slices.Min(append([]int64{0}, t.Dims...)) < 0 {
		c.Errorf("attribute value has dims %v", t.Dims)
		return
	}
	elems, den := tensorBlock(t)
	c.constantList(t.DType, graph.Ints(t.Dims...), elems, den)
}

func (c *Ctx) constantFloats(v []float32) {
	s := graph.Ints(int64(len(v)))
	if len(v) > floatContents {
		c.OutTensor(0, graph.Float32, s)
		return
	}
	elems, den := fractions(widen(v), false)
	c.constantList(graph.Float32, s, elems, den)
}

func (c *Ctx) constantList(d graph.DType, s graph.Shape, elems []symbolic.Expr, den int64) {
	c.OutTensor(0, d, s)
	if elems != nil && len(elems) <= maxContents {
		c.setBlock(0, block{elems: elems, den: den})
	}
}

// constantOfShapeRule: a tensor of the shape that input 0 lists, full of one value.
func constantOfShapeRule(c *Ctx) {
	c.want(0, indices)
	s := c.ShapeFrom(0)
	dtype, elems, den := graph.Float32, []symbolic.Expr{symbolic.Const(0)}, int64(1)
	if c.Node.Attr("value") != nil {
		t := attrOr[*graph.TensorData](c, "value", nil)
		if t == nil {
			c.Errorf("attribute value is empty")
			return
		}
		if n, err := t.Elements(); err != nil || n != 1 {
			c.Errorf("attribute value has dims %v, wanted one element", t.Dims)
			return
		}
		dtype = t.DType
		elems, den = tensorBlock(t)
	}
	if c.Failed() {
		return
	}
	c.OutTensor(0, dtype, s)
	if len(elems) == 1 && (dtype.IsInteger() || dtype == graph.Bool) {
		c.spread(block{elems: elems, den: den}, s)
	}
}

// eyeLikeRule: a matrix like the input, of the type that an attribute may name.
func eyeLikeRule(c *Ctx) {
	c.wantRank(0, 2)
	c.OutTensor(0, c.DTypeAttr("dtype", c.DType(0)), c.Shape(0))
}

// IsConstant reports whether a node only holds contents of the file.
func IsConstant(g *graph.Graph, id graph.NodeID) bool {
	return Of(g.Nodes[id].Kind).Has(ConstantRole)
}

// Contents returns the contents that the file gives for a value, if no input can change them; nil
// for other values.
func Contents(g *graph.Graph, v graph.ValueID) *graph.TensorData {
	value := &g.Values[v]
	switch {
	case value.IsConstant():
		return value.Data
	case value.Def != graph.NoNode && IsConstant(g, value.Def):
		return g.Nodes[value.Def].TensorAttr("value")
	}
	return nil
}
