package autograd

// Both losses are -w[label]·logp[label] for each label, summed, averaged by the sum of the w, or
// not at all. The gradient of logp is so -g at each label's class and zero elsewhere, where g is
// the gradient of that label's loss times its weight. It is never written out as a one-hot matrix.

// labelled holds the ingredients of a loss's gradients.
type labelled struct {
	at Value // [N, 1, d…]: the class of each label, 0 for those that are ignored
	g  Value // like at: the gradient, 0 for those that are ignored
	// share is like at, before the weight of the label's class: the gradient of that weight where the
	// loss of a label is 1.
	share Value
}

// labelGradients weighs the gradient of a loss. Ignored labels get the gradient 0 and not a weight
// of 0: if all are ignored, the mean divides by 0.
func (c *Ctx) labelGradients() labelled {
	labels, g := c.In(1), c.Grad(0)
	skipped, weights := None, None // of the labels; no weights: all 1
	if c.Node.Attr("ignore_index") != nil {
		ignore := c.Scalar(float64(c.Node.Int("ignore_index", -1)), labels)
		skipped = c.Op("Equal", nil, labels, ignore)
		labels = c.Where(skipped, c.Scalar(0, labels), labels)
	}
	if c.Has(2) {
		weights = c.Op("Gather", nil, c.In(2), labels)
	}
	if c.Node.Str("reduction", "mean") == "mean" {
		g = c.averaged(g, weights, skipped, labels)
	}
	share := g
	if weights != None {
		g = c.Mul(weights, g)
	} else if c.Node.Str("reduction", "mean") != "none" && skipped == None {
		g = c.ExpandLike(g, labels)
	}
	if skipped != None {
		g = c.Where(skipped, c.Scalar(0, g), g)
	}
	l := labelled{at: c.Unsqueeze(labels, 1), g: c.Unsqueeze(g, 1)}
	if c.Wants(2) {
		if c.Node.Str("reduction", "mean") != "none" {
			share = c.ExpandLike(share, labels)
		}
		if skipped != None {
			share = c.Where(skipped, c.Scalar(0, share), share)
		}
		l.share = c.Unsqueeze(share, 1)
	}
	return l
}

// classWeights is the gradient of the weights of classes: -logp[label] of each label times its share,
// summed by class; of a mean, which divides by the sum of the weights, less the mean itself times it.
func (c *Ctx) classWeights(l labelled, logp Value) {
	if !c.Wants(2) {
		return
	}
	loss := c.Neg(c.Op("GatherElements", Attrs{A("axis", int64(1))}, logp, l.at))
	if c.Node.Str("reduction", "mean") == "mean" {
		loss = c.Sub(loss, c.Out(0))
	}
	// Where all labels are ignored the mean is no number, and each share is 0.
	each := c.mathUnless(c.mathEqual(l.share, c.Scalar(0, l.share)), c.Mul(loss, l.share))
	all := c.Vector(-1)
	c.Set(2, c.scatterAlong(c.Reshape(each, all), c.Reshape(l.at, all), 0, c.Dim(c.In(2), 0), true))
}

// averaged divides the gradient of a mean by the sum of the weights of the labels that are not
// skipped.
func (c *Ctx) averaged(g, weights, skipped, labels Value) Value {
	axes := axesFrom(0, int64(c.Rank(labels)))
	if weights == None && skipped == None {
		return c.overCount(g, labels, axes...)
	}
	d := c.DType(g)
	g = c.Cast(g, c.normType(g)) // float16 ends at 65504
	kept := c.Scalar(1, g)
	if weights != None {
		kept = c.Cast(weights, c.DType(g))
	}
	if skipped != None {
		kept = c.Where(skipped, c.Scalar(0, g), kept)
	}
	return c.Cast(c.Div(g, c.Reduce("ReduceSum", kept, false, axes...)), d)
}

// negativeLogLikelihoodLossRule: dX is -g at the labels, zero elsewhere. Stashes the labels.
func negativeLogLikelihoodLossRule(c *Ctx) {
	l := c.labelGradients()
	c.classWeights(l, c.In(0))
	if !c.Wants(0) {
		return
	}
	c.Set(0, c.Op("ScatterElements", Attrs{A("axis", int64(1))}, c.zerosOf(c.shapeVia(c.In(0), l.at), l.g), l.at,
		c.Neg(l.g)))
}

// softmaxCrossEntropyLossRule: dX = softmax(X)·g, less g at the labels. Where the node gives the
// log-probabilities, their exponential is the softmax, and their own gradient G adds G -
// softmax(X)·ΣG. Stashes the log-probabilities if they are there, else X: it is live at the loss
// anyway, and the softmax is computed in place.
func softmaxCrossEntropyLossRule(c *Ctx) {
	at, g, dx := None, None, None
	if c.Grad(0) != None {
		l := c.labelGradients()
		at, g = l.at, l.g
		if c.Wants(2) {
			c.classWeights(l, c.logProbabilities())
		}
	}
	if c.Set(2, None); !c.Wants(0) {
		return
	}
	p := c.probabilities()
	total := g
	dlog := c.Grad(1)
	if dlog != None {
		sum := c.Neg(c.ReduceSum(dlog, true, 1))
		if total = sum; g != None {
			total = c.Add(g, sum)
		}
	}
	dx = c.Mul(p, total)
	if g != None {
		updates := c.Sub(c.Op("GatherElements", Attrs{A("axis", int64(1))}, dx, at), g)
		dx = c.Op("ScatterElements", Attrs{A("axis", int64(1))}, dx, at, updates)
	}
	if dlog != None {
		dx = c.Add(dx, dlog)
	}
	c.Set(0, dx)
}

// logProbabilities returns the logarithms of the softmax of the scores over axis 1.
func (c *Ctx) logProbabilities() Value {
	if c.Node.Output(1) == None && (c.j.opset() >= 13 || c.Rank(c.In(0)) == 2) {
		return c.Op("LogSoftmax", Attrs{A("axis", int64(1))}, c.In(0))
	}
	return c.Out(1)
}

// probabilities returns the softmax of the scores over axis 1. Softmax has that form for all ranks
// since operator set 13, before for matrices.
func (c *Ctx) probabilities() Value {
	if c.Node.Output(1) == None && (c.j.opset() >= 13 || c.Rank(c.In(0)) == 2) {
		return c.Op("Softmax", Attrs{A("axis", int64(1))}, c.In(0))
	}
	return c.Op("Exp", nil, c.Out(1))
}

// expandLossInternal: ONNX's own loss of the same name, where the index of the labels that are ignored is an
// attribute. ORTModule's exporter writes the form whose index is an input, and whose outputs have a type of their
// own: float of scores in float16, for example.
func expandLossInternal(name string) func(*Ctx) []Value {
	return func(c *Ctx) []Value { return c.lossWithIndex(name) }
}

func (c *Ctx) lossWithIndex(name string) []Value {
	attrs := Attrs{A("reduction", c.Node.Str("reduction", "mean"))}
	if c.Has(3) {
		ignore, ok := c.intsOf(c.In(3))
		if !ok || len(ignore) != 1 {
			c.Unsupported("its ignored label (input 3) is not known before the run")
		}
		attrs = append(attrs, A("ignore_index", ignore[0]))
	}
	d := c.DType(c.Node.Output(0))
	in := []Value{c.Cast(c.In(0), d), c.In(1)}
	if c.Has(2) {
		in = append(in, c.Cast(c.In(2), d))
	}
	outputs := 1
	if c.Node.Output(1) != None {
		outputs = 2
	}
	return c.Ops(name, outputs, attrs, in...)
}
