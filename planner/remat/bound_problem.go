package remat

import (
	"context"
	"math"
)

// The counted work of a bound within Solve: about half a second, more for large graphs, which do not fit into
// caches.
const (
	boundWork = 60_000_000
	boundPart = 600 // and so much by node
)

// relaxation is the problem in its general form, without the rule that no source is computed anew
// while an alias of it is live.
func (p *single) relaxation() *Graph {
	g := p.graph()
	for t := range g.Tasks {
		g.Tasks[t].Once = false
	}
	return g
}

// costBound is a lower bound on the cost of any schedule in the given order; math.MaxInt64 if there
// is no such schedule; see Graph.CostBound.
func (p *single) costBound(ctx context.Context, work int64) (int64, proof) {
	extra, alone := p.relaxation().costProof(ctx, p.budget, work)
	if extra > math.MaxInt64-p.base {
		return math.MaxInt64, alone
	}
	return p.base + extra, alone
}
