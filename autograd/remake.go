package autograd

import (
	"memopt/graph"
	"memopt/graph/op"
)

// remade returns a value that the backward half recomputes in place of v, or v itself: if v is a
// scaled, shifted or converted form of a value that is stashed anyway, one pass over memory
// replaces a second stash.
func (c *Ctx) remade(v Value) Value {
	if v == None {
		return v
	}
	if again, ok := c.j.remakes[v]; ok {
		return again
	}
	val := &c.j.g.Values[v]
	if val.Def == graph.NoNode || int(val.Def) >= c.j.forward || c.j.isStashed(v) {
		return v
	}
	n := c.j.g.Nodes[val.Def]
	from := c.j.remakeFrom(n)
	if from == None || !c.j.isStashed(from) {
		return v
	}
	in := append([]Value(nil), n.Inputs...)
	for i := range in {
		in[i] = c.j.source(in[i])
	}
	again := c.Op(n.Op, n.Attrs, in...)
	c.j.remakes[v] = again
	return again
}

// remakeFrom returns the only input of a node that is not constant, if the node is cheap and
// changes neither shape nor number of bytes; else None.
func (j *joint) remakeFrom(n *graph.Node) Value {
	if !Of(n.Kind).Cheap {
		return None
	}
	from := None
	for _, v := range n.Inputs {
		if j.isConstant(v) {
			continue
		}
		if from != None {
			return None
		}
		from = v
	}
	if from == None {
		return None
	}
	a, b := j.g.Values[from].Type, j.g.Values[n.Outputs[0]].Type
	if len(a.Shape.Dims) != len(b.Shape.Dims) || !a.Bytes().Equal(b.Bytes()) {
		return None
	}
	return j.source(from)
}

// isConstant reports whether a value is in the file and cannot be overridden.
func (j *joint) isConstant(v Value) bool {
	val := &j.g.Values[v]
	return val.IsConstant() || val.Def != graph.NoNode && op.Of(j.g.Nodes[val.Def].Kind).Has(op.ConstantRole)
}

func (j *joint) isStashed(v Value) bool { return int(v) < len(j.stashed) && j.stashed[v] }

// note marks the forward values that an emitted node reads; a shape is read there.
func (j *joint) note(n *graph.Node) {
	if op.Of(n.Kind).Has(op.ShapeOf) {
		return
	}
	for len(j.stashed) < len(j.g.Values) {
		j.stashed = append(j.stashed, false)
	}
	for _, v := range n.Inputs {
		if v != None {
			j.stashed[v] = true
		}
	}
}
