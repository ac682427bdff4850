package op

import (
	"fmt"

	"memopt/graph"
	"memopt/symbolic"
)

// ifRule takes the branch that the condition picks, or, if it may be either, the types that both
// have in common. A branch that contradicts the known shapes is one that this model does not take:
// exporters write If(dim == 1, Squeeze, Identity); only two such branches are an error.
func ifRule(c *Ctx) {
	if !c.rankIn(0, 0, 1) || !c.want(0, bools) {
		return
	}
	branches := []*body{c.body("then_branch"), c.body("else_branch")}
	for _, b := range branches {
		if b == nil || !b.wantCounts(0, len(c.Node.Outputs)) {
			return
		}
	}
	first, last := 0, 1
	if taken, known := c.inf.truth(c.Node.Inputs[0]); known {
		if first = 1; taken {
			first = 0
		}
		last = first
	}
	var errs []error
	var taken []*body
	for _, b := range branches[first : last+1] {
		if err := b.run(nil, nil); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", b.attr, err))
			continue
		}
		b.keep()
		taken = append(taken, b)
	}
	if len(taken) == 0 {
		c.Errorf("%v", errs[0])
		return
	}
	c.joinBranches(taken)
}

func (c *Ctx) joinBranches(taken []*body) {
	types, contents := taken[0].outputs()
	if len(taken) > 1 {
		others, otherContents := taken[1].outputs()
		for k := range types {
			types[k] = joinTypes(types[k], others[k])
			contents[k] = joinContents(contents[k], otherContents[k])
		}
	}
	for k, t := range types {
		c.Out(k, t)
		if t.DType.IsInteger() || t.DType == graph.Bool {
			c.SetContents(k, contents[k])
		}
	}
}

// joinContents keeps the elements that are equal.
func joinContents(a, b []symbolic.Expr) []symbolic.Expr {
	if a == nil || len(a) != len(b) {
		return nil
	}
	out := make([]symbolic.Expr, len(a))
	for i := range a {
		if out[i] = a[i]; !a[i].Equal(b[i]) {
			out[i] = symbolic.Unknown()
		}
	}
	return out
}

// ifFLOPs is the cost of the more expensive branch.
func ifFLOPs(c *Ctx) symbolic.Expr {
	return symbolic.Max(c.bodyFLOPs("then_branch"), c.bodyFLOPs("else_branch"))
}
