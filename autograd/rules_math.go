package autograd

import "memopt/graph/op"

// mathRules: elementwise operators.
var mathRules = []Row{
	{Kind: op.Add, Rule: addRule},
	{Kind: op.Mul, Rule: mulRule},
	{Kind: op.Relu, Rule: reluRule},
	{Kind: op.Floor, None: "it is constant between its steps"},
}

// addRule: both inputs get the gradient, summed over what broadcasting added. Stashes nothing.
func addRule(c *Ctx) {
	for i := range 2 {
		if c.Wants(i) {
			c.Set(i, c.SumTo(c.Grad(0), c.In(i)))
		}
	}
}

// mulRule: each input gets the gradient times the other one. Stashes the other input.
func mulRule(c *Ctx) {
	for i := range 2 {
		if c.Wants(i) {
			c.Set(i, c.SumTo(c.Mul(c.Grad(0), c.In(1-i)), c.In(i)))
		}
	}
}

// reluRule: the gradient where the output is positive. Stashes the output, which the next node often
// keeps anyway, and lets the input go.
func reluRule(c *Ctx) {
	g, y := c.Grad(0), c.Out(0)
	c.Set(0, c.Where(c.Op("Greater", nil, y, c.Scalar(0, y)), g, c.Scalar(0, g)))
}
