package op

import "memopt/graph"

// adamWRule: inputs learning rate, step, and sequences of weights, gradients and two moments;
// outputs a flag in the step's shape, and the updated weights and moments.
func adamWRule(c *Ctx) {
	c.OutTensor(0, graph.Bool, c.Shape(1))
	like(-1, 2, 4, 5)(c)
}

// sgdV2Rule: inputs learning rate and sequences of weights and gradients; outputs a flag in the
// learning rate's shape, and the updated weights.
func sgdV2Rule(c *Ctx) {
	c.OutTensor(0, graph.Bool, c.Shape(0))
	like(-1, 1)(c)
}

// accumulatorV2Rule: the buffer, the value and a flag that says whether to overwrite; outputs a
// flag and, where it is asked for, the buffer.
func accumulatorV2Rule(c *Ctx) {
	c.gradOf(1, 0)
	c.OutTensor(0, graph.Bool, graph.Ints(1))
	c.Out(1, c.In(0))
}
