package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// loopRule: inputs are the trip count, the condition and the carried values; the body's inputs the
// iteration number, the condition and the carried values; the body's outputs the condition, the
// carried values and the scan outputs, which the node stacks along a new first axis.
func loopRule(c *Ctx) {
	b := c.body("body")
	if b == nil || !c.rankIn(0, 0, 1) || !c.rankIn(1, 0, 1) {
		return
	}
	n := len(c.Node.Inputs) - 2
	if n < 0 {
		n = 0
	}
	scans := len(b.g.Outputs) - 1 - n
	if !b.wantCounts(2+n, 1+n+max(scans, 0)) {
		return
	}
	if len(c.Node.Outputs) != n+scans {
		c.Errorf("has %d outputs, wanted %d: %d carried values and %d scan outputs",
			len(c.Node.Outputs), n+scans, n, scans)
		return
	}
	carried := make([]graph.Type, n)
	for k := range carried {
		carried[k] = c.In(2 + k)
	}
	scalar := []graph.Type{graph.Tensor(graph.Int64, graph.Dims()), graph.Tensor(graph.Bool, graph.Dims())}
	for i := range scalar {
		// The file may also say [1]; both are one element.
		if t := b.g.Values[b.g.Inputs[i].Value].Type; t.Shape.Rank() == 1 {
			scalar[i].Shape = graph.Ints(1)
		}
	}
	out, ok := b.steady(scalar, carried, nil, 1)
	if !ok {
		return
	}
	for k, t := range carried {
		c.Out(k, t)
	}
	trips := b.trips()
	for k := n; k < n+scans; k++ {
		t := out[1+k]
		if t.Shape.Ranked {
			t.Shape = inserted(t.Shape, 0, trips)
		}
		c.Out(k, t)
	}
}

// trips returns the number of iterations of a Loop: the trip count, if no condition ends it before.
func (b *body) trips() symbolic.Expr {
	c := b.c
	count, ok := c.Contents(0)
	if !ok || len(count) != 1 || !b.alwaysGoesOn() {
		return symbolic.Unknown()
	}
	if n, isConst := count[0].Const(); isConst {
		return symbolic.Const(max(0, n))
	}
	return count[0]
}

// alwaysGoesOn reports whether the condition is true in every iteration: true or absent at first,
// and the body's condition true or passed on.
func (b *body) alwaysGoesOn() bool {
	c := b.c
	if c.Has(1) {
		if v, known := c.inf.truth(c.Node.Inputs[1]); !known || !v {
			return false
		}
	}
	out := b.g.Outputs[0].Value
	for out != graph.NoValue {
		if out == b.g.Inputs[1].Value {
			return true
		}
		if v, known := b.inf.truth(out); known {
			return v
		}
		def := b.g.Values[out].Def
		if def == graph.NoNode || b.g.Nodes[def].Kind != Identity {
			return false
		}
		out = b.g.Nodes[def].Input(0)
	}
	return false
}

// loopFLOPs is the body's cost times the trip count, unknown where a condition may end the loop
// before it.
func loopFLOPs(c *Ctx) symbolic.Expr {
	count, ok := c.Contents(0)
	if !ok || len(count) != 1 {
		return symbolic.Unknown()
	}
	return count[0].Mul(c.bodyFLOPs("body"))
}
