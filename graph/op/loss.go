package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// lossShape checks scores [N, C, d…] against labels [N, d…] and returns the shape of the loss: the
// labels' with reduction "none", else a scalar.
func (c *Ctx) lossShape(scores, labels, weights int) graph.Shape {
	x, y := c.Shape(scores), c.Shape(labels)
	if !c.rankFrom(scores, 2) || x.Ranked && !c.wantRank(labels, len(x.Dims)-1) || !c.want(labels, indices) {
		return graph.Shape{}
	}
	if weights >= 0 && c.Has(weights) && c.wantRank(weights, 1) {
		c.Unify("the number of classes of scores and weights", dimAt(x, 1), dimAt(c.Shape(weights), 0))
	}
	switch r := c.Str("reduction", "mean"); r {
	case "mean", "sum":
	case "none":
		return c.eachLoss(x, y)
	default:
		c.Errorf("attribute reduction is %q, wanted none, mean or sum", r)
		return graph.Shape{}
	}
	c.eachLoss(x, y)
	return graph.Dims()
}

func (c *Ctx) eachLoss(x, y graph.Shape) graph.Shape {
	if !x.Ranked {
		return y
	}
	out := graph.Dims(append([]symbolic.Expr{x.Dims[0]}, x.Dims[2:]...)...)
	for i := range out.Dims {
		out.Dims[i] = c.Unify("a dim of scores and labels", out.Dims[i], dimAt(y, i))
	}
	return out
}

// softmaxCrossEntropyLossRule: scores, labels, weights give the loss and the log-probabilities.
func softmaxCrossEntropyLossRule(c *Ctx) {
	loss := c.lossShape(0, 1, 2)
	if c.Failed() {
		return
	}
	c.OutTensor(0, c.DType(0), loss)
	c.Out(1, c.In(0))
}

// negativeLogLikelihoodLossRule: log-probabilities, targets, weights give the loss.
func negativeLogLikelihoodLossRule(c *Ctx) {
	loss := c.lossShape(0, 1, 2)
	if !c.Failed() {
		c.OutTensor(0, c.DType(0), loss)
	}
}

// lossInternalRule is the form that ONNX Runtime gives the loss in training graphs: the ignored
// index is an input, and both outputs have the type output_type.
func lossInternalRule(c *Ctx) {
	loss, dtype := c.lossShape(0, 1, 2), c.DTypeAttr("output_type", c.DType(0))
	if c.Failed() {
		return
	}
	c.OutTensor(0, dtype, loss)
	c.OutTensor(1, dtype, c.Shape(0))
}

// lossGradRule: the gradients of the loss, the log-probabilities, labels, weights … give the
// gradient of the scores.
func lossGradRule(c *Ctx) {
	x, y := c.Shape(1), c.Shape(2)
	if !c.rankFrom(1, 2) || x.Ranked && !c.wantRank(2, len(x.Dims)-1) {
		return
	}
	if x.Ranked {
		c.eachLoss(x, y)
	}
	dtype := c.DTypeAttr("output_type", c.DType(0))
	if !c.Failed() {
		c.OutTensor(0, dtype, x)
	}
}

// lossFLOPs: softmax and logarithm of every score.
var lossFLOPs = perElement(6, 0)
