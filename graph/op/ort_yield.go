package op

import (
	"slices"

	"memopt/graph"
)

// yieldRule: the inputs leave the forward half; the outputs are the gradients of those inputs
// that non_differentiable_outputs does not list, in order.
//
// A gradient listed in full_shape_outputs (by the input's index) has the input's shape for sure.
// The others have it, too, unless their producer sends a smaller one that stretches to it; for them
// the file's type comes first.
func yieldRule(c *Ctx) {
	fixed := c.listAttr("non_differentiable_outputs")
	full := c.listAttr("full_shape_outputs")
	for _, list := range [][]int64{fixed, full} {
		for _, i := range list {
			if i < 0 || i >= int64(len(c.Node.Inputs)) {
				c.Errorf("an attribute lists output %d of the forward half, which has %d", i, len(c.Node.Inputs))
				return
			}
		}
	}
	k := 0
	for i := range c.Node.Inputs {
		if slices.Contains(fixed, int64(i)) {
			continue
		}
		t := c.In(i)
		if out := c.Node.Output(k); out != graph.NoValue && !slices.Contains(full, int64(i)) &&
			c.inf.declared.get(out).Shape.Ranked {
			t.Shape = graph.Shape{}
		}
		c.Out(k, t)
		k++
	}
	if len(c.Node.Outputs) > k {
		c.Errorf("has %d outputs for %d differentiable inputs", len(c.Node.Outputs), k)
	}
}

// pythonOpRule: output 0 is the address of the function's context, the others are tensors whose
// types and ranks the attributes give. Outputs beyond them (saved random states) are unknown.
func pythonOpRule(c *Ctx) {
	c.OutTensor(0, graph.Int64, graph.Dims())
	c.pythonTensors(1)
}

// pythonOpGradRule: input 0 is the context; every output is a tensor.
func pythonOpGradRule(c *Ctx) { c.pythonTensors(0) }

func (c *Ctx) pythonTensors(first int) {
	types, ranks := c.listAttr("output_tensor_types"), c.listAttr("output_tensor_ranks")
	if ranks != nil && len(ranks) != len(types) {
		c.Errorf("output_tensor_ranks has %d entries and output_tensor_types %d; they must be equal",
			len(ranks), len(types))
		return
	}
	for k, n := range types {
		d := graph.DType(n)
		if int64(d) != n || !d.Valid() {
			c.Errorf("output_tensor_types lists %d, which names no element type", n)
			return
		}
		s := graph.Shape{}
		if ranks != nil && ranks[k] >= 0 && ranks[k] <= maxRank {
			s = graph.UnknownDims(int(ranks[k]))
		}
		if first+k < len(c.Node.Outputs) {
			c.OutTensor(first+k, d, s)
		}
	}
}
