package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/recompute"
)

const (
	// maxRounds bounds how often the placer looks for a lower peak by splitting
	// copies. Each round simulates the whole program once; repeated layers are
	// split together, so a few rounds reach the fixpoint.
	maxRounds = 12
	// nearPeak: steps within 1/64 of the peak count as peaks too, so that the equal peaks of
	// repeated layers fall in one round.
	nearPeak = 64
	// minSplit: a value below 1/1024 of the peak is not worth a second clone.
	minSplit = 1024
	// maxCopies: split copies may make a plan execute at most so many times what it
	// executes with one copy of each value. Without layers to stop at, a chain in which
	// everything is recomputed would otherwise be run from its start for each of its values.
	maxCopies = 2
)

// placer turns selected candidates into placements.
type placer struct {
	scratch *scratch
	a       *recompute.Analysis
	sizes   *live.Sizes // nil where symbols are unbound: then nothing is split
	pos     []int32
	entry   []bool         // by node: it is a selected entry
	nodes   []graph.NodeID // those that run again, in order of execution
	rank    []int32        // by node: its place in nodes, or -1
	readers lists          // by rank: places of backward readers of an entry
	feeds   lists          // by rank: consumers that run again, by rank
}

// lists are lists of numbers, one behind the other.
type lists struct {
	start []int32 // of each list; one more than there are lists
	items []int32
}

func (l *lists) of(i int32) []int32 { return l.items[l.start[i]:l.start[i+1]] }

// newLists gathers n lists: each calls its argument with a list and a number, twice over in the
// same sequence.
func newLists(n int, each func(add func(list, item int32))) lists {
	l := lists{start: make([]int32, n+1)}
	each(func(list, _ int32) { l.start[list+1]++ })
	for i := range n {
		l.start[i+1] += l.start[i]
	}
	l.items = make([]int32, l.start[n])
	next := slices.Clone(l.start[:n])
	each(func(list, item int32) {
		l.items[next[list]] = item
		next[list]++
	})
	return l
}

// scratch is memory that one evaluation after the other works in.
type scratch struct {
	workspace  []int64 // by node; nil: none counts
	clonePrice int64   // Options.CloneBytes

	builder builder
	sim     live.Simulator
	steps   int // simulated so far
}

func newPlacer(a *recompute.Analysis, sizes *live.Sizes, pos []int32, chosen []int, mem *scratch) *placer {
	p := &placer{a: a, scratch: mem, sizes: sizes, pos: pos}
	if len(chosen) == 0 {
		return p
	}
	p.entry, p.rank = make([]bool, len(a.Graph.Nodes)), make([]int32, len(a.Graph.Nodes))
	for i := range p.rank {
		p.rank[i] = -1
	}
	for _, i := range chosen {
		c := &a.Candidates[i]
		p.entry[c.Entry] = true
		for _, id := range c.Nodes {
			if p.rank[id] < 0 {
				p.rank[id] = 0
				p.nodes = append(p.nodes, id)
			}
		}
	}
	slices.SortFunc(p.nodes, func(x, y graph.NodeID) int { return cmp.Compare(pos[x], pos[y]) })
	for i, id := range p.nodes {
		p.rank[id] = int32(i)
	}
	p.readers = newLists(len(p.nodes), func(add func(list, item int32)) {
		for i := range a.Stashed {
			if st := &a.Stashed[i]; p.rank[st.Node] >= 0 {
				for _, r := range st.Readers {
					add(p.rank[st.Node], pos[r])
				}
			}
		}
	})
	p.feeds = newLists(len(p.nodes), func(add func(list, item int32)) {
		for i, id := range p.nodes {
			a.Graph.EachProducer(id, func(producer graph.NodeID) {
				if p.rank[producer] >= 0 {
					add(p.rank[producer], int32(i))
				}
			})
		}
	})
	return p
}

// barrier is a step at which the plan peaks: values of some size are not carried across it.
type barrier struct {
	at    int32 // place in the order
	bytes int64 // values below this size are carried
}

// barriers are the barriers of a plan by place. Each round of the placer sets its own for one size,
// so few sizes occur.
type barriers struct {
	list   []barrier
	bySize [][]int32 // the places of those of one size
	sizes  []int64
}

// newBarriers takes barriers in ascending order of their places.
func newBarriers(list []barrier) *barriers {
	b := &barriers{list: list}
	for _, x := range list {
		at := slices.Index(b.sizes, x.bytes)
		if at < 0 {
			at = len(b.sizes)
			b.sizes, b.bySize = append(b.sizes, x.bytes), append(b.bySize, nil)
		}
		b.bySize[at] = append(b.bySize[at], x.at)
	}
	return b
}

// first returns the place of the first barrier on the way from one place to another that a number
// of bytes is too large for. One at the place they come from counts: what runs again there may peak
// after it is done with them.
func (b *barriers) first(bytes int64, from, to int32) (at int32, ok bool) {
	at = to
	for k, size := range b.sizes {
		if bytes < size {
			continue
		}
		if i, _ := slices.BinarySearch(b.bySize[k], from); i < len(b.bySize[k]) {
			at = min(at, b.bySize[k][i])
		}
	}
	return at, at < to
}

// schedule says at which places in the order each node runs again.
type schedule struct {
	copies [][]int32 // by rank
	split  [][]int32 // by rank: the place of the barrier before copy 2, 3, …
	clones int       // how many there are
}

// noLimit lets a schedule have as many clones as it comes to.
const noLimit = math.MaxInt

// plan computes the places: a node runs again for the first reader that needs it, and once more
// where the way to the next reader crosses a barrier. It gives up, with nil, beyond a number of
// clones.
func (p *placer) plan(set *barriers, limit int) *schedule {
	s := &schedule{copies: make([][]int32, len(p.nodes))}
	if set != nil {
		s.split = make([][]int32, len(p.nodes))
	}
	var needs, places []int32
	for rank := len(p.nodes) - 1; rank >= 0; rank-- {
		needs = append(needs[:0], p.readers.of(int32(rank))...)
		for _, consumer := range p.feeds.of(int32(rank)) {
			needs = append(needs, s.copies[consumer]...)
		}
		slices.Sort(needs)
		needs = slices.Compact(needs)
		from := len(places)
		for i, at := range needs {
			if i == 0 {
				places = append(places, at)
			} else if b, ok := p.crosses(p.nodes[rank], set, needs[i-1], at); ok {
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
func (p *placer) crosses(id graph.NodeID, set *barriers, from, to int32) (int32, bool) {
	if set == nil || len(set.list) == 0 {
		return 0, false
	}
	return set.first(p.outputBytes(id), from, to)
}

func (p *placer) outputBytes(id graph.NodeID) int64 {
	var largest int64
	for _, v := range p.a.Graph.Nodes[id].Outputs {
		if v != graph.NoValue {
			largest = max(largest, p.sizes.Bytes[v])
		}
	}
	return largest
}

// placements groups what runs again at one place by the entries that it is for. Their reasons are
// left out: see explain.
func (p *placer) placements(s *schedule) []recompute.Placement {
	at := newLists(len(p.a.Order), func(add func(list, item int32)) {
		for rank, places := range s.copies {
			for _, place := range places {
				add(place, int32(rank))
			}
		}
	})
	copies := make([]int32, len(p.nodes))
	nodes := make([]graph.NodeID, 0, len(at.items))
	count := 0
	for rank, places := range s.copies {
		if p.entry[p.nodes[rank]] {
			count += len(places)
		}
	}
	out := make([]recompute.Placement, 0, count)
	for place := range p.a.Order {
		from := len(nodes)
		for _, rank := range at.of(int32(place)) {
			id := p.nodes[rank]
			nodes = append(nodes, id)
			if !p.entry[id] {
				continue
			}
			copies[rank]++
			out = append(out, recompute.Placement{Value: p.stashedValue(id), Nodes: nodes[from:len(nodes):len(nodes)], Before: p.a.Order[place], Copy: int(copies[rank])})
			from = len(nodes)
		}
	}
	return out
}

// stashedValue returns the first stashed output of an entry.
func (p *placer) stashedValue(id graph.NodeID) graph.ValueID {
	for _, c := range p.a.OfEntry(id) {
		return p.a.Candidates[c].Stashed[0]
	}
	return p.a.Graph.Nodes[id].Output(0)
}

// explain says of placements of a schedule why they are there. Many selections are weighed, and
// only the placements of the one that is taken are read by anybody.
func (p *placer) explain(s *schedule, placements []recompute.Placement) {
	for i := range placements {
		pl := &placements[i]
		reader := p.a.Graph.NodeLabel(pl.Before)
		if pl.Copy == 1 {
			pl.Reason = fmt.Sprintf("%q is the first in backward to need it", reader)
			continue
		}
		b := s.split[p.rank[pl.Nodes[len(pl.Nodes)-1]]][pl.Copy-2]
		pl.Reason = fmt.Sprintf("%q is the next to need it, and keeping it until then would raise the peak at %q", reader, p.a.Graph.NodeLabel(p.a.Order[b]))
	}
}

// program makes the program of the rewritten graph.
func (p *placer) program(base *live.Program, placements []recompute.Placement) *builder {
	b := &p.scratch.builder
	b.g, b.sizes, b.price = p.a.Graph, p.sizes, p.scratch.clonePrice
	clones := 0
	for i := range placements {
		clones += len(placements[i].Nodes)
	}
	b.reset(base, clones)
	next := 0
	for place, id := range p.a.Order {
		for ; next < len(placements) && placements[next].Before == id; next++ {
			for _, c := range placements[next].Nodes {
				b.clone(c, int32(place))
			}
		}
		b.keep(&base.Steps[place], int32(place), p.a.Backward[id])
	}
	if p.scratch.workspace != nil {
		withWorkspace(&b.out, p.scratch.workspace)
	}
	return b
}

// best splits copies at the peak as long as the simulated peak falls. What it
// returns lies in scratch memory but for the placements.
func (p *placer) best(base *live.Program) (*evaluated, error) {
	var set *barriers
	best, err := p.evaluate(base, nil, noLimit)
	if err != nil {
		return nil, err
	}
	last, single := best, best.clones
	for range maxRounds {
		more := best.barriers(set)
		if set != nil && len(more.list) == len(set.list) || len(more.list) == 0 {
			break
		}
		trial, err := p.evaluate(base, more, maxCopies*single)
		if err != nil {
			return nil, err
		}
		if trial == nil {
			break // more clones than that: not even simulated
		}
		last = trial
		if trial.peak >= best.peak {
			break
		}
		best, set = trial, more
	}
	if last != best { // the scratch memory holds a worse one
		return p.evaluate(base, set, noLimit)
	}
	return best, nil
}

// evaluated is a set of placements and what the simulator says of it.
type evaluated struct {
	placements []recompute.Placement
	clones     int // nodes that run again
	peak       int64
	program    *live.Program
	places     []int32 // by step of the program
	timeline   *live.Timeline

	placer   *placer   // that made the placements, to explain them; nil where somebody else did
	schedule *schedule // of the placements
}

// explain gives the placements their reasons.
func (e *evaluated) explain() {
	if e.placer != nil {
		e.placer.explain(e.schedule, e.placements)
	}
}

// evaluate places the nodes with barriers and simulates the outcome; nil where there would be more
// clones than the limit.
func (p *placer) evaluate(base *live.Program, set *barriers, limit int) (*evaluated, error) {
	s := p.plan(set, limit)
	if s == nil {
		return nil, nil
	}
	e, err := p.simulate(base, p.placements(s))
	if err == nil {
		e.placer, e.schedule = p, s
	}
	return e, err
}

func (p *placer) simulate(base *live.Program, placements []recompute.Placement) (*evaluated, error) {
	b := p.program(base, placements)
	p.scratch.steps += len(b.out.Steps)
	t, err := p.scratch.sim.Run(&b.out)
	if err != nil {
		return nil, err
	}
	clones := len(b.out.Steps) - len(base.Steps)
	return &evaluated{placements: placements, clones: clones, peak: t.Peak.Bytes, program: &b.out, places: b.places, timeline: t}, nil
}

// barriers adds the steps at which the program peaks to those that are known.
func (e *evaluated) barriers(known *barriers) *barriers {
	peak := e.timeline.Peak.Bytes
	var out []barrier
	if known != nil {
		out = slices.Clone(known.list)
	}
	for step, bytes := range e.timeline.Live {
		if bytes >= peak-peak/nearPeak {
			out = append(out, barrier{e.places[step], max(peak/minSplit, 1)})
		}
	}
	slices.SortFunc(out, func(a, b barrier) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.bytes, b.bytes)) })
	return newBarriers(slices.CompactFunc(out, func(a, b barrier) bool { return a.at == b.at }))
}
