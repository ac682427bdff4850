package autograd

// batchNormalizationRule: with m and r the mean and inverse deviation of each channel, n the number
// of its elements, and sums over all axes but that of the channels,
//
//	dbias = Σ dY,  dscale = r·Σ dY·(X-m)
//	dX = scale·r·(dY - dbias/n - (X-m)·r·dscale/n)   in training mode
//	dX = scale·r·dY                                  with running statistics
//
// Stashes only X: the statistics of the batch are made from it again, because the node returns only
// running ones, which are rounded. In training mode Y does not depend on the running statistics; else
//
//	dmean = -scale·r·Σ dY,  dvariance = -scale·r³/2·Σ dY·(X-mean)
func batchNormalizationRule(c *Ctx) {
	if c.Version < 9 && c.Node.Int("spatial", 1) == 0 {
		c.Unsupported("with spatial = 0")
	}
	if c.Grad(0) == None {
		c.Unsupported("the loss depends on the statistics that it gives, and not on its output 0")
	}
	if opInfo(c.Node).Trains(c.Node, c.Version) {
		c.batchNormTraining()
	} else {
		c.batchNormInference()
	}
}

// channelAxes lists all axes of x but that of the channels.
func (c *Ctx) channelAxes(x Value) []int64 {
	return append([]int64{0}, axesFrom(2, int64(c.Rank(x)))...)
}

// batchNormTraining is the rule with the statistics of the batch.
func (c *Ctx) batchNormTraining() {
	x, rank := c.In(0), c.Rank(c.In(0))
	d := c.normType(x)
	axes := c.channelAxes(x)
	c.Set(3, None)
	c.Set(4, None)
	wide := c.Cast(x, d)
	g := c.Cast(c.Grad(0), d)
	sum := c.ReduceSum(g, true, axes...)
	if c.Wants(2) {
		c.Set(2, c.perChannel(sum, c.In(2)))
	}
	if !c.Wants(0) && !c.Wants(1) {
		return
	}
	n := c.countOver(x, g, axes...)
	off, r := c.statistics(wide, n, axes)
	dscale := c.Mul(c.ReduceSum(c.Mul(g, off), true, axes...), r)
	if c.Wants(1) {
		c.Set(1, c.perChannel(dscale, c.In(1)))
	}
	if c.Wants(0) {
		along := c.Mul(off, c.Div(c.Mul(dscale, r), n))
		rest := c.Sub(c.Sub(g, c.Div(sum, n)), along)
		dx := c.Mul(rest, c.Mul(r, c.alongChannels(c.Cast(c.In(1), d), rank)))
		c.Set(0, c.Cast(dx, c.DType(x)))
	}
}

// perChannel turns [1, C, 1…] into a vector in the type of like.
func (c *Ctx) perChannel(v, like Value) Value {
	return c.Cast(c.Reshape(v, c.Vector(-1)), c.DType(like))
}

// batchNormInference is the rule with running statistics.
func (c *Ctx) batchNormInference() {
	x, rank := c.In(0), c.Rank(c.In(0))
	d := c.normType(x)
	axes := c.channelAxes(x)
	g := c.Cast(c.Grad(0), d)
	c.channelBiasCast(g)
	if !c.Wants(0) && !c.Wants(1) && !c.Wants(3) && !c.Wants(4) {
		return
	}
	r := c.inverseDeviation(c.Cast(c.In(4), d), float64(c.Node.Float("epsilon", 1e-5)))
	factor := None
	if c.Wants(0) || c.Wants(3) || c.Wants(4) {
		factor = c.Mul(c.Cast(c.In(1), d), r)
	}
	if c.Wants(1) || c.Wants(4) {
		off := c.Sub(c.Cast(x, d), c.alongChannels(c.Cast(c.In(3), d), rank))
		spread := c.Mul(c.ReduceSum(c.Mul(g, off), false, axes...), r)
		if c.Wants(1) {
			c.Set(1, c.Cast(spread, c.DType(c.In(1))))
		}
		if c.Wants(4) {
			dvariance := c.mathScale(c.Mul(spread, c.Mul(factor, r)), -0.5)
			c.Set(4, c.Cast(dvariance, c.DType(c.In(4))))
		}
	}
	if c.Wants(3) {
		c.Set(3, c.Cast(c.Neg(c.Mul(c.ReduceSum(g, false, axes...), factor)), c.DType(c.In(3))))
	}
	if c.Wants(0) {
		c.Set(0, c.Cast(c.Mul(g, c.alongChannels(factor, rank)), c.DType(x)))
	}
}

// expandBatchNormInternal: ONNX's BatchNormalization in training, where the statistics of the batch that ORTModule's
// optimizer adds as outputs have no readers.
func expandBatchNormInternal(c *Ctx) []Value {
	c.forgetUnread()
	if c.wanted(3) || c.wanted(4) {
		return nil
	}
	attrs := Attrs{A("epsilon", c.Node.Float("epsilon", 1e-5)), A("momentum", c.Node.Float("momentum", 0.9)),
		A("training_mode", int64(1))}
	return c.Ops("BatchNormalization", 3, attrs, c.In(0), c.In(1), c.In(2), c.In(3), c.In(4))
}
