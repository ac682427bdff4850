package examples

import "memopt/graph"

// conv convolves x with square kernels, without bias, padded so that stride 1
// keeps height and width.
func (t *tape) conv(name string, x, w *value, kernel, stride int64) *value {
	pad := kernel / 2
	attrs := []graph.Attr{
		intsAttr("dilations", 1, 1), intAttr("group", 1), intsAttr("kernel_shape", kernel, kernel),
		intsAttr("pads", pad, pad, pad, pad), intsAttr("strides", stride, stride),
	}
	y := t.apply(onnxDomain, "Conv", name, []*value{x, w}, attrs...)
	t.push(name, []*value{x, w}, func(g *gradient) {
		g.emitAll(msDomain, "ConvGrad", []string{g.to(x), g.to(w)}, ids(g.gradientOf(y), x.id, w.id), attrs...)
	})
	return y
}

// globalAveragePool averages over the area elements of height and width: every one of them gets
// dy/area.
func (t *tape) globalAveragePool(name string, x *value, area int) *value {
	y := t.apply(onnxDomain, "GlobalAveragePool", name, []*value{x})
	t.push(name, []*value{x}, func(g *gradient) {
		share := g.floatScalar(g.temp("scale"), x.dtype, 1/float64(area))
		scaled := g.emit(onnxDomain, "Mul", g.temp("scaled_dY"), ids(g.gradientOf(y), share))
		shape := g.emit(onnxDomain, "Shape", g.temp("x_shape"), ids(x.id))
		g.emit(onnxDomain, "Expand", g.to(x), ids(scaled, shape))
	})
	return y
}
