package op

import (
	"slices"

	"memopt/graph"
)

// FoldConditions replaces every If whose condition is the same in every run, as inference finds it,
// by the branch that is taken, in subgraphs too. Exporters test shapes in this way; the other
// branch may contradict them, and its symbols are meaningless. A model that inference rejects is
// not changed.
func FoldConditions(m *graph.Model) (changed bool, err error) {
	if !hasIf(m.Graph) {
		return false, nil
	}
	for {
		res, refused := Infer(m)
		if refused != nil {
			return changed, nil
		}
		folded, err := res.foldAll(m)
		if err != nil || !folded {
			return changed, err
		}
		changed = true
	}
}

// foldAll folds with the results of one inference, inner graphs before those around them.
func (r *Result) foldAll(m *graph.Model) (changed bool, err error) {
	type known struct {
		g *graph.Graph
		r *Result
	}
	var all []known
	r.Walk(m.Graph, func(g *graph.Graph, r *Result) { all = append(all, known{g, r}) })
	names := graph.NewNames(m)
	for _, k := range slices.Backward(all) {
		folded, err := names.Splice(k.g, k.r.taken)
		if err != nil {
			return true, err
		}
		changed = changed || folded
	}
	if !changed {
		return false, nil
	}
	return true, sealAll(m.Graph)
}

func hasIf(g *graph.Graph) bool {
	found := false
	for _, n := range g.Nodes {
		found = found || Lookup(n.Domain, n.Op) == If
		n.Subgraphs(func(_ string, sub *graph.Graph) { found = found || hasIf(sub) })
	}
	return found
}

// taken returns the branch of a node that runs in every run, or nil.
func (r *Result) taken(n *graph.Node) *graph.Graph {
	if n.Kind != If {
		return nil
	}
	cond, ok := r.Contents(n.Input(0))
	if !ok || len(cond) != 1 {
		return nil
	}
	truth, ok := cond[0].Const()
	if !ok {
		return nil
	}
	attr := "else_branch"
	if truth != 0 {
		attr = "then_branch"
	}
	sub := n.GraphAttr(attr)
	if sub == nil || len(sub.Inputs) > 0 || len(sub.Outputs) != len(n.Outputs) {
		return nil
	}
	return sub
}

// sealAll recomputes the captures of subgraphs, from the innermost to the outermost.
func sealAll(g *graph.Graph) (err error) {
	for _, n := range g.Nodes {
		n.Subgraphs(func(_ string, sub *graph.Graph) {
			if err == nil {
				err = sealAll(sub)
			}
		})
	}
	if err != nil {
		return err
	}
	return g.Seal()
}
