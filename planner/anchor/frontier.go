package anchor

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
)

// frontier chooses the values that must be read through an anchor at step start, so that the steps
// up to end wait for it: one for each step that does not already wait through another. A step
// without large outputs need not wait.
func (b *builder) frontier(start, end int, serial int32) []graph.ValueID {
	for i := start; i < end; i++ {
		for _, v := range b.program.Steps[i].In {
			if v != graph.NoValue {
				b.readers[v] = 0
			}
		}
	}
	for i := start; i < end; i++ {
		b.covered[i] = false
		if b.step[i].follows {
			for _, v := range b.program.Steps[i].In[:b.step[i].inputs] {
				if v != graph.NoValue {
					b.readers[v]++
				}
			}
		}
	}
	var out []graph.ValueID
	b.looked += end - start
	for i := start; i < end; i++ {
		if !b.step[i].follows || b.copiesResult(&b.program.Steps[i]) {
			continue
		}
		b.covered[i] = b.waits(i, start, serial)
		if ortsim.Shows(b.program.Steps[i].Kind) {
			continue
		}
		out = b.kept(out, i, start, serial)
		if b.covered[i] = b.waits(i, start, serial); b.covered[i] || b.makes(i) < b.small {
			continue
		}
		if v := b.handle(i, start); v != graph.NoValue {
			out = b.choose(out, v, serial)
			b.covered[i] = true
		}
	}
	return out
}

// choose adds a value to those of an anchor.
func (b *builder) choose(out []graph.ValueID, v graph.ValueID, serial int32) []graph.ValueID {
	b.stamp[v] = serial
	return append(out, v)
}

// ready reports whether a value can be read through an anchor at step start: it is there by then,
// or made by a view that does not wait for the anchor.
func (b *builder) ready(v graph.ValueID, start int) bool {
	d := b.def[v]
	if d >= 0 && !b.activation(v) {
		return false
	}
	if d < int32(start) {
		return b.version[b.origin[v]] == v // forward nodes may read a value that has a clone by then
	}
	return b.step[d].follows && ortsim.Shows(b.program.Steps[d].Kind) && !b.covered[d]
}

// activation reports whether a value is, or shows, the output of a node: the shapes of views of
// weights must stay known, or runtimes would fuse other nodes than without anchors.
func (b *builder) activation(v graph.ValueID) bool { return b.active[v] }

// shows computes that for a step's output, from its operands.
func (a *search) shows(v graph.ValueID, s *live.Step) bool {
	if !ortsim.Shows(s.Kind) || len(s.In) == 0 || s.In[0] == graph.NoValue {
		return !a.program.Persistent[v]
	}
	return a.active[s.In[0]]
}

// kept adds the large forward values whose first reader is this step: through an anchor their
// shapes are no longer known, and its outputs do not take over buffers from the forward half, which
// would have to stay allocated until then.
func (b *builder) kept(out []graph.ValueID, i, start int, serial int32) []graph.ValueID {
	g := b.g
	if !b.step[i].moves {
		return out
	}
	for _, v := range b.program.Steps[i].In[:b.step[i].inputs] {
		if v == graph.NoValue || b.def[v] < 0 || b.def[v] >= int32(start) || b.step[b.def[v]].moves ||
			b.alias[v] != v || b.stamp[v] == serial || b.program.Persistent[v] ||
			!b.loose(v) || !b.activation(v) || b.program.Bytes[v] < b.small ||
			recompute.Anchorable(&g.Values[b.origin[v]]) != "" {
			continue
		}
		out = b.choose(out, v, serial)
	}
	return out
}

// waits reports whether a step reads through the anchor at step start or from a step that waits for
// it.
func (b *builder) waits(i, start int, serial int32) bool {
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
func (a *search) makes(i int) int64 {
	var most int64
	for _, v := range a.program.Steps[i].Out {
		if v != graph.NoValue {
			most = max(most, a.program.Bytes[v])
		}
	}
	return most
}

// handle is the best input of a step for an anchor at step start, or NoValue: among those that are
// there by then the one with the most readers, outputs of nodes before inputs of the graph. Weights
// in the file are left alone: runtimes prepare them once for all steps.
func (b *builder) handle(i, start int) graph.ValueID {
	g := b.g
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

// sinks lists a value of every step from last to start that makes, or reads, a large value, and
// whose results no step before start reads. Forward steps count only if their input could be freed
// by start, unless there are no other steps.
func (b *builder) sinks(last, start int) []graph.ValueID {
	var out, rest []graph.ValueID
	b.looked += start - last
	for i := last; i < start; i++ {
		if int(b.step[i].firstRead) < start || b.step[i].holds < b.small {
			continue
		}
		v := b.tensorOf(i)
		switch {
		case v == graph.NoValue || b.fuses(v):
		case b.step[i].follows || b.frees(i, start):
			out = append(out, v)
		default:
			rest = append(rest, v)
		}
	}
	if len(out) > 0 || b.emitter.Waits() {
		return out
	}
	return rest
}

// fuses reports whether ONNX Runtime may make one Gemm of the node that makes a value and the node
// that alone reads it. An anchor between the two would change the numbers.
func (a *search) fuses(v graph.ValueID) bool {
	d := a.def[v]
	if d < 0 || a.step[d].firstRead != a.step[d].lastRead {
		return false
	}
	reader := a.step[d].firstRead
	return int(reader) < len(a.step) && ortsim.MergesIntoGemm(a.program.Steps[d].Kind, a.program.Steps[reader].Kind)
}

// frees reports whether a step reads a large value that no step from start on needs, and that is
// larger than the step's output, as for a Shape of an activation.
func (a *search) frees(i, start int) bool {
	for _, v := range a.program.Steps[i].In {
		if v != graph.NoValue && !a.program.Persistent[v] && a.program.Bytes[v] >= a.small &&
			a.program.Bytes[v] > a.makes(i) && int(a.lastUse[v]) < start {
			return true
		}
	}
	return false
}

// tensorOf is the first output of a step that Size can be asked of.
func (b *builder) tensorOf(i int) graph.ValueID {
	g := b.g
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
