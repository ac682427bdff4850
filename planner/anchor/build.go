package anchor

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/recompute"
)

// builder makes the program of a rewritten graph with anchors at given places. It is the sink that
// anchors are emitted into, and so has the nodes that recompute.Apply writes.
type builder struct {
	*search
	emitter *recompute.AnchorEmitter
	out     live.Program
	anchors []recompute.Anchor
	alias   []graph.ValueID // by value of the program: the view that it is read through, or itself
	version []graph.ValueID // by value of the graph: its newest clone so far, or itself
	readers []int32         // by value: readers in the present stretch
	stamp   []int32         // by value: one past the stretch that anchored it
	folded  []graph.ValueID // by value of the program: the original of a copy that is left out, or NoValue
	covered []bool          // by step: it waits for the anchor at the start of its stretch
	listed  []int32         // by value of the graph: one past the last stretch that has it among its late values
	looked  int             // steps looked at, in all builds: tests check that it is linear
}

func newBuilder(a *search) *builder {
	n := len(a.program.Bytes)
	b := &builder{search: a, alias: make([]graph.ValueID, n),
		version: make([]graph.ValueID, len(a.g.Values)), readers: make([]int32, n), stamp: make([]int32, n),
		folded: make([]graph.ValueID, n), covered: make([]bool, len(a.step)), listed: make([]int32, len(a.g.Values))}
	b.emitter = recompute.NewAnchorEmitter(a.g, a.p.Analysis.Model.OpsetVersion(""), b)
	return b
}

// build puts an anchor at every place where it delays a node. The places ascend.
func (b *builder) build(places []int32) error {
	b.out.Steps, b.out.Outputs = b.out.Steps[:0], append(b.out.Outputs[:0], b.program.Outputs...)
	b.out.Bytes, b.out.Persistent = append(b.out.Bytes[:0], b.program.Bytes...),
		append(b.out.Persistent[:0], b.program.Persistent...)
	b.anchors = nil
	b.emitter.Reset(b)
	for v := range b.alias {
		b.alias[v], b.stamp[v], b.folded[v] = graph.ValueID(v), 0, graph.NoValue
	}
	for v := range b.version {
		b.version[v] = graph.ValueID(v)
	}
	clear(b.covered)
	clear(b.listed)
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
			last = start // a step that is no sink here is no sink behind it
			continue
		}
		if err := b.anchor(place, sinks, values, start); err != nil {
			return err
		}
		last = start
	}
	b.keep(done, len(b.step))
	b.foldCopies()
	return nil
}

// forget undoes the choice for an anchor that is not placed.
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
		if b.step[i].follows {
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
		if !b.step[i].follows {
			continue
		}
		for _, v := range s.Out {
			if v == graph.NoValue || b.origin[v] == graph.NoValue {
				continue
			}
			b.version[b.origin[v]] = v
			b.emitter.Follow(v)
		}
	}
}

// foldCopies removes the steps that fold, and lets their inputs stand for their outputs. Only
// anchors that wait for these outputs read them.
func (b *builder) foldCopies() {
	kept := b.out.Steps[:0]
	for _, s := range b.out.Steps {
		if b.copiesResult(&s) && b.emitter.Folds(s.Node) {
			b.out.Outputs[b.result[s.Out[0]]] = s.In[0]
			b.folded[s.Out[0]] = s.In[0]
			continue
		}
		if s.Node == graph.NoNode {
			for slot, v := range s.In {
				if int(v) < len(b.folded) && b.folded[v] != graph.NoValue {
					s.In[slot] = b.folded[v]
				}
			}
		}
		kept = append(kept, s)
	}
	b.out.Steps = kept
}

// copiesResult reports whether a step is a node of the original graph that copies a node's output
// to a graph output without readers.
func (b *builder) copiesResult(s *live.Step) bool {
	return s.Node != graph.NoNode && b.emitter.CopiesResult(s.Node) && s.Out[0] == b.g.Nodes[s.Node].Outputs[0]
}

// anchor emits an anchor, and notes the input of recompute.Apply for it.
func (b *builder) anchor(place int32, sinks, values []graph.ValueID, start int) error {
	a := recompute.Anchor{Before: b.p.Analysis.Order[place]}
	for _, v := range sinks {
		a.Sinks = append(a.Sinks, b.origin[v])
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

// Newest returns the newest clone of a value's origin, or the view that it is read through.
func (b *builder) Newest(v graph.ValueID) graph.ValueID { return b.alias[b.version[b.origin[v]]] }

// Constant returns no value: programs have no constants.
func (b *builder) Constant(string, ...int64) (graph.ValueID, error) { return graph.NoValue, nil }

// Itself reports whether a value has no clone and is read through no view.
func (b *builder) Itself(v graph.ValueID) bool { return b.version[v] == v && b.alias[v] == v }

// SetNewest lets readers of a value read a view from now on.
func (b *builder) SetNewest(v, view graph.ValueID) { b.alias[v] = view }

// Add appends the step of a node.
func (b *builder) Add(n recompute.AnchorNode) graph.ValueID {
	bytes := int64(graph.Int64.Bits() / 8)
	switch {
	case n.View != recompute.NoView:
		bytes = b.out.Bytes[n.Inputs[0]]
	case n.Rank == 1:
		bytes *= n.Dim
	}
	out := graph.ValueID(len(b.out.Bytes))
	b.out.Bytes, b.out.Persistent = append(b.out.Bytes, bytes), append(b.out.Persistent, false)
	b.out.Steps = append(b.out.Steps,
		live.Step{Node: graph.NoNode, Kind: n.Kind, In: n.Inputs, Out: []graph.ValueID{out}})
	return out
}
