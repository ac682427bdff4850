package planner

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
)

// anchorBuilder makes the program of a rewritten graph with anchors at given places, by the same
// rules as recompute.Apply writes it.
type anchorBuilder struct {
	*anchorSearch
	out     live.Program
	anchors []recompute.Anchor
	alias   []graph.ValueID       // by value of the program: the view through which it is read, or itself
	min     graph.ValueID         // that the last anchor waits by
	readers []int32               // by value: readers in the present stretch
	stamp   []int32               // by value: one past the stretch in which it was anchored
	covered []bool                // by step: it waits for the anchor at the start of its stretch
	late    []int32               // by value of the graph: one past the stretch in which what makes it is followed by a view of the anchor
	zeros   map[int]graph.ValueID // of the last anchor, by rank
}

func newAnchorBuilder(a *anchorSearch) *anchorBuilder {
	n := len(a.program.Bytes)
	return &anchorBuilder{anchorSearch: a, alias: make([]graph.ValueID, n), readers: make([]int32, n), stamp: make([]int32, n), covered: make([]bool, len(a.step)), late: make([]int32, len(a.p.Model.Graph.Values))}
}

// build places an anchor at every place where it holds something back. The places ascend.
func (b *anchorBuilder) build(places []int32) {
	b.out.Steps, b.out.Outputs = b.out.Steps[:0], b.program.Outputs
	b.out.Bytes, b.out.Persistent = append(b.out.Bytes[:0], b.program.Bytes...), append(b.out.Persistent[:0], b.program.Persistent...)
	b.anchors, b.min = nil, graph.NoValue
	for v := range b.alias {
		b.alias[v], b.stamp[v] = graph.ValueID(v), 0
	}
	clear(b.covered)
	clear(b.late)
	done, last := 0, 0 // steps that are built, and the first of the stretch of the last anchor
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
		sinks := b.sinks(last, start)
		if len(values) == 0 || len(sinks) == 0 && b.min == graph.NoValue {
			b.forget(values, serial)
			continue
		}
		b.anchor(place, sinks, values, start)
		last = start
	}
	b.keep(done, len(b.step))
}

// forget takes back what was chosen for an anchor that is not to be.
func (b *anchorBuilder) forget(values []graph.ValueID, serial int32) {
	for _, v := range values {
		b.stamp[v] = 0
		if b.late[b.origin[v]] == serial {
			b.late[b.origin[v]] = 0
		}
	}
}

// stepAt returns the first step from the given one on that stands at a place or behind it.
func (b *anchorBuilder) stepAt(place int32, from int) int {
	for from < len(b.places) && b.places[from] < place {
		from++
	}
	return from
}

// keep appends steps of the rewritten graph, which read through the anchors before them.
func (b *anchorBuilder) keep(from, to int) {
	for i := from; i < to; i++ {
		s := b.program.Steps[i]
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

// follow appends views of the late values that a step makes.
func (b *anchorBuilder) follow(i int) {
	for _, v := range b.program.Steps[i].Out {
		if v == graph.NoValue || b.origin[v] == graph.NoValue || b.late[b.origin[v]] != int32(len(b.anchors)) {
			continue
		}
		rank := b.p.Analysis.Graph.Values[b.origin[v]].Type.Shape.Rank()
		b.alias[v] = b.add(op.Reshape, b.program.Bytes[v], v, b.zeros[rank])
	}
}

// frontier chooses the values that must be read through an anchor at step start, so that the steps up to end wait for it: one
// for each that does not wait by another. A step that makes nothing of size need not wait.
func (b *anchorBuilder) frontier(start, end int, serial int32) []graph.ValueID {
	for i := start; i < end; i++ {
		for _, v := range b.program.Steps[i].In {
			if v != graph.NoValue {
				b.readers[v] = 0
			}
		}
	}
	for i := start; i < end; i++ {
		b.covered[i] = false
		if b.step[i].moves {
			for _, v := range b.program.Steps[i].In[:b.step[i].inputs] {
				if v != graph.NoValue {
					b.readers[v]++
				}
			}
		}
	}
	var out []graph.ValueID
	for i := start; i < end; i++ {
		if !b.step[i].moves {
			continue
		}
		b.covered[i] = b.waits(i, start, serial)
		if reshapes(b.program.Steps[i].Kind) {
			continue
		}
		out = b.kept(out, i, start, serial)
		if b.covered[i] = b.waits(i, start, serial); b.covered[i] || b.makes(i) < b.small {
			continue
		}
		if v := b.handle(i, start); v != graph.NoValue {
			out = b.choose(out, v, start, serial)
			b.covered[i] = true
		}
	}
	return out
}

// choose adds a value to those of an anchor.
func (b *anchorBuilder) choose(out []graph.ValueID, v graph.ValueID, start int, serial int32) []graph.ValueID {
	b.stamp[v] = serial
	if b.def[v] >= int32(start) {
		b.late[b.origin[v]] = serial
	}
	return append(out, v)
}

// reshapes reports whether ONNX Runtime joins an operator with a Reshape before it.
func reshapes(k graph.Kind) bool { return op.Of(k).View }

// ready reports whether a value can be read through an anchor at step start: it is there by then, or made by a view that does not
// wait for the anchor.
func (b *anchorBuilder) ready(v graph.ValueID, start int) bool {
	d := b.def[v]
	if d >= 0 && !b.activation(v) {
		return false
	}
	return d < int32(start) || b.step[d].moves && reshapes(b.program.Steps[d].Kind) && !b.covered[d]
}

// activation reports whether a value is, or shows, what a node has made: of views of weights the shapes must stay known, or runtimes would
// fuse other nodes than without anchors.
func (b *anchorBuilder) activation(v graph.ValueID) bool {
	for b.def[v] >= 0 {
		s := &b.program.Steps[b.def[v]]
		if !reshapes(s.Kind) || len(s.In) == 0 || s.In[0] == graph.NoValue {
			return !b.program.Persistent[v]
		}
		v = s.In[0]
	}
	return false
}

// kept adds the forward values of size that a step is the first to read: through an anchor their shapes are no longer known, and what is
// made of them does not take over buffers from the forward half, which would have to stay allocated until then.
func (b *anchorBuilder) kept(out []graph.ValueID, i, start int, serial int32) []graph.ValueID {
	g := b.p.Analysis.Graph
	for _, v := range b.program.Steps[i].In[:b.step[i].inputs] {
		if v == graph.NoValue || b.def[v] < 0 || b.def[v] >= int32(start) || b.step[b.def[v]].moves || b.alias[v] != v || b.stamp[v] == serial || b.program.Persistent[v] ||
			!b.loose(v) || !b.activation(v) || b.program.Bytes[v] < b.small || recompute.Anchorable(&g.Values[b.origin[v]]) != "" {
			continue
		}
		out = b.choose(out, v, start, serial)
	}
	return out
}

// waits reports whether a step reads through the anchor at step start or from a step that waits for it.
func (b *anchorBuilder) waits(i, start int, serial int32) bool {
	for slot, v := range b.program.Steps[i].In {
		if v == graph.NoValue {
			continue
		}
		if slot < b.step[i].inputs && b.stamp[v] == serial {
			return true
		}
		if d := b.def[v]; d >= int32(start) && b.covered[d] {
			return true
		}
	}
	return false
}

// makes is the size of the largest output of a step.
func (a *anchorSearch) makes(i int) int64 {
	var most int64
	for _, v := range a.program.Steps[i].Out {
		if v != graph.NoValue {
			most = max(most, a.program.Bytes[v])
		}
	}
	return most
}

// handle is the input of a step that an anchor at step start is best put on, or NoValue: of those that are there by
// then the one with the most readers, what a node has made before what the graph is given. Weights in the file are
// left alone: runtimes prepare them once for all steps.
func (b *anchorBuilder) handle(i, start int) graph.ValueID {
	g := b.p.Analysis.Graph
	best, bestScore := graph.NoValue, int32(-1)
	for _, v := range b.program.Steps[i].In[:b.step[i].inputs] {
		if v == graph.NoValue || b.origin[v] == graph.NoValue || !b.ready(v, start) || b.fuses(v) {
			continue
		}
		value := &g.Values[b.origin[v]]
		if value.IsInitializer() || recompute.Anchorable(value) != "" || b.def[v] < 0 && !value.Input {
			continue
		}
		score := b.readers[v]
		if b.def[v] >= 0 && !b.program.Persistent[v] {
			score += int32(len(b.step))
		}
		if score > bestScore {
			best, bestScore = v, score
		}
	}
	return best
}

// sinks lists a value of every step from last to start that makes something, or reads something, of size, and
// whose results no step before start reads. Of forward steps only those count whose input could be freed by
// start; where there are no others, all do.
func (b *anchorBuilder) sinks(last, start int) []graph.ValueID {
	var out, rest []graph.ValueID
	for i := last; i < start; i++ {
		if int(b.step[i].firstRead) < start || b.step[i].holds < b.small {
			continue
		}
		v := b.tensorOf(i)
		switch {
		case v == graph.NoValue || b.fuses(v):
		case b.step[i].moves || b.frees(i, start):
			out = append(out, v)
		default:
			rest = append(rest, v)
		}
	}
	if len(out) > 0 || last > 0 {
		return out
	}
	return rest
}

// fuses reports whether ONNX Runtime may make one Gemm, which rounds in another way, of the MatMul that makes a value and the Add
// that alone reads it. An anchor between the two would change the numbers.
func (a *anchorSearch) fuses(v graph.ValueID) bool {
	d := a.def[v]
	if d < 0 || a.program.Steps[d].Kind != op.MatMul || a.step[d].firstRead != a.step[d].lastRead {
		return false
	}
	return a.program.Steps[a.step[d].firstRead].Kind == op.Add
}

// frees reports whether a step reads a value of size that no step from start on needs, and that is larger than what the
// step makes of it, as the shape of an activation is read.
func (a *anchorSearch) frees(i, start int) bool {
	for _, v := range a.program.Steps[i].In {
		if v != graph.NoValue && !a.program.Persistent[v] && a.program.Bytes[v] >= a.small && a.program.Bytes[v] > a.makes(i) && int(a.lastUse[v]) < start {
			return true
		}
	}
	return false
}

// tensorOf is the first output of a step that Size can be asked of.
func (b *anchorBuilder) tensorOf(i int) graph.ValueID {
	g := b.p.Analysis.Graph
	for _, v := range b.program.Steps[i].Out {
		if v == graph.NoValue || b.origin[v] == graph.NoValue || b.program.Persistent[v] {
			continue
		}
		if g.Values[b.origin[v]].Type.Form == graph.FormTensor {
			return v
		}
	}
	return graph.NoValue
}

// anchor appends the steps of an anchor.
func (b *anchorBuilder) anchor(place int32, sinks, values []graph.ValueID, start int) {
	a := recompute.Anchor{Before: b.p.Analysis.Order[place]}
	var sizes []graph.ValueID
	if b.min != graph.NoValue {
		sizes = append(sizes, b.min)
	}
	for _, v := range sinks {
		a.Sinks = append(a.Sinks, b.origin[v])
		sizes = append(sizes, b.add(op.Size, 8, b.alias[v]))
	}
	b.wait(sizes)
	b.zeros = map[int]graph.ValueID{}
	var late []graph.ValueID
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
		if !slices.Contains(a.Late, b.origin[v]) {
			a.Late = append(a.Late, b.origin[v])
		}
	}
	b.anchors = append(b.anchors, a)
}

// zerosOf returns the zeros by which a value keeps its dims.
func (b *anchorBuilder) zerosOf(v graph.ValueID) graph.ValueID {
	rank := b.p.Analysis.Graph.Values[b.origin[v]].Type.Shape.Rank()
	zeros, ok := b.zeros[rank]
	if !ok {
		zeros = b.add(op.Mul, 8*int64(rank), b.min)
		b.zeros[rank] = zeros
	}
	return zeros
}

// wait combines the sizes as recompute.Apply does.
func (b *anchorBuilder) wait(sizes []graph.ValueID) {
	switch {
	case len(sizes) == 1:
		b.min = sizes[0]
	case b.p.Model.OpsetVersion("") >= 12:
		b.min = b.add(op.Min, 8, sizes...)
	default:
		b.min = b.add(op.Mul, 8, sizes[0])
		for _, size := range sizes[1:] {
			b.min = b.add(op.Mul, 8, b.min, size)
		}
	}
}

// add appends a step that makes one value.
func (b *anchorBuilder) add(kind graph.Kind, bytes int64, in ...graph.ValueID) graph.ValueID {
	out := graph.ValueID(len(b.out.Bytes))
	b.out.Bytes, b.out.Persistent = append(b.out.Bytes, bytes), append(b.out.Persistent, false)
	b.out.Steps = append(b.out.Steps, live.Step{Node: graph.NoNode, Kind: kind, In: in, Out: []graph.ValueID{out}})
	return out
}
