package anchor

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
)

// builder makes the program of a rewritten graph with anchors at given places. It is the sink that
// anchors are emitted into, and so has the nodes that recompute.Apply writes.
type builder struct {
	*search
	emitter *recompute.AnchorEmitter
	out     live.Program
	anchors []recompute.Anchor
	alias   []graph.ValueID // by value of the program: the view through which it is read, or itself
	readers []int32         // by value: readers in the present stretch
	stamp   []int32         // by value: one past the stretch in which it was anchored
	sunk    []bool          // by value of the program: an anchor waits for it
	covered []bool          // by step: it waits for the anchor at the start of its stretch
	listed  []int32         // by value of the graph: one past the last stretch that has it among its late values
	at      []int32         // by value of the program: its place among out.Outputs, or -1
	looked  int             // steps looked at, in all builds: tests hold it to be linear
}

func newBuilder(a *search) *builder {
	n := len(a.program.Bytes)
	b := &builder{search: a, alias: make([]graph.ValueID, n), readers: make([]int32, n), stamp: make([]int32, n),
		sunk: make([]bool, n), covered: make([]bool, len(a.step)), listed: make([]int32, len(a.g.Values))}
	b.emitter = recompute.NewAnchorEmitter(a.g, a.p.Analysis.Model.OpsetVersion(""), b)
	return b
}

// build places an anchor at every place where it holds something back. The places ascend.
func (b *builder) build(places []int32) error {
	b.out.Steps, b.out.Outputs = b.out.Steps[:0], append(b.out.Outputs[:0], b.program.Outputs...)
	b.out.Bytes, b.out.Persistent = append(b.out.Bytes[:0], b.program.Bytes...),
		append(b.out.Persistent[:0], b.program.Persistent...)
	b.anchors = nil
	b.emitter.Reset(b)
	for v := range b.alias {
		b.alias[v], b.stamp[v] = graph.ValueID(v), 0
	}
	clear(b.covered)
	clear(b.sunk)
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
		if len(sinks) == 0 && !b.emitter.Waits() {
			b.forget(values)
			last = start // what is no sink here will be none behind it
			continue
		}
		if err := b.anchor(place, sinks, values, start); err != nil {
			return err
		}
		last = start
	}
	b.keep(done, len(b.step))
	return nil
}

// forget takes back what was chosen for an anchor that is not to be.
func (b *builder) forget(values []graph.ValueID) {
	for _, v := range values {
		b.stamp[v] = 0
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
		if !b.step[i].moves || len(b.anchors) == 0 {
			continue
		}
		for _, v := range s.Out {
			if v != graph.NoValue {
				b.emitter.Follow(v)
			}
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

// anchor emits an anchor, and notes what recompute.Apply emits it from.
func (b *builder) anchor(place int32, sinks, values []graph.ValueID, start int) error {
	a := recompute.Anchor{Before: b.p.Analysis.Order[place]}
	for _, v := range sinks {
		a.Sinks = append(a.Sinks, b.origin[v])
		b.sunk[v] = b.origin[v] == v
	}
	var made, late []graph.ValueID
	serial := int32(len(b.anchors)) + 1
	for _, v := range values {
		o := b.origin[v]
		if b.def[v] < int32(start) {
			made = append(made, v)
			a.Values = append(a.Values, o)
			continue
		}
		late = append(late, v)
		if b.listed[o] != serial {
			b.listed[o] = serial
			a.Late = append(a.Late, o)
		}
	}
	b.anchors = append(b.anchors, a)
	return b.emitter.Emit(sinks, made, late)
}

// Origin returns the value of the graph that a value is, or is a clone of.
func (b *builder) Origin(v graph.ValueID) graph.ValueID { return b.origin[v] }

// Newest returns the view through which a value is read, or itself.
func (b *builder) Newest(v graph.ValueID) graph.ValueID { return b.alias[v] }

// Zeros returns no value: constants are in no program.
func (b *builder) Zeros(int) (graph.ValueID, error) { return graph.NoValue, nil }

// Add appends the step of a node.
func (b *builder) Add(n recompute.AnchorNode) graph.ValueID {
	elements := int64(1)
	if n.Rank == 1 {
		elements = n.Dim
	}
	return b.add(n.Kind, int64(graph.Int64.Bits()/8)*elements, n.Inputs...)
}

// View lets readers of a value read it through a Reshape from now on.
func (b *builder) View(v, zeros graph.ValueID) {
	b.alias[v] = b.add(op.Reshape, b.program.Bytes[v], b.alias[v], zeros)
}

// add appends a step that makes one value.
func (b *builder) add(kind graph.Kind, bytes int64, in ...graph.ValueID) graph.ValueID {
	out := graph.ValueID(len(b.out.Bytes))
	b.out.Bytes, b.out.Persistent = append(b.out.Bytes, bytes), append(b.out.Persistent, false)
	b.out.Steps = append(b.out.Steps, live.Step{Node: graph.NoNode, Kind: kind, In: in, Out: []graph.ValueID{out}})
	return out
}
