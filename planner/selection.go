package planner

import (
	"slices"

	"memopt/recompute"
)

// selection is the recomputed part of an analysis: at most one candidate per entry.
type selection struct {
	chosen    []int       // candidates, in order of execution
	requested map[int]int // cluster → count asked for
	applied   map[int]int // cluster → candidates selected
	kept      []bool      // by node: the entry is a checkpoint; nil without checkpoints
}

func newSelection() *selection {
	return &selection{requested: map[int]int{}, applied: map[int]int{}}
}

// add selects a candidate of an entry without one.
func (s *selection) add(a *recompute.Analysis, candidate int) {
	s.chosen = append(s.chosen, candidate)
	s.applied[a.Candidates[candidate].Cluster]++
}

// withCheckpoints returns the selection without every n-th entry in order of execution: their
// values are kept, and recomputation starts from them.
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

// selectionOf returns the candidates that placements stand for, however these were chosen.
func selectionOf(a *recompute.Analysis, placements []recompute.Placement) *selection {
	sel := newSelection()
	again := make([]bool, len(a.Graph.Nodes))
	for _, pl := range placements {
		def := a.Graph.Values[pl.Value].Def
		if cs := a.OfEntry(def); len(cs) > 0 && !again[def] {
			again[def] = true
			sel.requested[a.Candidates[cs[0]].Cluster] = -1
			sel.add(a, cs[0])
		}
	}
	slices.Sort(sel.chosen)
	return sel
}
