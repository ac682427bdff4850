package cluster

import (
	"fmt"
	"math"

	"memopt/graph/live"
	"memopt/recompute"
)

// Entry is one "ClusterID:Strategy:Count" of an ONNX Runtime configuration.
type Entry struct {
	Cluster  recompute.ClusterID
	Strategy recompute.Strategy
	// Count is how many occurrences are recomputed, the first ones in order of execution; -1 is all of
	// them. In graphs with a YieldOp it means the same as to ORTModule: every count but 0 is all of them, and
	// 0 is all but the last.
	Count int
}

// String returns the entry as configurations write it.
func (e Entry) String() string { return fmt.Sprintf("%s:%d:%d", e.Cluster, e.Strategy, e.Count) }

// axis is a cluster id and its possible entries in a configuration. A configuration has one entry
// per id, so the strategies of an id exclude each other.
//
// An entry is encoded as one number, the setting: 0 is off, the next ones are counts 1, 2, … of the
// first strategy, and those of the second follow.
type axis struct {
	id      recompute.ClusterID
	choices []choice
}

// choice is one of the strategies of a cluster id.
type choice struct {
	strategy recompute.Strategy
	members  int32 // occurrences that counts tell apart: 1 where every count is all
	base     int32 // setting of count 0
}

// settings returns how many settings the axis has.
func (x *axis) settings() int32 {
	last := x.choices[len(x.choices)-1]
	return last.base + last.members + 1
}

// of returns the strategy that a setting other than 0 belongs to.
func (x *axis) of(setting int32) choice {
	for _, s := range x.choices[1:] {
		if setting > s.base {
			return s
		}
	}
	return x.choices[0]
}

// entry returns the configuration's entry for a setting other than 0.
func (x *axis) entry(setting int32) Entry {
	s := x.of(setting)
	count := int(setting - s.base)
	if setting-s.base == s.members {
		count = -1
	}
	return Entry{Cluster: x.id, Strategy: s.strategy, Count: count}
}

// newAxes lists the cluster ids of an analysis in order of first occurrence. In graphs with a YieldOp a
// cluster is recomputed in all its occurrences or in none.
func newAxes(a *recompute.Analysis) []axis {
	var axes []axis
	at := map[recompute.ClusterID]int{}
	for i := range a.Clusters {
		c := &a.Clusters[i]
		k, known := at[c.ID]
		if !known {
			k = len(axes)
			at[c.ID] = k
			axes = append(axes, axis{id: c.ID})
		}
		x := &axes[k]
		s := choice{strategy: c.Strategy, members: int32(len(c.Members))}
		if a.Boundary.Kind == live.YieldBoundary {
			s.members = 1
		}
		if n := len(x.choices); n > 0 {
			s.base = x.choices[n-1].base + x.choices[n-1].members
		}
		x.choices = append(x.choices, s)
	}
	return axes
}

// configuration returns the configuration that settings stand for.
func configuration(axes []axis, settings []int32) []Entry {
	var out []Entry
	for i, setting := range settings {
		if setting != 0 {
			out = append(out, axes[i].entry(setting))
		}
	}
	return out
}

// spaceSize returns the number of configurations, or MaxInt64 if it exceeds int64.
func spaceSize(axes []axis) int64 {
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

// SpaceSize returns the number of configurations of an analysis, or MaxInt64 if it exceeds int64.
func SpaceSize(a *recompute.Analysis) int64 { return spaceSize(newAxes(a)) }
