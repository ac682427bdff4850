package op

import (
	"fmt"

	"memopt/graph"
)

// Int returns an integer attribute, or def where the node lacks it. An
// attribute of another type is an error, as in all methods of this family.
func (c *Ctx) Int(name string, def int64) int64 { return attrOr(c, name, def) }

// Float returns a float attribute, or def.
func (c *Ctx) Float(name string, def float32) float32 { return attrOr(c, name, def) }

// Str returns a string attribute, or def.
func (c *Ctx) Str(name, def string) string { return attrOr(c, name, def) }

// IntList returns an attribute that lists integers; given is false where the node lacks it. A
// single integer counts as a list of one if files are read leniently.
func (c *Ctx) IntList(name string) (list []int64, given bool) {
	if a := c.Node.Attr(name); a != nil && !c.inf.strict {
		if v, one := a.Value.(int64); one {
			c.loosely("attribute %q holds an integer, wanted a list of integers", name)
			return []int64{v}, true
		}
	}
	return attrOr[[]int64](c, name, nil), c.Node.Attr(name) != nil
}

// FloatList returns an attribute that lists floats.
func (c *Ctx) FloatList(name string) (list []float32, given bool) {
	return attrOr[[]float32](c, name, nil), c.Node.Attr(name) != nil
}

// NeedInt returns an integer attribute that the operator requires.
func (c *Ctx) NeedInt(name string) int64 {
	if c.Node.Attr(name) == nil {
		c.Errorf("lacks the attribute %q, an integer", name)
	}
	return c.Int(name, 0)
}

// DTypeAttr returns an attribute that numbers an element type, or def.
func (c *Ctx) DTypeAttr(name string, def graph.DType) graph.DType {
	if c.Node.Attr(name) == nil {
		return def
	}
	n := c.Int(name, 0)
	if d := graph.DType(n); int64(d) == n && d.Valid() {
		return d
	}
	c.Errorf("attribute %q is %d, which numbers no element type", name, n)
	return graph.Undefined
}

func attrOr[T any](c *Ctx, name string, def T) T {
	a := c.Node.Attr(name)
	if a == nil {
		return def
	}
	if v, ok := a.Value.(T); ok {
		return v
	}
	if a.Value == nil && a.Ref != "" {
		c.Errorf("attribute %q stands for the attribute %q of a function; inline the function first", name, a.Ref)
	} else {
		c.Errorf("attribute %q holds %s, wanted %s", name, attrForm(a.Value), attrForm(def))
	}
	return def
}

// attrForm names the form of an attribute's value, for error messages.
func attrForm(v any) string {
	if text, known := attrKinds[attrKind(v)]; known {
		return text
	}
	return fmt.Sprintf("a %T", v)
}

// attrKinds names each kind of attribute that schemas have as messages do.
var attrKinds = map[string]string{
	"int": "an integer", "float": "a float", "string": "a string",
	"ints": "a list of integers", "floats": "a list of floats", "strings": "a list of strings",
	"tensor": "a tensor", "sparse": "a sparse tensor", "graph": "a graph", "type": "a type",
}

// attrKind returns the kind of an attribute's value; "" for a kind that no schema has.
func attrKind(v any) string {
	switch v.(type) {
	case int64:
		return "int"
	case float32:
		return "float"
	case string:
		return "string"
	case []int64:
		return "ints"
	case []float32:
		return "floats"
	case []string:
		return "strings"
	case *graph.TensorData:
		return "tensor"
	case *graph.Sparse:
		return "sparse"
	case *graph.Graph:
		return "graph"
	case graph.Type:
		return "type"
	}
	return ""
}
