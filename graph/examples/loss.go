package examples

import "memopt/graph"

// ignoreIndex marks labels that do not count, as in torch.nn.CrossEntropyLoss.
const ignoreIndex = -100

// yieldLoss computes the mean cross entropy of scores [N, classes] and labels
// [N], hands it out through a YieldOp, and plays the tape from the gradient that comes back.
func (t *tape) yieldLoss(scores, labels *value) {
	const name = "/SoftmaxCrossEntropyLossInternal"
	attrs := []graph.Attr{strAttr("reduction", "mean"), intAttr("output_type", int64(graph.Float32))}
	ignore := t.intScalar(ignoreIndex)
	in := ids(scores.id, labels.id, graph.NoValue, ignore)
	out := t.node(msDomain, "SoftmaxCrossEntropyLossInternal", name, in, []string{"loss", name + "_output_1"}, attrs...)
	loss, logProb := t.wrap(out[0], graph.Float32), out[1]
	loss.tracked = true
	t.push(name, []*value{scores}, func(g *gradient) {
		g.emit(msDomain, "SoftmaxCrossEntropyLossInternalGrad", g.to(scores),
			ids(g.gradientOf(loss), logProb, labels.id, graph.NoValue, ignore), attrs...)
	})
	grad := t.node(msDomain, "YieldOp", "YieldOp", ids(loss.id), []string{"loss_grad"},
		intsAttr("full_shape_outputs", 0))[0]
	t.backward(loss, grad)
}

// standardLoss computes the mean cross entropy of scores [N, classes] and
// labels [N] in ONNX's own operators, makes it the first graph output, and
// plays the tape from
//
//	dL/dscores = (softmax(scores) − onehot(labels)) / N
func (t *tape) standardLoss(scores, labels *value, classes int) {
	const name = "/SoftmaxCrossEntropyLoss"
	out := t.node(onnxDomain, "SoftmaxCrossEntropyLoss", name, ids(scores.id, labels.id),
		[]string{"loss", name + "_output_1"}, strAttr("reduction", "mean"))
	t.output(out[0], graph.Tensor(graph.Float32, dims()))

	g := &gradient{tape: t, name: name + "_Grad"}
	probs := g.emit(onnxDomain, "Exp", g.temp("probs"), ids(out[1]))
	offOn := t.constant(graph.Float32Tensor("shared_zero_one", []int64{2}, 0, 1))
	target := g.emit(onnxDomain, "OneHot", g.temp("target"), ids(labels.id, t.ints(int64(classes)), offOn),
		intAttr("axis", -1))
	diff := g.emit(onnxDomain, "Sub", g.temp("diff"), ids(probs, target))
	size := g.emit(onnxDomain, "Size", g.temp("size"), ids(labels.id))
	n := g.emit(onnxDomain, "Cast", g.temp("n"), ids(size), intAttr("to", int64(graph.Float32)))
	t.backward(scores, g.emit(onnxDomain, "Div", scores.name+"_grad", ids(diff, n)))
}
