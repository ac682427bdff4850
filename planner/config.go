package planner

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/internal/nearmiss"
	"memopt/internal/timelimit"
	"memopt/planner/budget"
	"memopt/planner/cluster"
	"memopt/planner/place"
	"memopt/recompute"
)

// ConfigEntry is one "ClusterID:Strategy:Count" of an ONNX Runtime configuration.
type ConfigEntry = cluster.Entry

// Config is the strategy that recomputes the clusters listed by a configuration of ONNX Runtime.
// Among several entries for one cluster id the last counts.
type Config []ConfigEntry

func (c Config) enables() bool         { return len(c) > 0 }
func (Config) probe() recompute.Probe  { return UserSpecified.DefaultProbe() }
func (Config) fixedOrder() graph.Order { return nil }

func (c Config) choose(_ context.Context, m *maker) (*choice, error) {
	sel, warnings := m.selectConfig(c)
	t, err := m.try(sel)
	if err != nil {
		return nil, err
	}
	return &choice{sel: sel, trial: t, solver: "config", warnings: warnings}, nil
}

// selectConfig selects the candidates of a configuration. Among several entries for one cluster id
// the last counts, regardless of its strategy, as in ONNX Runtime; the others are returned as
// warnings, and so are ids without a cluster.
//
// A count is that of the first occurrences in order of execution. In graphs with a YieldOp, which ORTModule
// executes, it means the same as to ORTModule. A kept value counts as an occurrence and is left out.
func (m *maker) selectConfig(config []ConfigEntry) (*selection, []string) {
	a, s := m.analysis, newSelection()
	known := map[recompute.ClusterID]bool{}
	for i := range a.Clusters {
		known[a.Clusters[i].ID] = true
	}
	var warnings []string
	last := map[recompute.ClusterID]ConfigEntry{}
	for _, e := range config {
		if old, dup := last[e.Cluster]; dup && old != e {
			warnings = append(warnings, fmt.Sprintf("config entry %q is overridden by the later entry %q: "+
				"a cluster id can have one entry", old, e))
		}
		if !known[e.Cluster] {
			warnings = append(warnings, unknownCluster(a, e))
		}
		last[e.Cluster] = e
	}
	for i := range a.Clusters {
		c := &a.Clusters[i]
		if e, ok := last[c.ID]; ok && e.Strategy == c.Strategy && e.Strategy != recompute.Keep {
			s.requested[i] = e.Count
		}
	}
	left := maps.Clone(s.requested)
	if m.boundary.Kind == live.YieldBoundary {
		left = m.ortmoduleCounts(s.requested)
		warnings = append(warnings, otherCounts(a, s.requested, left)...)
	}
	taken := make([]bool, len(a.Graph.Nodes))
	for i := range a.Candidates {
		c := &a.Candidates[i]
		if _, named := s.requested[c.Cluster]; !named || taken[c.Entry] {
			continue
		}
		if left[c.Cluster] == 0 {
			taken[c.Entry] = m.boundary.Kind == live.YieldBoundary // left out, whatever else the entry has
			continue
		}
		taken[c.Entry] = true
		if left[c.Cluster]--; m.demands.mayRun(c) {
			s.add(a, i)
		}
	}
	return s, warnings
}

// ortmoduleCounts returns how many occurrences ORTModule 1.19.2 recomputes for each requested count. It skips
// as many of a cluster's occurrences, from the last one on, as the count is below the cluster's frequency, and takes
// every frequency for 1: a count of 1 or more means all, and 0 all but the last.
func (m *maker) ortmoduleCounts(requested map[int]int) map[int]int {
	a := m.analysis
	had := make([]bool, len(a.Graph.Nodes))
	counts := map[int]int{}
	for i := range a.Candidates { // an entry has its first candidate that is requested
		c := &a.Candidates[i]
		if _, named := requested[c.Cluster]; named && !had[c.Entry] {
			had[c.Entry] = true
			counts[c.Cluster]++
		}
	}
	for i := range counts {
		if requested[i] == 0 {
			counts[i]--
		}
	}
	return counts
}

// otherCounts warns of the counts that are not those that ORTModule recomputes.
func otherCounts(a *recompute.Analysis, requested, applied map[int]int) (warnings []string) {
	for i := range a.Clusters {
		c := &a.Clusters[i]
		count, named := requested[i]
		if !named || count < 0 || count > 0 && count >= applied[i] {
			continue
		}
		meaning := "every count from 1 on is all occurrences"
		if count == 0 {
			meaning = fmt.Sprintf("0 is all occurrences but the last (%s:0:-1 is off)", c.ID)
		}
		warnings = append(warnings, fmt.Sprintf("cluster %s, count %d: %d of %d occurrences are recomputed, as "+
			"ORTModule does it: to it, %s", c.ID, count, applied[i], len(c.Members), meaning))
	}
	return warnings
}

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

// unknownCluster is the warning about a configuration entry that names no cluster.
func unknownCluster(a *recompute.Analysis, e ConfigEntry) string {
	text := fmt.Sprintf("config entry %q: no cluster of this graph has the id %q at probe %s, so "+
		"it has no effect",
		e, e.Cluster, a.Probe)
	ids := make([]string, len(a.Clusters))
	for i := range a.Clusters {
		ids[i] = string(a.Clusters[i].ID)
	}
	if near := nearmiss.Question(strings.TrimSpace(string(e.Cluster)), ids); near != "" || len(ids) == 0 {
		return text + near
	}
	const shown = 3
	return text + fmt.Sprintf("; its clusters are %q", ids[:min(shown, len(ids))]) +
		strings.Repeat(" and others", min(1, len(ids)/(shown+1)))
}
