package live

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// makesGradients reports whether nodes that stand beside a loss are a backward half: one of them is an
// operator of backward halves, or makes an output that has the shape of a parameter, as its gradient and
// its new value have. The accuracy and the classes that a forward model returns beside its loss have other
// shapes. Parameters are the float initializers of two dims and more, since a vector may be a metric of
// each class, and the float inputs whose dims are known. Without such initializers every output counts.
func makesGradients(g *graph.Graph, backward []bool) bool {
	for i, n := range g.Nodes {
		if backward[i] && op.Of(n.Kind).Has(op.Gradient) {
			return true
		}
	}
	shapes, weights := map[string]bool{}, false
	for i := range g.Values {
		v := &g.Values[i]
		_, static := v.Type.Shape.Elements().Const()
		isMatrix := v.Data != nil && v.Type.Shape.Rank() > 1
		if v.Type.DType.IsFloat() && (isMatrix || v.Input && static && v.Type.Shape.Rank() > 0) {
			shapes[v.Type.Shape.String()] = true
			weights = weights || isMatrix
		}
	}
	return slices.ContainsFunc(g.Outputs, func(d graph.Decl) bool {
		v := &g.Values[d.Value]
		return v.Def != graph.NoNode && backward[v.Def] && (!weights ||
			v.Type.DType.IsFloat() && v.Type.Shape.Ranked && shapes[v.Type.Shape.String()])
	})
}
