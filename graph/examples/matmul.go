package examples

import "memopt/graph"

// linear computes y = x·w (+ bias) for x of dims [batch, seq, in] and a weight of dims [in, out]: a
// MatMul and an Add under the given scope.
//
// The weight's gradient is one product over all positions: with x as [N, in]
// and dy as [N, out], dw = xᵀ·dy.
func (t *tape) linear(scope string, x, w, bias *value, in, out int) *value {
	y := t.project(scope+"/MatMul", x, w, in, out)
	if bias == nil {
		return y
	}
	return t.addBias(scope+"/Add", y, bias)
}

func (t *tape) project(name string, x, w *value, in, out int) *value {
	y := t.apply(onnxDomain, "MatMul", name, []*value{x, w})
	t.push(name, []*value{w, x}, func(g *gradient) {
		dy := g.gradientOf(y)
		x2 := g.emit(onnxDomain, "Reshape", g.temp("A_reshape_2d"), ids(x.id, g.ints(-1, int64(in))),
			intAttr("allowzero", 0))
		dy2 := g.emit(onnxDomain, "Reshape", g.temp("dY_reshape_2d"), ids(dy, g.ints(-1, int64(out))),
			intAttr("allowzero", 0))
		g.emit(onnxDomain, "Gemm", g.to(w), ids(x2, dy2), gemmAttrs(1, 0)...)
		g.fusedMatMul(g.to(x), dy, w.id, 0, 1)
	})
	return y
}

// batchMatMul computes y = a·b over the last two dims; da = dy·bᵀ, db = aᵀ·dy.
func (t *tape) batchMatMul(name string, a, b *value) *value {
	y := t.apply(onnxDomain, "MatMul", name, []*value{a, b})
	t.push(name, []*value{a, b}, func(g *gradient) {
		dy := g.gradientOf(y)
		g.fusedMatMul(g.to(a), dy, b.id, 0, 1)
		g.fusedMatMul(g.to(b), a.id, dy, 1, 0)
	})
	return y
}

func (g *gradient) fusedMatMul(out string, a, b graph.ValueID, transA, transB int64) {
	g.emit(msDomain, "FusedMatMul", out, ids(a, b), floatAttr("alpha", 1), intAttr("transA", transA),
		intAttr("transB", transB),
		intAttr("transBatchA", 0), intAttr("transBatchB", 0))
}

// gemm computes y = x·wᵀ + bias for x of dims [batch, in] and a weight of dims
// [out, in], as torch.nn.Linear keeps it: dw = dyᵀ·x, dbias = Σ dy, dx = dy·w.
func (t *tape) gemm(name string, x, w, bias *value) *value {
	y := t.apply(onnxDomain, "Gemm", name, []*value{x, w, bias}, gemmAttrs(0, 1)...)
	t.push(name, []*value{w, bias, x}, func(g *gradient) {
		dy := g.gradientOf(y)
		g.emit(onnxDomain, "Gemm", g.to(w), ids(dy, x.id), gemmAttrs(1, 0)...)
		g.reduceTo(bias, dy, 0)
		g.emit(onnxDomain, "Gemm", g.to(x), ids(dy, w.id), gemmAttrs(0, 0)...)
	})
	return y
}

func gemmAttrs(transA, transB int64) []graph.Attr {
	return []graph.Attr{floatAttr("alpha", 1), floatAttr("beta", 1), intAttr("transA", transA),
		intAttr("transB", transB)}
}

// reduceTo makes the gradient of an operand that was broadcast over the given axes: the sum over
// them.
func (g *gradient) reduceTo(x *value, dy graph.ValueID, axes ...int64) {
	g.emit(onnxDomain, "ReduceSum", g.to(x), ids(dy, g.ints(axes...)), intAttr("keepdims", 0),
		intAttr("noop_with_empty_axes", 0))
}
