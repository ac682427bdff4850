package planner

import (
	"context"

	"memopt/planner/budget"
	"memopt/planner/cluster"
	"memopt/planner/place"
)

// fitClusters chooses the configuration of clusters that recomputes for the least time among those
// that fit a budget; work bounds the steps that are simulated. When the context ends, or the time,
// that is the best so far. The error is an *UnfitError where nothing fits.
func (m *maker) fitClusters(whole context.Context, o *budget.Options, work int64) (*choice, error) {
	ctx := whole
	if o.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, o.Began.Add(o.Limit))
		defer cancel()
	}
	s := m.clusterSearch(work)
	if err := s.Run(ctx); err != nil {
		return nil, err
	}
	best, err := s.Cheapest(whole, o.Bytes)
	if err != nil {
		return nil, err
	}
	stopped := ctx.Err() != nil
	if !best.Fits {
		return nil, &UnfitError{Budget: o.Bytes, LowestArena: best.LowestArena,
			LowestLive: best.LowestLive, Persistent: o.Persistent, Stopped: stopped,
			What: "configuration of clusters"}
	}
	if o.Found != nil {
		o.Found()
	}
	sel, _ := m.selectConfig(best.Config)
	t, err := m.try(sel)
	if err != nil {
		return nil, err
	}
	return &choice{sel: sel, trial: t, layout: best.Layout, solver: "clusters",
		stopped: stopped && whole.Err() == nil}, nil
}

func (m *maker) clusterSearch(work int64) *cluster.Search {
	return cluster.NewSearch(&cluster.Problem{Bench: m.bench, Base: m.base, Seconds: m.costs.seconds,
		Place: m.placeConfig}, work)
}

// placeConfig tries what ONNX Runtime would make of a configuration; nil where that would clone
// what cannot be cloned.
func (m *maker) placeConfig(config []ConfigEntry) (*place.Trial, error) {
	sel, _ := m.selectConfig(config)
	for _, i := range sel.chosen {
		if m.analysis.Uncloneable(i) != "" {
			return nil, nil
		}
	}
	return m.bench.Candidates(sel.chosen)
}
