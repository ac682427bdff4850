package anchor

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
)

// builder makes the program of a rewritten graph with anchors at given places, by the same
// rules as recompute.Apply writes it.
type builder struct {
	*search
	out     live.Program
	anchors []recompute.Anchor
	alias   []graph.ValueID       // by value of the program: the view through which it is read, or itself
	min     graph.ValueID         // that the last anchor waits by
	readers []int32               // by value: readers in the present stretch
	stamp   []int32               // by value: one past the stretch in which it was anchored
	sunk    []bool                // by value of the program: an anchor waits for it
	covered []bool                // by step: it waits for the anchor at the start of its stretch
	late    []int32               // by value of the graph: one past the stretch in which what makes it is followed by a view of the anchor
	listed  []int32               // by value of the graph: one past the last stretch that has it among its late values
	at      []int32               // by value of the program: its place among out.Outputs, or -1
	zeros   map[int]graph.ValueID // of the last anchor, by rank
	looked  int                   // steps looked at, in all builds: tests hold it to be linear
}

func newBuilder(a *search) *builder {
	n := len(a.program.Bytes)
	return &builder{search: a, alias: make([]graph.ValueID, n), readers: make([]int32, n), stamp: make([]int32, n), sunk: make([]bool, n), covered: make([]bool, len(a.step)), late: make([]int32, len(a.g.Values)), listed: make([]int32, len(a.g.Values))}
}

// build places an anchor at every place where it holds something back. The places ascend.
func (b *builder) build(places []int32) {
	b.out.Steps, b.out.Outputs = b.out.Steps[:0], append(b.out.Outputs[:0], b.program.Outputs...)
	b.out.Bytes, b.out.Persistent = append(b.out.Bytes[:0], b.program.Bytes...), append(b.out.Persistent[:0], b.program.Persistent...)
	b.anchors, b.min = nil, graph.NoValue
	for v := range b.alias {
		b.alias[v], b.stamp[v] = graph.ValueID(v), 0
	}
	clear(b.covered)
	clear(b.sunk)
	clear(b.late)
	clear(b.listed)
	b.at = append(b.at[:0], b.result...)
	done, last := 0, 0 // steps that are built, and the first that no anchor could wait for yet
	for i, place := range places {
		start := b.stepAt(place, done)
		end := len(b.step)
		if i+1 < len(places) {
			end = b.stepAt(places[i+1], start)
		}
		b.keep(done, start)
		done = start
		serial := int32(len(b.anchors)) + 1
		values := b.frontier(start, end, serial)
		if len(values) == 0 {
			continue
		}
		sinks := b.sinks(last, start)
		if len(sinks) == 0 && b.min == graph.NoValue {
			b.forget(values, serial)
			last = start // what is no sink here will be none behind it
			continue
		}
		b.anchor(place, sinks, values, start)
		last = start
	}
	b.keep(done, len(b.step))
}

// forget takes back what was chosen for an anchor that is not to be.
func (b *builder) forget(values []graph.ValueID, serial int32) {
	for _, v := range values {
		b.stamp[v] = 0
		if b.late[b.origin[v]] == serial {
			b.late[b.origin[v]] = 0
		}
	}
}

// stepAt returns the first step from the given one on that stands at a place or behind it.
func (b *builder) stepAt(place int32, from int) int {
	for from < len(b.places) && b.places[from] < place {
		from++
	}
	return from
}

// keep appends steps of the rewritten graph, which read through the anchors before them.
func (b *builder) keep(from, to int) {
	for i := from; i < to; i++ {
		s := b.program.Steps[i]
		if b.folds(i) {
			continue
		}
		if b.step[i].moves {
			shared := true
			for slot, v := range s.In[:b.step[i].inputs] {
				if v == graph.NoValue || b.alias[v] == v {
					continue
				}
				if shared {
					s.In, shared = append([]graph.ValueID(nil), s.In...), false
				}
				s.In[slot] = b.alias[v]
			}
		}
		b.out.Steps = append(b.out.Steps, s)
		if b.step[i].moves && len(b.anchors) > 0 {
			b.follow(i)
		}
	}
}

// folds reports whether step i copies what an anchor waits for to a graph output, and lets the
// value be that output, as recompute.Apply does.
func (b *builder) folds(i int) bool {
	s := &b.program.Steps[i]
	if !b.step[i].result || !b.sunk[s.In[0]] || b.alias[s.In[0]] != s.In[0] || b.at[s.In[0]] >= 0 {
		return false
	}
	at := b.at[s.Out[0]]
	b.out.Outputs[at] = s.In[0]
	b.at[s.In[0]], b.at[s.Out[0]] = at, -1
	return true
}

// follow appends views of the late values that a step makes.
func (b *builder) follow(i int) {
	for _, v := range b.program.Steps[i].Out {
		if v == graph.NoValue || b.origin[v] == graph.NoValue || b.late[b.origin[v]] != int32(len(b.anchors)) {
			continue
		}
		rank := b.g.Values[b.origin[v]].Type.Shape.Rank()
		b.alias[v] = b.add(op.Reshape, b.program.Bytes[v], v, b.zeros[rank])
	}
}

// anchor appends the steps of an anchor.
func (b *builder) anchor(place int32, sinks, values []graph.ValueID, start int) {
	a := recompute.Anchor{Before: b.p.Analysis.Order[place]}
	var sizes []graph.ValueID
	if b.min != graph.NoValue {
		sizes = append(sizes, b.min)
	}
	for _, v := range sinks {
		a.Sinks = append(a.Sinks, b.origin[v])
		b.sunk[v] = b.origin[v] == v
		sizes = append(sizes, b.add(op.Size, 8, b.alias[v]))
	}
	b.wait(sizes)
	b.zeros = map[int]graph.ValueID{}
	var late []graph.ValueID
	serial := int32(len(b.anchors)) + 1
	for _, v := range values {
		if b.def[v] >= int32(start) {
			late = append(late, v)
			continue
		}
		a.Values = append(a.Values, b.origin[v])
		b.alias[v] = b.add(op.Reshape, b.program.Bytes[v], b.alias[v], b.zerosOf(v))
	}
	for _, v := range late {
		b.zerosOf(v)
		if o := b.origin[v]; b.listed[o] != serial {
			b.listed[o] = serial
			a.Late = append(a.Late, o)
		}
	}
	b.anchors = append(b.anchors, a)
}

// zerosOf returns the zeros by which a value keeps its dims.
func (b *builder) zerosOf(v graph.ValueID) graph.ValueID {
	rank := b.g.Values[b.origin[v]].Type.Shape.Rank()
	zeros, ok := b.zeros[rank]
	if !ok {
		zeros = b.add(op.Mul, 8*int64(rank), b.min)
		b.zeros[rank] = zeros
	}
	return zeros
}

// wait combines the sizes as recompute.Apply does.
func (b *builder) wait(sizes []graph.ValueID) {
	switch {
	case len(sizes) == 1:
		b.min = sizes[0]
	case b.p.Analysis.Model.OpsetVersion("") >= 12:
		b.min = b.add(op.Min, 8, sizes...)
	default:
		b.min = b.add(op.Mul, 8, sizes[0])
		for _, size := range sizes[1:] {
			b.min = b.add(op.Mul, 8, b.min, size)
		}
	}
}

// add appends a step that makes one value.
func (b *builder) add(kind graph.Kind, bytes int64, in ...graph.ValueID) graph.ValueID {
	out := graph.ValueID(len(b.out.Bytes))
	b.out.Bytes, b.out.Persistent = append(b.out.Bytes, bytes), append(b.out.Persistent, false)
	b.out.Steps = append(b.out.Steps, live.Step{Node: graph.NoNode, Kind: kind, In: in, Out: []graph.ValueID{out}})
	return out
}
