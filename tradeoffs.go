package memopt

import (
	"context"
	"errors"
	"math"

	"memopt/planner"
)

// usualShare is the budget of the alternative for a graph without layers.
const usualShare = 75

// TradeOffs are the costs of peaks below the baseline's: those of a plan for a share of the baseline's
// peak, of checkpointing every layer, and of level 1. Alternatives that would not lower the peak are left out. The
// sizes of the model must be known. The plan for a budget is the first that is found, so its price is not the least
// possible. A context that is done cuts the list short.
func (p *Plan) TradeOffs(ctx context.Context) ([]planner.Alternative, error) {
	if ctx.Err() != nil {
		return nil, nil
	}
	every, err := p.everyLayer(ctx)
	if err != nil || ctx.Err() != nil {
		return nil, err
	}
	share := usualShare
	if every != nil {
		share = p.percentage(every.Live)
	}
	cheapest, err := p.toShare(ctx, share)
	if err != nil {
		return nil, err
	}
	level1, err := p.Layerwise()
	if err != nil {
		return nil, err
	}
	list := []*planner.Alternative{cheapest, every, {Kind: planner.LayerLevel1, Live: level1.Planned.Peak.Bytes,
		Overhead: level1.Overhead, Fits: true}}
	var out []planner.Alternative
	for _, a := range list {
		if a != nil && a.Live < p.Baseline().Base.Peak.Bytes {
			out = append(out, *a)
		}
	}
	return out, nil
}

// everyLayer is the checkpointing of every layer; nil where no layers are found.
func (p *Plan) everyLayer(ctx context.Context) (*planner.Alternative, error) {
	asIs, err := p.toBudget(ctx, Budget{Arena: math.MaxInt64}, true)
	if err != nil || len(asIs.Alternatives) == 0 {
		return nil, err
	}
	return &asIs.Alternatives[0], nil
}

// toShare is a plan for a percentage of the baseline's peak or, if that is infeasible, for the lowest peak reached;
// nil if there is no such peak.
func (p *Plan) toShare(ctx context.Context, percent int) (*planner.Alternative, error) {
	for range 2 {
		if percent <= 0 || percent >= 100 {
			return nil, nil
		}
		b := Budget{Share: float64(percent) / 100, Solver: "greedy"}
		plan, err := p.toBudget(ctx, b, false)
		if err == nil {
			return &planner.Alternative{Kind: planner.ToShare, Share: percent,
				Live: plan.Planned.Peak.Bytes, Overhead: plan.Overhead, Fits: true}, nil
		}
		var infeasible *planner.InfeasibleError
		if !errors.As(err, &infeasible) {
			return nil, err
		}
		if ctx.Err() != nil || !infeasible.Searched() {
			return nil, nil
		}
		percent = p.percentage(infeasible.LowestArena)
	}
	return nil, nil
}

// percentage is the least whole percentage of the baseline's peak that some bytes are within.
func (p *Plan) percentage(bytes int64) int {
	base := p.Baseline().Base.Peak.Bytes
	if base <= 0 || bytes >= base {
		return 100
	}
	return int(float64(bytes)/float64(base)*100) + 1
}

// toBudget plans the same model for a budget, without data for display only.
func (p *Plan) toBudget(ctx context.Context, b Budget, alternatives bool) (*planner.Plan, error) {
	o := p.Baseline().Options
	o.Strategy, o.Probe, o.SkipLayout, o.Within = b, nil, true, nil
	o.RowPeaks, o.Alternatives = false, alternatives
	return p.Again(ctx, o)
}
