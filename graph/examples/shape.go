package examples

import (
	"slices"

	"memopt/graph"
)

// reshape gives x other dims (0 keeps a dim, -1 stands for the remaining elements).
func (t *tape) reshape(name string, x *value, to ...int64) *value {
	shape := t.wrap(t.ints(to...), graph.Int64)
	y := t.apply(onnxDomain, "Reshape", name, []*value{x, shape}, intAttr("allowzero", 0))
	t.push(name, []*value{x}, func(g *gradient) { g.reshapeBack(x, g.gradientOf(y)) })
	return y
}

// reshapeBack gives dy the dims of x.
func (g *gradient) reshapeBack(x *value, dy graph.ValueID) {
	shape := g.emit(onnxDomain, "Shape", g.temp("x_shape"), ids(x.id))
	g.emit(onnxDomain, "Reshape", g.to(x), ids(dy, shape), intAttr("allowzero", 0))
}

// flatten makes x of dims [batch, …] two-dimensional.
func (t *tape) flatten(name string, x *value) *value {
	y := t.apply(onnxDomain, "Flatten", name, []*value{x}, intAttr("axis", 1))
	t.push(name, []*value{x}, func(g *gradient) { g.reshapeBack(x, g.gradientOf(y)) })
	return y
}

// transpose permutes the dims; the gradient undoes it.
func (t *tape) transpose(name string, x *value, perm ...int64) *value {
	y := t.apply(onnxDomain, "Transpose", name, []*value{x}, intsAttr("perm", perm...))
	inverse := make([]int64, len(perm))
	for i, p := range perm {
		inverse[p] = int64(i)
	}
	t.push(name, []*value{x}, func(g *gradient) {
		g.emit(onnxDomain, "Transpose", g.to(x), ids(g.gradientOf(y)), intsAttr("perm", inverse...))
	})
	return y
}

// split cuts x into n equal parts along the last of three dims.
func (t *tape) split(name string, x *value, n int, part int64) []*value {
	sizes := t.wrap(t.ints(slices.Repeat([]int64{part}, n)...), graph.Int64)
	ys := t.forward(onnxDomain, "Split", name, n, x.dtype, []*value{x, sizes}, intAttr("axis", 2))
	t.push(name, []*value{x}, func(g *gradient) {
		parts := make([]graph.ValueID, n)
		for i, y := range ys {
			parts[i] = g.gradientOf(y)
		}
		g.emit(onnxDomain, "Concat", g.to(x), parts, intAttr("axis", 2))
	})
	return ys
}

// gather looks the rows of a table up; the gradient adds dy into the rows that were read.
func (t *tape) gather(name string, table, indices *value) *value {
	y := t.apply(onnxDomain, "Gather", name, []*value{table, indices}, intAttr("axis", 0))
	t.push(name, []*value{table}, func(g *gradient) {
		shape := g.emit(onnxDomain, "Shape", g.temp("I0_shape"), ids(table.id))
		g.emit(msDomain, "GatherGrad", g.to(table), ids(shape, indices.id, g.gradientOf(y)), intAttr("axis", 0))
	})
	return y
}

// cast converts x to another type, and the gradient back; x itself where it has the type.
func (t *tape) cast(name string, x *value, to graph.DType) *value {
	if x.dtype == to {
		return x
	}
	y := t.forward(onnxDomain, "Cast", name, 1, to, []*value{x}, intAttr("to", int64(to)))[0]
	t.push(name, []*value{x}, func(g *gradient) {
		g.emit(onnxDomain, "Cast", g.to(x), ids(g.gradientOf(y)), intAttr("to", int64(x.dtype)))
	})
	return y
}
