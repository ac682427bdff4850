package planner

import (
	"fmt"

	"memopt/recompute"
)

// Level is ONNX Runtime's ORTMODULE_MEMORY_OPT_LEVEL.
type Level int

const (
	// UserSpecified recomputes what the configuration lists.
	UserSpecified Level = 0
	// Layerwise recomputes every candidate of strategy 1, layer by layer.
	Layerwise Level = 1
	// LayerwiseCompromise adds strategy 2 where strategy 1 does not apply.
	LayerwiseCompromise Level = 2
)

// Valid reports whether the level is one of the three.
func (l Level) Valid() bool { return l >= UserSpecified && l <= LayerwiseCompromise }

// String returns ONNX Runtime's name of the level.
func (l Level) String() string {
	switch l {
	case UserSpecified:
		return "USER_SPECIFIED"
	case Layerwise:
		return "TRANSFORMER_LAYERWISE_RECOMPUTE"
	case LayerwiseCompromise:
		return "TRANSFORMER_LAYERWISE_RECOMPUTE_WITH_COMPROMISE"
	}
	return fmt.Sprintf("level %d", int(l))
}

// DefaultProbe is the probe that ONNX Runtime uses with the level.
func (l Level) DefaultProbe() recompute.Probe {
	return recompute.Probe{Level: 1, Layers: l != UserSpecified}
}

// OrderChoice names an order of execution.
type OrderChoice string

const (
	// OrderAuto is OrderORT for a graph with a YieldOp that memopt has not
	// rewritten, else OrderFile.
	OrderAuto OrderChoice = "auto"
	// OrderFile is the order of the file.
	OrderFile OrderChoice = "file"
	// OrderORT is ONNX Runtime's memory-efficient order.
	OrderORT OrderChoice = "ort"
	// OrderMemory starts from the order that OrderAuto is and looks for one with a lower peak. It
	// needs sizes.
	OrderMemory OrderChoice = "memory"
)

// OrderChoices lists the valid choices.
var OrderChoices = []OrderChoice{OrderAuto, OrderFile, OrderORT, OrderMemory}

// selection is what of an analysis is recomputed: at most one candidate per entry.
type selection struct {
	chosen    []int       // candidates, in order of execution
	requested map[int]int // cluster → count asked for
	applied   map[int]int // cluster → candidates selected
	kept      []bool      // by node: it is an entry that is a checkpoint; nil: none is
}

func newSelection() *selection {
	return &selection{requested: map[int]int{}, applied: map[int]int{}}
}

// add selects a candidate, of an entry that has none yet.
func (s *selection) add(a *recompute.Analysis, candidate int) {
	s.chosen = append(s.chosen, candidate)
	s.applied[a.Candidates[candidate].Cluster]++
}

// withCheckpoints returns the selection without every n-th entry in order of
// execution: their values are kept, and recomputation starts from them.
func (s *selection) withCheckpoints(a *recompute.Analysis, every int) *selection {
	out := newSelection()
	out.kept = make([]bool, len(a.Graph.Nodes))
	for i, c := range s.chosen {
		out.requested[a.Candidates[c].Cluster] = -1
		if i%every == every-1 {
			out.kept[a.Candidates[c].Entry] = true
		} else {
			out.add(a, c)
		}
	}
	return out
}

// selectLevel turns on every entry's strategy-1 candidate and, with compromise, the
// strategy-2 candidates of entries that have no other. Candidates that cannot be cloned stay off.
func selectLevel(a *recompute.Analysis, compromise bool) *selection {
	s, taken := newSelection(), make([]bool, len(a.Graph.Nodes))
	for i := range a.Candidates {
		c := &a.Candidates[i]
		if c.Strategy == recompute.Compromise && !compromise || a.Uncloneable(i) != "" {
			continue
		}
		if !taken[c.Entry] {
			taken[c.Entry] = true
			s.requested[c.Cluster] = -1
			s.add(a, i)
		}
	}
	return s
}

// selectConfig turns on what a configuration lists. Of several entries for one cluster id
// the last counts, whatever its strategy, as in ONNX Runtime; the others are
// returned as warnings, and so are ids that no cluster has.
func selectConfig(a *recompute.Analysis, config []ConfigEntry) (*selection, []string) {
	s := newSelection()
	known := map[recompute.ClusterID]bool{}
	for i := range a.Clusters {
		known[a.Clusters[i].ID] = true
	}
	var warnings []string
	last := map[recompute.ClusterID]ConfigEntry{}
	for _, e := range config {
		if old, dup := last[e.Cluster]; dup && old != e {
			warnings = append(warnings, fmt.Sprintf("config entry %q is overridden by the later entry %q: a cluster id can have one entry", old, e))
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
		left[c.Cluster]--
		s.add(a, i)
	}
	return s, warnings
}
