package explain

import (
	"errors"
	"fmt"
	"math"

	"memopt/graph"
	"memopt/hint"
	"memopt/planner"
	"memopt/planner/chunk"
	"memopt/recompute"
)

// inParts chunks the regions around the operands of the worst steps, in as few parts as lower the
// peak, exactly if possible; nil if no chunking does. It is not tried for plans for a budget, whose
// search has weighed it, nor beside other strategies.
func (e *explainer) inParts() (*Fix, *planner.Cuts, error) {
	o := e.options()
	if o.Strategy != nil || len(o.Keep)+len(o.Recompute) > 0 || e.ctx.Err() != nil {
		return nil, nil, nil
	}
	for _, mode := range []chunk.Mode{chunk.Exact, chunk.Fast} {
		lists, err := chunk.Propose(e.ctx, e.p.Model, e.p.Analysis.Order, o.Dims, e.t.Peak.Bytes, mode)
		if err != nil {
			return nil, nil, err
		}
		for _, list := range lists {
			if e.ctx.Err() != nil {
				return nil, nil, nil
			}
			cuts := &planner.Cuts{List: list, Order: e.p.Analysis.Order}
			f, err := e.cut(cuts, mode)
			if e.ctx.Err() != nil {
				return nil, nil, nil
			}
			if errors.Is(err, chunk.ErrCut) {
				continue
			}
			if err != nil {
				return nil, nil, err
			}
			if f.Saves > 0 {
				return f, cuts, nil
			}
		}
	}
	return nil, nil, nil
}

// cut plans with chunked regions.
func (e *explainer) cut(cuts *planner.Cuts, mode chunk.Mode) (*Fix, error) {
	o := e.options()
	o.Strategy, o.SkipLayout = &planner.PlanFile{Cuts: cuts}, false
	q, err := planner.MakeContext(e.ctx, e.p.Model, e.p.Types, o)
	if err != nil {
		return nil, err
	}
	share := math.Ceil(100 * float64(q.Arena.Bytes) / float64(e.t.Peak.Bytes))
	how := hint.Budget.With(fmt.Sprintf("%.0f%%", share)).String()
	if mode == chunk.Fast {
		how += " " + hint.Chunk.With(string(mode)).String()
	}
	return &Fix{What: Parts, How: how + ": " + q.FissionText(), Saves: e.t.Peak.Bytes - q.Planned.Peak.Bytes,
		Millis: q.Overhead * e.p.Step.Seconds * 1e3, Peak: q.Planned.Peak.Bytes,
		PeakNode: q.Model.Graph.NodeLabel(q.Planned.Peak.Node)}, nil
}

// nodesOf marks the nodes of regions.
func (e *explainer) nodesOf(cuts *planner.Cuts) []bool {
	named := map[string]bool{}
	if cuts != nil {
		for _, c := range cuts.List {
			for _, label := range c.Nodes {
				named[label] = true
			}
		}
	}
	in := make([]bool, len(e.g.Nodes))
	for id, label := range recompute.Labels(e.g) {
		in[id] = named[label]
	}
	return in
}

// inside reports whether a marked node makes a value.
func (e *explainer) inside(v *Value, marked []bool) bool {
	return v.ID != graph.NoValue && e.g.Values[v.ID].Def != graph.NoNode && marked[e.g.Values[v.ID].Def]
}
