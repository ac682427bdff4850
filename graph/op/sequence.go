package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

func seqOf(elem graph.Type) graph.Type {
	return graph.Type{Form: graph.FormSequence, Elem: &elem}
}

// elem returns the element type of sequence or optional input i, calling Errorf where it has
// another form.
func (c *Ctx) elem(i int, form graph.Form) graph.Type {
	t := c.In(i)
	if t.Form == graph.FormUnknown {
		return graph.Type{}
	}
	if t.Form != form {
		c.Errorf("input %d has type %v, wanted %v", i, t, graph.Type{Form: form})
		return graph.Type{}
	}
	if t.Elem == nil {
		return graph.Type{}
	}
	return *t.Elem
}

// joinTypes returns the common type of two types: the type of a value that may have either.
func joinTypes(a, b graph.Type) graph.Type {
	switch {
	case a.Form != b.Form || a.Form == graph.FormUnknown:
		return graph.Type{}
	case a.Form == graph.FormTensor || a.Form == graph.FormSparse:
		t := graph.Type{Form: a.Form, DType: a.DType, Shape: joinShapes(a.Shape, b.Shape)}
		if a.DType != b.DType {
			t.DType = graph.Undefined
		}
		return t
	case a.Elem == nil || b.Elem == nil:
		return graph.Type{Form: a.Form}
	}
	elem := joinTypes(*a.Elem, *b.Elem)
	return graph.Type{Form: a.Form, DType: a.DType, Elem: &elem, Name: a.Name}
}

func joinShapes(a, b graph.Shape) graph.Shape {
	if !a.Ranked || !b.Ranked || len(a.Dims) != len(b.Dims) {
		return graph.Shape{}
	}
	out := graph.UnknownDims(len(a.Dims))
	for i := range out.Dims {
		if a.Dims[i].Equal(b.Dims[i]) {
			out.Dims[i] = a.Dims[i]
		}
	}
	return out
}

// sameType reports whether two types say the same, unknown dims being the same as unknown dims.
func sameType(a, b graph.Type) bool {
	if a.Form != b.Form || a.DType != b.DType || a.Name != b.Name || (a.Elem == nil) != (b.Elem == nil) ||
		a.Shape.Ranked != b.Shape.Ranked || len(a.Shape.Dims) != len(b.Shape.Dims) {
		return false
	}
	for i, d := range a.Shape.Dims {
		if !d.Identical(b.Shape.Dims[i]) {
			return false
		}
	}
	return a.Elem == nil || sameType(*a.Elem, *b.Elem)
}

// sequenceConstructRule: a sequence of the inputs' common type.
func sequenceConstructRule(c *Ctx) {
	elem := c.In(0)
	for i := 1; i < len(c.Node.Inputs); i++ {
		if a, b := elem.DType, c.DType(i); a != graph.Undefined && b != graph.Undefined && a != b {
			c.Errorf("input %d has type %v and input 0 %v; a sequence has one element type", i, b, a)
			return
		}
		elem = joinTypes(elem, c.In(i))
	}
	c.Out(0, seqOf(elem))
}

// sequenceEmptyRule: an empty sequence leaves open the shapes that may join it.
func sequenceEmptyRule(c *Ctx) {
	c.Out(0, seqOf(graph.Tensor(c.DTypeAttr("dtype", graph.Float32), graph.Shape{})))
}

func sequenceAtRule(c *Ctx) { c.Out(0, c.elem(0, graph.FormSequence)) }

func sequenceEraseRule(c *Ctx) {
	if c.elem(0, graph.FormSequence); !c.Failed() {
		c.Out(0, c.In(0))
	}
}

// sequenceInsertRule: the sequence may now hold the old elements' type or the new one's.
func sequenceInsertRule(c *Ctx) {
	elem := c.elem(0, graph.FormSequence)
	if c.Failed() {
		return
	}
	if a, b := elem.DType, c.DType(1); a != graph.Undefined && b != graph.Undefined && a != b {
		c.Errorf("input 1 has type %v and the sequence holds %v", b, a)
		return
	}
	c.Out(0, seqOf(joinTypes(elem, c.In(1))))
}

func sequenceLengthRule(c *Ctx) {
	if c.elem(0, graph.FormSequence); !c.Failed() {
		c.OutTensor(0, graph.Int64, graph.Dims())
	}
}

// concatFromSequenceRule: concatenation along an axis, or stacking along a new one; the number
// of elements is not known, so the axis's dim is not either.
func concatFromSequenceRule(c *Ctx) {
	elem, axis := c.elem(0, graph.FormSequence), c.NeedInt("axis")
	if c.Failed() {
		return
	}
	s := elem.Shape
	if !s.Ranked {
		c.OutTensor(0, elem.DType, graph.Shape{})
		return
	}
	if c.Int("new_axis", 0) != 0 {
		at, ok := c.Axis("attribute axis", axis, len(s.Dims)+1)
		if ok {
			c.OutTensor(0, elem.DType, inserted(s, at, symbolic.Unknown()))
		}
		return
	}
	if at, ok := c.Axis("attribute axis", axis, len(s.Dims)); ok {
		c.OutTensor(0, elem.DType, with(s, at, symbolic.Unknown()))
	}
}

// inserted returns the shape with a new dim before axis at.
func inserted(s graph.Shape, at int, d symbolic.Expr) graph.Shape {
	dims := make([]symbolic.Expr, 0, len(s.Dims)+1)
	dims = append(append(dims, s.Dims[:at]...), d)
	return graph.Dims(append(dims, s.Dims[at:]...)...)
}

// splitToSequenceRule: without input 1 the pieces have size 1, or lose the axis with keepdims 0;
// a scalar is the size of all pieces but perhaps the last; a list names each size.
func splitToSequenceRule(c *Ctx) {
	s := c.Shape(0)
	if !s.Ranked {
		c.Out(0, seqOf(graph.Tensor(c.DType(0), graph.Shape{})))
		return
	}
	axis, ok := c.Axis("attribute axis", c.Int("axis", 0), len(s.Dims))
	if !ok {
		return
	}
	piece := symbolic.Const(1)
	if c.Has(1) {
		piece = c.pieceSize(s.Dims[axis])
	} else if c.Int("keepdims", 1) == 0 {
		c.Out(0, seqOf(graph.Tensor(c.DType(0), without(s, axis))))
		return
	}
	if !c.Failed() {
		c.Out(0, seqOf(graph.Tensor(c.DType(0), with(s, axis, piece))))
	}
}

// pieceSize returns the size that all pieces have, unknown where they differ.
func (c *Ctx) pieceSize(whole symbolic.Expr) symbolic.Expr {
	sizes, ok := c.Ints(1)
	if !ok || len(sizes) == 0 {
		return symbolic.Unknown()
	}
	for _, n := range sizes {
		if n < 0 || n == 0 && c.Shape(1).Rank() == 0 {
			c.Errorf("input 1 is %v; a piece cannot have size %d", sizes, n)
			return symbolic.Unknown()
		}
		if n != sizes[0] {
			return symbolic.Unknown()
		}
	}
	if c.Shape(1).Rank() == 0 {
		if n, ok := whole.Const(); !ok || n%sizes[0] != 0 {
			return symbolic.Unknown()
		}
	}
	return symbolic.Const(sizes[0])
}

// optionalRule wraps the input, or makes an empty optional of the attribute's type.
func optionalRule(c *Ctx) {
	elem := c.In(0)
	if a := c.Node.Attr("type"); a != nil && !c.Has(0) {
		t, ok := a.Value.(graph.Type)
		if !ok {
			c.Errorf("attribute type is not a type")
			return
		}
		elem = t
	}
	c.Out(0, graph.Type{Form: graph.FormOptional, Elem: &elem})
}

// optionalGetElementRule: from version 18 on the input may also be no optional at all.
func optionalGetElementRule(c *Ctx) {
	if f := c.In(0).Form; c.Version >= 18 && f != graph.FormOptional {
		c.Out(0, c.In(0))
		return
	}
	c.Out(0, c.elem(0, graph.FormOptional))
}

func optionalHasElementRule(c *Ctx) { c.OutTensor(0, graph.Bool, graph.Dims()) }
