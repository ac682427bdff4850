package executor

import (
	"fmt"
	"slices"
	"strings"

	"memopt/graph"
)

// liveNow lists the largest values that are live, for messages about memory.
func (f *frame) liveNow() string {
	sizes := slices.Clone(f.held)
	for v := range sizes {
		if f.hostRoot(graph.ValueID(v)) != graph.NoValue {
			sizes[v] = 0
		}
	}
	return f.largest(sizes)
}

// liveAtPeak lists the largest values that are live at the predicted peak.
func (s *Session) liveAtPeak() string {
	f := s.root
	sizes := make([]int64, len(f.g.Values))
	for i, r := range f.timeline.Root[:len(sizes)] {
		if g := f.timeline.Ranges[i]; r == graph.ValueID(i) && int(g.Start) <= f.peak.Step && f.peak.Step < int(g.End) {
			sizes[i] = max(f.bytes[i], 0)
		}
	}
	return f.largest(sizes)
}

func (f *frame) largest(sizes []int64) string {
	var ids []graph.ValueID
	for i, n := range sizes {
		if n > 0 {
			ids = append(ids, graph.ValueID(i))
		}
	}
	slices.SortStableFunc(ids, func(a, b graph.ValueID) int { return int(min(max(sizes[b]-sizes[a], -1), 1)) })
	if len(ids) == 0 {
		return ""
	}
	const shown = 5
	var list []string
	for _, v := range ids[:min(shown, len(ids))] {
		list = append(list, f.describe(v, sizes[v]))
	}
	text := fmt.Sprintf("; of %d live values the largest are %s", len(ids), strings.Join(list, ", "))
	return text
}
