package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// dropoutRule: data gives output and, where it is asked for, the mask: bools from version 10
// on, of the data's own type before.
func dropoutRule(c *Ctx) {
	c.Out(0, c.In(0))
	mask := graph.Bool
	if c.Version < 10 {
		mask = c.DType(0)
	}
	c.OutTensor(1, mask, c.Shape(0))
}

// biasDropoutRule: data, bias, residual, ratio and training_mode give dropout(data + bias) +
// residual, and the mask.
func biasDropoutRule(c *Ctx) {
	c.broadcastTo("the bias", c.Shape(1), c.Shape(0))
	c.Out(0, c.In(0))
	c.OutTensor(1, graph.Bool, c.Shape(0))
}

// bitmask is the type of a mask of one bit per element, packed into uint32.
func bitmask(s graph.Shape) graph.Type {
	return graph.Tensor(graph.Uint32, graph.Dims(s.Elements().CeilDiv(symbolic.Const(32))))
}

func bitmaskDropoutRule(c *Ctx) {
	c.Out(0, c.In(0))
	c.Out(1, bitmask(c.Shape(0)))
}

func bitmaskBiasDropoutRule(c *Ctx) {
	c.broadcastTo("the bias", c.Shape(1), c.Shape(0))
	c.Out(0, c.In(0))
	c.Out(1, bitmask(c.Shape(0)))
}

// biasSoftmaxDropoutRule: the result, the mask, and the softmax before the dropout.
func biasSoftmaxDropoutRule(c *Ctx) {
	c.broadcastTo("the bias", c.Shape(1), c.Shape(0))
	c.Out(0, c.In(0))
	c.OutTensor(1, graph.Bool, c.Shape(0))
	c.Out(2, c.In(0))
}
