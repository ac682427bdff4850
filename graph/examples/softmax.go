package examples

import "memopt/graph"

// softmax normalises over the last dim; the gradient y·(dy − Σ y·dy) reads the result.
func (t *tape) softmax(name string, x *value) *value {
	y := t.apply(onnxDomain, "Softmax", name, []*value{x}, intAttr("axis", -1))
	t.push(name, []*value{x}, func(g *gradient) {
		g.emit(msDomain, "SoftmaxGrad_13", g.to(x), ids(g.gradientOf(y), y.id), intAttr("axis", -1))
	})
	return y
}

// noSeed leaves the attribute out.
const noSeed = 0

// dropout zeroes elements with probability ratio and scales the rest by 1/(1−ratio). The
// gradient does the same with the mask that the forward node drew.
func (t *tape) dropout(name string, x *value, ratio float64, seed int64) *value {
	var attrs []graph.Attr
	if seed != noSeed {
		attrs = append(attrs, intAttr("seed", seed))
	}
	r := t.floatScalar("dropout_ratio", graph.Float32, ratio)
	training := t.boolScalar("shared_true", true)
	out := t.node(onnxDomain, "Dropout", name, ids(x.id, r, training),
		[]string{name + "_output_0", name + "_output_1"}, attrs...)
	y, mask := t.wrap(out[0], x.dtype), out[1]
	y.tracked = x.tracked
	t.push(name, []*value{x}, func(g *gradient) {
		g.emit(msDomain, "DropoutGrad", g.to(x), ids(g.gradientOf(y), mask, r, training))
	})
	return y
}
