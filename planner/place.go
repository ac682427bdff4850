package planner

import (
	"cmp"
	"fmt"
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
	again   []bool                          // by node: it runs again
	entry   []bool                          // by node: it is a selected entry
	nodes   []graph.NodeID                  // those that run again, in order of execution
	readers map[graph.NodeID][]int32        // by entry: places of its backward readers
	feeds   map[graph.NodeID][]graph.NodeID // by node that runs again: its consumers that run again
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
	p := &placer{a: a, scratch: mem, sizes: sizes, pos: pos, again: make([]bool, len(a.Graph.Nodes)), entry: make([]bool, len(a.Graph.Nodes)),
		readers: map[graph.NodeID][]int32{}, feeds: map[graph.NodeID][]graph.NodeID{}}
	for _, i := range chosen {
		c := &a.Candidates[i]
		p.entry[c.Entry] = true
		for _, id := range c.Nodes {
			if !p.again[id] {
				p.again[id] = true
				p.nodes = append(p.nodes, id)
			}
		}
	}
	slices.SortFunc(p.nodes, func(x, y graph.NodeID) int { return cmp.Compare(pos[x], pos[y]) })
	for _, st := range a.Stashed {
		if p.again[st.Node] {
			for _, r := range st.Readers {
				p.readers[st.Node] = append(p.readers[st.Node], pos[r])
			}
		}
	}
	for _, id := range p.nodes {
		a.Graph.EachProducer(id, func(producer graph.NodeID) {
			if p.again[producer] {
				p.feeds[producer] = append(p.feeds[producer], id)
			}
		})
	}
	return p
}

// barrier is a step at which the plan peaks: values of some size are not carried across it.
type barrier struct {
	at    int32 // place in the order
	bytes int64 // values below this size are carried
}

// schedule says at which places in the order each node runs again.
type schedule struct {
	copies map[graph.NodeID][]int32
	split  map[graph.NodeID][]barrier // by node: the barrier before copy 2, 3, …
}

// plan computes the places: a node runs again for the first reader that needs it, and
// once more where the way to the next reader crosses a barrier.
func (p *placer) plan(barriers []barrier) *schedule {
	s := &schedule{copies: make(map[graph.NodeID][]int32, len(p.nodes)), split: map[graph.NodeID][]barrier{}}
	for _, id := range slices.Backward(p.nodes) {
		needs := slices.Clone(p.readers[id])
		for _, consumer := range p.feeds[id] {
			needs = append(needs, s.copies[consumer]...)
		}
		slices.Sort(needs)
		needs = slices.Compact(needs)
		for i, at := range needs {
			if i == 0 {
				s.copies[id] = append(s.copies[id], at)
			} else if b, ok := p.crosses(id, barriers, needs[i-1], at); ok {
				s.copies[id] = append(s.copies[id], at)
				s.split[id] = append(s.split[id], b)
			}
		}
	}
	return s
}

// crosses returns the first barrier on the way from one place to another that a node's outputs are too
// large for. One at the place they come from counts: what runs again there may peak
// after it is done with them.
func (p *placer) crosses(id graph.NodeID, barriers []barrier, from, to int32) (barrier, bool) {
	i, _ := slices.BinarySearchFunc(barriers, from, func(b barrier, at int32) int { return cmp.Compare(b.at, at) })
	for ; i < len(barriers) && barriers[i].at < to; i++ {
		if p.outputBytes(id) >= barriers[i].bytes {
			return barriers[i], true
		}
	}
	return barrier{}, false
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

// placements groups what runs again at one place by the entries that it is for.
func (p *placer) placements(s *schedule) []recompute.Placement {
	at := map[int32][]graph.NodeID{}
	for _, id := range p.nodes {
		for _, place := range s.copies[id] {
			at[place] = append(at[place], id)
		}
	}
	places := make([]int32, 0, len(at))
	for place := range at {
		places = append(places, place)
	}
	slices.Sort(places)
	copies := map[graph.NodeID]int{}
	var out []recompute.Placement
	for _, place := range places {
		var nodes []graph.NodeID
		for _, id := range at[place] {
			nodes = append(nodes, id)
			if !p.entry[id] {
				continue
			}
			copies[id]++
			out = append(out, recompute.Placement{Value: p.stashedValue(id), Nodes: nodes, Before: p.a.Order[place],
				Copy: copies[id], Reason: p.reason(id, place, copies[id], s)})
			nodes = nil
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

func (p *placer) reason(id graph.NodeID, place int32, copy int, s *schedule) string {
	reader := p.a.Graph.NodeLabel(p.a.Order[place])
	if copy == 1 {
		return fmt.Sprintf("%q is the first in backward to need it", reader)
	}
	b := s.split[id][copy-2]
	return fmt.Sprintf("%q is the next to need it, and keeping it until then would raise the peak at %q", reader, p.a.Graph.NodeLabel(p.a.Order[b.at]))
}

// program makes the program of the rewritten graph.
func (p *placer) program(base *live.Program, placements []recompute.Placement) *builder {
	b := &p.scratch.builder
	b.g, b.sizes, b.price = p.a.Graph, p.sizes, p.scratch.clonePrice
	b.reset(base)
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
	var barriers []barrier
	best, err := p.evaluate(base, nil)
	if err != nil {
		return nil, err
	}
	last, single := best, best.clones
	for range maxRounds {
		more := best.barriers(barriers)
		if len(more) == len(barriers) {
			break
		}
		trial, err := p.evaluate(base, more)
		if err != nil {
			return nil, err
		}
		last = trial
		if trial.peak >= best.peak || trial.clones > maxCopies*single {
			break
		}
		best, barriers = trial, more
	}
	if last != best { // the scratch memory holds a worse one
		return p.evaluate(base, barriers)
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
}

func (p *placer) evaluate(base *live.Program, barriers []barrier) (*evaluated, error) {
	return p.simulate(base, p.placements(p.plan(barriers)))
}

func (p *placer) simulate(base *live.Program, placements []recompute.Placement) (*evaluated, error) {
	b := p.program(base, placements)
	p.scratch.steps += len(b.out.Steps)
	t, err := p.scratch.sim.Run(&b.out)
	if err != nil {
		return nil, err
	}
	clones := len(b.out.Steps) - len(base.Steps)
	return &evaluated{placements, clones, t.Peak.Bytes, &b.out, b.places, t}, nil
}

// barriers adds the steps at which the program peaks to those that are known.
func (e *evaluated) barriers(known []barrier) []barrier {
	peak := e.timeline.Peak.Bytes
	out := slices.Clone(known)
	for step, bytes := range e.timeline.Live {
		if bytes >= peak-peak/nearPeak {
			out = append(out, barrier{e.places[step], max(peak/minSplit, 1)})
		}
	}
	slices.SortFunc(out, func(a, b barrier) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.bytes, b.bytes)) })
	return slices.CompactFunc(out, func(a, b barrier) bool { return a.at == b.at })
}
