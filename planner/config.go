package planner

import (
	"context"
	"fmt"

	"memopt/graph"
	"memopt/planner/cluster"
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
// A kept value counts as an occurrence and is left out.
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
	left := map[int]int{}
	for i := range a.Clusters {
		c := &a.Clusters[i]
		if e, ok := last[c.ID]; ok && e.Strategy == c.Strategy && e.Strategy != recompute.Keep {
			s.requested[i], left[i] = e.Count, e.Count
		}
	}
	taken := make([]bool, len(a.Graph.Nodes))
	for i := range a.Candidates {
		c := &a.Candidates[i]
		if taken[c.Entry] || left[c.Cluster] == 0 {
			continue
		}
		taken[c.Entry] = true
		if left[c.Cluster]--; m.demands.mayRun(c) {
			s.add(a, i)
		}
	}
	return s, warnings
}
