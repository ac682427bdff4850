package op

import (
	"memopt/graph"
	"memopt/symbolic"
)

// ElementRange is where the elements of a graph input must lie.
type ElementRange struct {
	Classes int64 // they are at least 0 and less than this
	// Ignore is a number besides, such as the label that does not count; only where HasIgnore.
	Ignore    int64
	HasIgnore bool
}

// InputRanges returns the ranges of elements of graph inputs that every kernel accepts: labels of
// 10 classes from 0 to 9, for example, indices below the length of their axis. An input without a
// known range has no entry. Kernels also take negative indices, which count from the end; in data
// they are more likely mistakes.
func InputRanges(g *graph.Graph, r *Result, order graph.Order, env symbolic.Env) map[graph.ValueID]ElementRange {
	b := newBounder(g, r, env)
	for _, id := range order {
		b.step(g.Nodes[id])
	}
	ranges := map[graph.ValueID]ElementRange{}
	for _, d := range g.Inputs {
		if e := b.known[d.Value]; e.known && e.high.n >= 0 {
			ranges[d.Value] = ElementRange{Classes: e.high.n + 1, Ignore: e.or.n, HasIgnore: e.orExists}
		}
	}
	return ranges
}
