package examples

import "memopt/graph"

// layerNorm normalises over the last dim. The gradient reads the input, the
// scale and the statistics that the forward node leaves: mean and 1/standard deviation.
func (t *tape) layerNorm(name string, x, scale, bias *value) *value {
	attrs := []graph.Attr{intAttr("axis", -1), floatAttr("epsilon", 1e-5), intAttr("stash_type", int64(graph.Float32))}
	out := t.node(onnxDomain, "LayerNormalization", name, ids(x.id, scale.id, bias.id),
		[]string{name + "_output_0", name + "_saved_mean", name + "_saved_inv_std_var"}, attrs...)
	y := t.wrap(out[0], x.dtype)
	y.tracked = true
	t.push(name, []*value{x, scale, bias}, func(g *gradient) {
		g.emitAll(msDomain, "LayerNormalizationGrad", []string{g.to(x), g.to(scale), g.to(bias)},
			ids(g.gradientOf(y), x.id, scale.id, out[1], out[2]), attrs...)
	})
	return y
}

// batchNorm normalises over every dim but the channels, with the statistics of the batch, and
// returns the running statistics after this step. It is ONNX Runtime's com.microsoft replacement of
// a training BatchNormalization, which does not output the statistics that the gradient reads.
func (t *tape) batchNorm(name string, x, scale, bias, mean, variance *value) (y, newMean, newVariance *value) {
	epsilon := floatAttr("epsilon", 1e-5)
	out := t.node(msDomain, "BatchNormInternal", name, ids(x.id, scale.id, bias.id, mean.id, variance.id),
		[]string{name + "_output_0", name + "_output_1", name + "_output_2", name + "_saved_mean",
			name + "_saved_inv_std"},
		epsilon, floatAttr("momentum", 0.9), intAttr("training_mode", 1))
	y = t.wrap(out[0], x.dtype)
	y.tracked = true
	t.push(name, []*value{x, scale, bias}, func(g *gradient) {
		g.emitAll(msDomain, "BatchNormalizationGrad", []string{g.to(x), g.to(scale), g.to(bias)},
			ids(g.gradientOf(y), x.id, scale.id, out[3], out[4]), epsilon)
	})
	return y, t.wrap(out[1], x.dtype), t.wrap(out[2], x.dtype)
}
