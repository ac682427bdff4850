package autograd

import (
	"slices"

	"memopt/graph"
)

// ifRule: an If with the same condition, whose branches make the gradients of the captures of
// either branch; a value that a branch does not depend on has zeros there. Stashes the captures of
// the branches, which are recomputed as far as the gradients need them.
func ifRule(c *Ctx) {
	branches := []*branch{c.branch("then_branch"), c.branch("else_branch")}
	var wanted []Value // of c's graph
	for _, b := range branches {
		for v := range b.grads {
			wanted = append(wanted, v)
		}
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	if len(wanted) == 0 {
		return
	}
	attrs := Attrs{A("then_branch", branches[0].emit(c, wanted)), A("else_branch", branches[1].emit(c, wanted))}
	for i, g := range c.control("If", attrs, len(wanted), c.In(0)) {
		c.j.accumulate(c, wanted[i], g)
	}
}

// branch is a branch of an If with its gradients, by captured value.
type branch struct {
	*nestedJoint // nil: a branch that contradicts the shapes at hand and is never taken
	name         string
	grads        map[Value]Value
}

func (c *Ctx) branch(name string) *branch {
	b := &branch{name: name, grads: map[Value]Value{}}
	r, err := c.nested(c.Node.GraphAttr(name), name)
	if err != nil {
		return b
	}
	b.nestedJoint = r
	e := &emitter{r.joint}
	var ends, seeds []Value
	for i, v := range r.outputs {
		if g := c.Grad(i); g != None && e.DType(v).IsFloat() {
			ends, seeds = append(ends, v), append(seeds, e.capture(g))
		}
	}
	captured := r.captured(c.j)
	r.flow(captured, ends)
	for i, v := range ends {
		r.addGrad(v, seeds[i])
	}
	c.must(r.sweep(r.order))
	r.prefix = r.base
	for _, v := range captured {
		if g := r.gradOf(v); g != None {
			b.grads[r.g.Values[v].Outer] = g
		}
	}
	return b
}

// emit returns the branch that makes the gradients of the wanted values.
func (b *branch) emit(c *Ctx, wanted []Value) *graph.Graph {
	e := &emitter{}
	if b.nestedJoint == nil {
		e = c.body(b.name)
	} else {
		e.j = b.joint
	}
	roots := make([]Value, len(wanted))
	for i, v := range wanted {
		g, ok := b.grads[v]
		if !ok {
			g = e.Zeros(e.capture(v))
		}
		roots[i] = g
	}
	if b.nestedJoint != nil {
		b.prune(c, roots)
		b.replay(c)
	}
	for _, v := range roots {
		e.output(v)
	}
	return e.j.g
}
