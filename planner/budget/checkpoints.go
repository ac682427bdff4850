package budget

import (
	"memopt/graph"
	"memopt/internal/timelimit"
)

// checkpoints adds plans that recompute all but one stash in so many, until one fits. In huge
// graphs a search over single runs achieves little within minutes, while each of these takes
// seconds. The first is tried however late it is: a plan that fits is worth the wait. They do not
// keep stash limits.
func (b *budgeter) checkpoints() error {
	if len(b.opts.StashLimits) > 0 || b.runtime || b.p.Checkpoints == nil {
		return nil
	}
	whole := timelimit.Without(b.ctx)
	defer b.first()()
	for chosen := range b.p.Checkpoints {
		if whole.Err() != nil || b.ctx.Err() != nil && len(b.points) > 1 {
			return nil
		}
		pt, err := b.checkpointed(chosen)
		if err != nil {
			return err
		}
		b.points = append(b.points, *pt)
		if pt.arena <= b.budget {
			b.opts.found()
			return nil
		}
	}
	return nil
}

// checkpointed is the plan of candidates of the analysis.
func (b *budgeter) checkpointed(chosen []int) (*point, error) {
	t, err := b.p.Evaluator.Candidates(chosen)
	if err != nil {
		return nil, err
	}
	pt := &point{placements: t.Placements, live: t.Peak, layout: t.QuickLayout(b.ctx), method: "checkpoints"}
	if pt.arena = pt.layout.Bytes; pt.arena <= b.budget {
		t.Explain()
	}
	for i := range pt.placements {
		pt.cost += b.costOf(pt.placements[i].Nodes)
	}
	return pt, nil
}

// costOf is the cost of running nodes once more.
func (b *budgeter) costOf(nodes []graph.NodeID) int64 {
	total := int64(0)
	for _, id := range nodes {
		total += b.tasks.graph.Tasks[b.p.Evaluator.Pos[id]].Cost
	}
	return total
}
