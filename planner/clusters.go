package planner

import (
	"context"

	"memopt/internal/timelimit"
	"memopt/planner/budget"
	"memopt/planner/cluster"
	"memopt/planner/place"
)

// fitClusters chooses the configuration of clusters that recomputes for the least time among those
// that fit a budget; work bounds the simulated steps. When the context ends, or the time, that is
// the best so far. The error is an *InfeasibleError if no configuration fits.
func (m *maker) fitClusters(ctx context.Context, o *budget.Options, work int64) (*choice, error) {
	if m.base.LowerBound > o.Bytes && m.sizes.Inner == nil {
		return nil, &InfeasibleError{Budget: o.Bytes, LowerBound: m.base.LowerBound, Persistent: o.Persistent,
			Object: clusterConfiguration}
	}
	s := m.clusterSearch(work)
	within, done := ctx, func() {}
	if o.Effort <= 0 && timelimit.Ended(ctx) {
		within, done = quickly(ctx, quickTime)
	}
	err := s.Run(within)
	done()
	if err != nil {
		return nil, err
	}
	stopped := timelimit.Ended(ctx)
	best, err := s.Cheapest(ctx, o.Bytes)
	if err != nil {
		return nil, err
	}
	if !best.Fits {
		return nil, &InfeasibleError{Budget: o.Bytes, LowestArena: best.LowestArena,
			LowestLive: best.LowestLive, Persistent: o.Persistent, Stopped: stopped,
			Object: clusterConfiguration}
	}
	if o.Found != nil {
		o.Found()
	}
	sel, _ := m.selectConfig(best.Config)
	t, err := m.try(sel)
	if err != nil {
		return nil, err
	}
	return &choice{sel: sel, trial: t, layout: best.Layout, solver: "clusters", stopped: stopped}, nil
}

// clusterConfiguration names the object of a search with Budget.Clusters.
const clusterConfiguration = "configuration of clusters"

func (m *maker) clusterSearch(work int64) *cluster.Search {
	return cluster.NewSearch(&cluster.Problem{Evaluator: m.evaluator, Base: m.base, Seconds: m.costs.seconds,
		Place: m.placeConfig}, work)
}

// placeConfig places the nodes that ONNX Runtime would recompute for a configuration; nil if one of
// them cannot be cloned.
func (m *maker) placeConfig(config []ConfigEntry) (*place.Trial, error) {
	sel, _ := m.selectConfig(config)
	for _, i := range sel.chosen {
		if m.analysis.Uncloneable(i) != "" {
			return nil, nil
		}
	}
	return m.evaluator.Candidates(sel.chosen)
}
