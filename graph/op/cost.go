package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// FLOPs returns the floating-point operations of one execution of every node of an inferred graph,
// by NodeID: by its row's formula, else one per element of its outputs, and 0 for views and for
// operators that only read shapes. Operators without a row count as one operation per element, too.
func FLOPs(g *graph.Graph, opsets []graph.Opset, r *Result) []symbolic.Expr {
	inf := &inference{g: g, opsets: opsets, res: r, versions: make(map[string]int64, len(opsets))}
	for _, o := range opsets {
		inf.versions[graph.CanonicalDomain(o.Domain)] = o.Version
	}
	out := make([]symbolic.Expr, len(g.Nodes))
	for i, n := range g.Nodes {
		info := Of(n.Kind)
		switch {
		case info.View || info.Has(ShapeOf) || info.Has(ConstantRole):
			out[i] = symbolic.Const(0)
		case info.FLOPs != nil:
			out[i] = info.FLOPs(&Ctx{inf: inf, Node: n, Info: info,
				Version: info.VersionOf(n, inf.versions[info.Domain])})
		default:
			out[i] = outputElements(g, n)
		}
	}
	return out
}

func outputElements(g *graph.Graph, n *graph.Node) symbolic.Expr {
	total := symbolic.Const(0)
	for _, v := range n.Outputs {
		if v != graph.NoValue {
			total = total.Add(g.Values[v].Type.Shape.Elements())
		}
	}
	return total
}
