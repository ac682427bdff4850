package planner

import (
	"memopt/graph"
)

// Run is one execution of a node in a plan.
type Run struct {
	Node  graph.NodeID
	Again bool // the node has run before: this run is its clone's
}

// Sequence lists all executions of a step in the plan's order: every node once, and the clones
// right before the backward node that they are for.
func (p *Plan) Sequence() []Run {
	runs := make([]Run, 0, len(p.Analysis.Order)+p.Recompute.Nodes)
	placements := p.Placements
	for _, id := range p.Analysis.Order {
		for ; len(placements) > 0 && placements[0].Before == id; placements = placements[1:] {
			for _, again := range placements[0].Nodes {
				runs = append(runs, Run{again, true})
			}
		}
		runs = append(runs, Run{id, false})
	}
	return runs
}
