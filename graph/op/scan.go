package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// scan holds the attributes of a Scan.
type scan struct {
	states, inputs, outputs int
	first                   int // node input that is the first state
	inAxes, outAxes         []int64
}

// scanRule: inputs are states and then tensors that are cut into slices, outputs the final states
// and then stacked slices. Version 8 has a batch axis in front of everything and an input with
// lengths.
func scanRule(c *Ctx) {
	b := c.body("body")
	if b == nil {
		return
	}
	s, ok := c.scan(b)
	if !ok {
		return
	}
	old := c.Version < 9
	carried, slices := make([]graph.Type, s.states), make([]graph.Type, s.inputs)
	batch, steps := symbolic.Unknown(), symbolic.Unknown()
	for k := range carried {
		t := c.In(s.first + k)
		if old {
			t.Shape, batch = c.cut(t.Shape, 0, batch)
		}
		carried[k] = t
	}
	for k := range slices {
		t := c.In(s.first + s.states + k)
		if old {
			t.Shape, batch = c.cut(t.Shape, 0, batch)
		}
		t.Shape, steps = c.cut(t.Shape, s.inAxes[k], steps)
		slices[k] = t
	}
	if c.Failed() {
		return
	}
	out, ok := b.steady(nil, carried, slices, 0)
	if !ok {
		return
	}
	for k := range out {
		t := out[k]
		if k < s.states {
			t = carried[k]
		} else {
			t.Shape = c.stack(t.Shape, s.outAxes[k-s.states], steps)
		}
		if old {
			t.Shape = c.stack(t.Shape, 0, batch)
		}
		c.Out(k, t)
	}
}

// scan reads and checks the attributes and counts.
func (c *Ctx) scan(b *body) (s scan, ok bool) {
	if c.Version < 9 {
		s.first = 1
	}
	given := len(c.Node.Inputs) - s.first
	n := c.NeedInt("num_scan_inputs")
	if c.Failed() {
		return s, false
	}
	if n < 1 || n > int64(given) {
		c.Errorf("attribute num_scan_inputs is %d, wanted at least 1 and at most the %d inputs", n, given)
		return s, false
	}
	s.inputs, s.states = int(n), given-int(n)
	s.outputs = len(b.g.Outputs) - s.states
	if !b.wantCounts(given, s.states+max(s.outputs, 0)) {
		return s, false
	}
	if len(c.Node.Outputs) != len(b.g.Outputs) {
		c.Errorf("has %d outputs, wanted %d, as many as its body", len(c.Node.Outputs), len(b.g.Outputs))
		return s, false
	}
	in, out := "scan_input_directions", "scan_output_directions"
	if c.Version < 9 {
		in = "directions"
	}
	c.directions(in, s.inputs)
	c.directions(out, s.outputs)
	s.inAxes = c.scanAxes("scan_input_axes", s.inputs)
	s.outAxes = c.scanAxes("scan_output_axes", s.outputs)
	return s, !c.Failed()
}

func (c *Ctx) scanAxes(name string, n int) []int64 {
	axes := c.listAttr(name)
	if axes == nil {
		return make([]int64, n)
	}
	if len(axes) != n {
		c.Errorf("attribute %s has %d entries, wanted %d", name, len(axes), n)
	}
	return axes
}

func (c *Ctx) directions(name string, n int) {
	list := c.listAttr(name)
	if list != nil && len(list) != n {
		c.Errorf("attribute %s has %d entries, wanted %d", name, len(list), n)
	}
	for _, d := range list {
		if d != 0 && d != 1 {
			c.Errorf("attribute %s is %v; a direction is 0 or 1", name, list)
		}
	}
}

// cut removes an axis from a shape and unifies its dim with the dim of the other shapes.
func (c *Ctx) cut(s graph.Shape, axis int64, dim symbolic.Expr) (graph.Shape, symbolic.Expr) {
	if !s.Ranked {
		return s, dim
	}
	at, ok := c.Axis("the axis to cut", axis, len(s.Dims))
	if !ok {
		return graph.Shape{}, dim
	}
	return without(s, at), c.Unify("the length of the scanned inputs", dim, s.Dims[at])
}

// stack is the inverse of cut.
func (c *Ctx) stack(s graph.Shape, axis int64, dim symbolic.Expr) graph.Shape {
	if !s.Ranked {
		return s
	}
	at, ok := c.Axis("the axis to stack along", axis, len(s.Dims)+1)
	if !ok {
		return graph.Shape{}
	}
	return inserted(s, at, dim)
}

// scanFLOPs is the body's cost times the number of slices.
func scanFLOPs(c *Ctx) symbolic.Expr {
	first := int64(len(c.Node.Inputs)) - c.Int("num_scan_inputs", 1)
	if first < 0 || first >= int64(len(c.Node.Inputs)) {
		return symbolic.Unknown()
	}
	s := c.Shape(int(first))
	axis := int64(0)
	if axes := c.listAttr("scan_input_axes"); len(axes) > 0 {
		axis = axes[0]
	}
	if c.Version < 9 {
		return mul(dimAt(s, 0), dimAt(s, 1), c.bodyFLOPs("body"))
	}
	at, ok := c.Axis("attribute scan_input_axes", axis, len(s.Dims))
	if !ok {
		return symbolic.Unknown()
	}
	return s.Dims[at].Mul(c.bodyFLOPs("body"))
}
