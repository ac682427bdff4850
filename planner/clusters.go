package planner

import (
	"context"

	"memopt/planner/cluster"
	"memopt/planner/place"
)

// ConfigEntry is one "ClusterID:Strategy:Count" of an ONNX Runtime configuration.
type ConfigEntry = cluster.Entry

// clusterSearch searches configurations, with so many simulated steps.
func (p *Plan) clusterSearch(work int64) *cluster.Search {
	return cluster.NewSearch(&cluster.Problem{Bench: p.bench, Base: p.Base, Seconds: p.NodeSeconds(),
		Place: p.placeConfig}, work)
}

// placeConfig tries what ONNX Runtime would make of a configuration; nil where that would clone
// what cannot be cloned.
func (p *Plan) placeConfig(config []ConfigEntry) (*place.Trial, error) {
	sel, _ := selectConfig(p.Analysis, config)
	chosen := sel.chosen
	for _, i := range chosen {
		if p.Analysis.Uncloneable(i) != "" {
			return nil, nil
		}
	}
	return p.bench.Candidates(chosen)
}

// selectClusters returns what the configuration means that recomputes for the least time among
// those whose arena stays within the budget, in bytes and without persistent ones. work bounds the
// steps that are simulated. The error is a *symbolic.UnboundError without sizes and an *UnfitError
// where nothing fits. When the context ends, the answer is the best so far.
func (p *Plan) selectClusters(ctx context.Context, budget, work int64) (*selection, error) {
	if err := p.needSizes(); err != nil {
		return nil, err
	}
	s := p.clusterSearch(work)
	if err := s.Run(ctx); err != nil {
		return nil, err
	}
	best, err := s.Cheapest(p.ctx, budget)
	if err != nil {
		return nil, err
	}
	if !best.Fits {
		unfit := &UnfitError{Budget: budget, LowestArena: best.LowestArena, LowestLive: best.LowestLive,
			Stopped: ctx.Err() != nil, What: "configuration of clusters"}
		if b := p.Options.Budget; b != nil && b.Total > 0 {
			unfit.Persistent = p.Persistent
		}
		return nil, unfit
	}
	p.packed = best.Layout
	if p.Options.Budget != nil {
		p.Options.Budget.found()
	}
	sel, _ := selectConfig(p.Analysis, best.Config)
	return sel, nil
}
