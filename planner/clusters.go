package planner

import (
	"context"
	"errors"
	"math"

	"memopt/recompute"
)

// The search for a configuration may simulate clusterSteps steps: a few thousand configurations of
// a network of some hundred nodes. For large graphs it is as many steps as clusterRuns executions
// have.
const (
	clusterSteps = 10_000_000
	clusterRuns  = 400
)

// clusterWork is the work that a search for a configuration is worth.
func (p *Plan) clusterWork() int64 {
	return max(clusterSteps, clusterRuns*int64(len(p.Analysis.Order)))
}

// clusterAxis is a cluster id and what a configuration can say of it. A configuration has one entry
// per id, so the strategies of an id exclude each other.
//
// What it says is one number, the setting: 0 is off, the next ones are counts 1, 2, … of the first
// strategy, and those of the second follow.
type clusterAxis struct {
	id         recompute.ClusterID
	strategies []clusterStrategy
}

// clusterStrategy is one of the strategies of a cluster id.
type clusterStrategy struct {
	strategy recompute.Strategy
	members  int32 // occurrences
	base     int32 // setting of count 0
}

// settings returns how many settings the axis has.
func (x *clusterAxis) settings() int32 {
	last := x.strategies[len(x.strategies)-1]
	return last.base + last.members + 1
}

// of returns the strategy that a setting other than 0 belongs to.
func (x *clusterAxis) of(setting int32) clusterStrategy {
	for _, s := range x.strategies[1:] {
		if setting > s.base {
			return s
		}
	}
	return x.strategies[0]
}

// entry returns what a configuration says for a setting other than 0.
func (x *clusterAxis) entry(setting int32) ConfigEntry {
	s := x.of(setting)
	count := int(setting - s.base)
	if setting-s.base == s.members {
		count = -1
	}
	return ConfigEntry{Cluster: x.id, Strategy: s.strategy, Count: count}
}

// newClusterAxes lists the cluster ids of an analysis in order of first occurrence.
func newClusterAxes(a *recompute.Analysis) []clusterAxis {
	var axes []clusterAxis
	at := map[recompute.ClusterID]int{}
	for i := range a.Clusters {
		c := &a.Clusters[i]
		k, known := at[c.ID]
		if !known {
			k = len(axes)
			at[c.ID] = k
			axes = append(axes, clusterAxis{id: c.ID})
		}
		x := &axes[k]
		s := clusterStrategy{strategy: c.Strategy, members: int32(len(c.Members))}
		if n := len(x.strategies); n > 0 {
			s.base = x.strategies[n-1].base + x.strategies[n-1].members
		}
		x.strategies = append(x.strategies, s)
	}
	return axes
}

// clusterConfiguration returns the configuration that settings stand for.
func clusterConfiguration(axes []clusterAxis, settings []int32) []ConfigEntry {
	var out []ConfigEntry
	for i, setting := range settings {
		if setting != 0 {
			out = append(out, axes[i].entry(setting))
		}
	}
	return out
}

// clusterSpaceSize returns the number of configurations, or MaxInt64 where it leaves int64.
func clusterSpaceSize(axes []clusterAxis) int64 {
	size := int64(1)
	for i := range axes {
		n := int64(axes[i].settings())
		if size > math.MaxInt64/n {
			return math.MaxInt64
		}
		size *= n
	}
	return size
}

// selectClusters returns what the configuration means that recomputes for the least time among
// those whose arena stays within the budget. Both are in bytes and without persistent ones. work
// bounds the steps that are simulated.
//
// What is searched does not depend on the budget, so a larger budget never gets a plan that takes
// longer. Where there are few enough configurations for the work, all are evaluated and the answer
// is the best there is. The error is a *symbolic.UnboundError without sizes and an *UnfitError
// where nothing fits. When the context ends, the answer is the best so far.
func (p *Plan) selectClusters(ctx context.Context, budget, work int64) (*selection, error) {
	if err := p.needSizes(); err != nil {
		return nil, err
	}
	s := p.newClusterSearch(work)
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	best, err := s.cheapest(budget)
	var unfit *UnfitError
	if errors.As(err, &unfit) {
		unfit.Stopped = ctx.Err() != nil
	}
	if err != nil {
		return nil, err
	}
	p.packed = best.layout
	if p.Options.Budget != nil {
		p.Options.Budget.found()
	}
	sel, _ := selectConfig(p.Analysis, clusterConfiguration(s.axes, best.settings))
	return sel, nil
}
