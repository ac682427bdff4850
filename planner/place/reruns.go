package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/recompute"
)

// maxCopies bounds the executions of a plan with split copies, as a multiple of those with one copy
// of each value. Otherwise a long row of recomputed nodes, without layers to stop at, would be run
// from its start for each of its values.
const maxCopies = 2

// reruns are the recomputed nodes of selected candidates, and the readers of their outputs.
type reruns struct {
	b       *Evaluator
	entry   []bool         // by node: it is a selected entry
	nodes   []graph.NodeID // recomputed nodes, in order of execution
	rank    []int32        // by node: its place in nodes, or -1
	readers lists          // by rank: places of backward readers of an entry
	feeds   lists          // by rank: recomputed consumers, by rank
}

// candidates are those of the analysis with some indices, and the forced ones.
func (b *Evaluator) candidates(chosen []int) []*recompute.Candidate {
	list := make([]*recompute.Candidate, 0, len(chosen)+len(b.Forced))
	for _, i := range chosen {
		list = append(list, &b.Analysis.Candidates[i])
	}
	for i := range b.Forced {
		list = append(list, &b.Forced[i])
	}
	return list
}

// newReruns prepares to place candidates. Nodes of other placements, which may be nil, also read
// recomputed values.
func newReruns(b *Evaluator, chosen []*recompute.Candidate, others []recompute.Placement) *reruns {
	r, a, pos := &reruns{b: b}, b.Analysis, b.Pos
	if len(chosen) == 0 {
		return r
	}
	r.entry, r.rank = make([]bool, len(a.Graph.Nodes)), make([]int32, len(a.Graph.Nodes))
	for i := range r.rank {
		r.rank[i] = -1
	}
	for _, c := range chosen {
		r.entry[c.Entry] = true
		for _, id := range c.Nodes {
			if r.rank[id] < 0 {
				r.rank[id] = 0
				r.nodes = append(r.nodes, id)
			}
		}
	}
	slices.SortFunc(r.nodes, func(x, y graph.NodeID) int { return cmp.Compare(pos[x], pos[y]) })
	for i, id := range r.nodes {
		r.rank[id] = int32(i)
	}
	r.readers = newLists(len(r.nodes), func(add func(list, item int32)) {
		for i := range a.Stashed {
			if st := &a.Stashed[i]; r.rank[st.Node] >= 0 {
				for _, reader := range st.Readers {
					add(r.rank[st.Node], pos[reader])
				}
			}
		}
		for i := range others {
			for _, id := range others[i].Nodes {
				a.Graph.EachProducer(id, func(producer graph.NodeID) {
					if r.rank[producer] >= 0 && r.entry[producer] {
						add(r.rank[producer], pos[others[i].Before])
					}
				})
			}
		}
	})
	r.feeds = newLists(len(r.nodes), func(add func(list, item int32)) {
		for i, id := range r.nodes {
			a.Graph.EachProducer(id, func(producer graph.NodeID) {
				if r.rank[producer] >= 0 {
					add(r.rank[producer], int32(i))
				}
			})
		}
	})
	return r
}

// schedule has the places of each node's recomputation in the order.
type schedule struct {
	copies [][]int32 // by rank
	split  [][]int32 // by rank: the place of the barrier before copy 2, 3, …
	clones int       // how many there are
}

// noLimit allows a schedule any number of clones.
const noLimit = math.MaxInt

// plan computes the places: a node is recomputed for the first reader that needs it, and once more
// if the way to the next reader crosses a barrier. It gives up, with nil, beyond a number of
// clones.
func (r *reruns) plan(set *barriers, limit int) *schedule {
	s := &schedule{copies: make([][]int32, len(r.nodes))}
	if set != nil {
		s.split = make([][]int32, len(r.nodes))
	}
	var needs, places []int32
	for rank := len(r.nodes) - 1; rank >= 0; rank-- {
		needs = append(needs[:0], r.readers.of(int32(rank))...)
		for _, consumer := range r.feeds.of(int32(rank)) {
			needs = append(needs, s.copies[consumer]...)
		}
		slices.Sort(needs)
		needs = slices.Compact(needs)
		from := len(places)
		for i, at := range needs {
			if i == 0 {
				places = append(places, at)
			} else if b, ok := r.crosses(r.nodes[rank], set, needs[i-1], at); ok {
				places = append(places, at)
				s.split[rank] = append(s.split[rank], b)
			}
		}
		s.copies[rank] = places[from:len(places):len(places)]
		if s.clones += len(places) - from; s.clones > limit {
			return nil
		}
	}
	return s
}

// crosses returns the place of the first barrier on the way from one place to another that a node's
// outputs are too large for.
func (r *reruns) crosses(id graph.NodeID, set *barriers, from, to int32) (int32, bool) {
	if set == nil || len(set.list) == 0 {
		return 0, false
	}
	return set.first(r.outputBytes(id), from, to)
}

func (r *reruns) outputBytes(id graph.NodeID) int64 {
	var largest int64
	for _, v := range r.b.Analysis.Graph.Nodes[id].Outputs {
		if v != graph.NoValue {
			largest = max(largest, r.b.Sizes.Bytes[v])
		}
	}
	return largest
}

// placements groups the recomputed nodes of one place by the entries that need them. Their reasons
// are left out: see explain.
func (r *reruns) placements(s *schedule) []recompute.Placement {
	order := r.b.Analysis.Order
	at := newLists(len(order), func(add func(list, item int32)) {
		for rank, places := range s.copies {
			for _, place := range places {
				add(place, int32(rank))
			}
		}
	})
	copies := make([]int32, len(r.nodes))
	nodes := make([]graph.NodeID, 0, len(at.items))
	count := 0
	for rank, places := range s.copies {
		if r.entry[r.nodes[rank]] {
			count += len(places)
		}
	}
	out := make([]recompute.Placement, 0, count)
	for place := range order {
		from := len(nodes)
		for _, rank := range at.of(int32(place)) {
			id := r.nodes[rank]
			nodes = append(nodes, id)
			if !r.entry[id] {
				continue
			}
			copies[rank]++
			out = append(out, recompute.Placement{Value: r.stashedValue(id),
				Nodes: nodes[from:len(nodes):len(nodes)], Before: order[place], Copy: int(copies[rank])})
			from = len(nodes)
		}
	}
	return out
}

// stashedValue returns the first stashed output of an entry.
func (r *reruns) stashedValue(id graph.NodeID) graph.ValueID {
	a := r.b.Analysis
	for _, c := range a.OfEntry(id) {
		return a.Candidates[c].Stashed[0]
	}
	for i := range r.b.Forced {
		if c := &r.b.Forced[i]; c.Entry == id && len(c.Stashed) > 0 {
			return c.Stashed[0]
		}
	}
	return a.Graph.Nodes[id].Output(0)
}

// explain adds the reasons of a schedule's placements.
func (r *reruns) explain(s *schedule, placements []recompute.Placement) {
	a := r.b.Analysis
	for i := range placements {
		pl := &placements[i]
		reader := a.Graph.NodeLabel(pl.Before)
		if pl.Copy == 1 {
			pl.Reason = fmt.Sprintf("%q is the first in backward to need it", reader)
			continue
		}
		peak := a.Order[s.split[r.rank[pl.Nodes[len(pl.Nodes)-1]]][pl.Copy-2]]
		pl.Reason = fmt.Sprintf("%q is the next to need it, and keeping it until then would raise the "+
			"peak at %q", reader, a.Graph.NodeLabel(peak))
	}
}

// try places the nodes with barriers and simulates the outcome; nil if there would be more clones
// than the limit.
func (r *reruns) try(set *barriers, limit int) (*Trial, error) {
	s := r.plan(set, limit)
	if s == nil {
		return nil, nil
	}
	t, err := r.b.Simulate(r.placements(s))
	if err == nil {
		t.reruns, t.schedule = r, s
	}
	return t, err
}
