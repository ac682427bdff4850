package live

import (
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// sharing is a simulation's data on parts (Step.Slices): which values lie in the buffer of another
// one at some byte of it.
//
// An output that is a part of input 0 is a view of it: the whole buffer lives as long as one of the
// parts. An input that is a part of output 0 is written into that output's buffer when it is made:
// the whole buffer lives from the first of these parts on. This saves the copy, but may keep bytes
// live before their first use or after their last. So the simulation runs with all parts shared
// first. While it peaks at a step with such bytes, it runs again without the parts that cause them.
// The round with the lowest peak counts, among equals the one that shares most; if copying all
// parts peaks lower still, that.
//
// A declined part is copied, as if it were a value of its own. IDs in lists are stored plus 1, so
// that reused memory need only be cleared.
type sharing struct {
	on       bool            // the program has parts
	shown    []graph.ValueID // by value: the value that it shows whole, through views
	maker    []int32         // by value: one past the step that makes it
	family   []graph.ValueID // by value: towards the one that stands for all that may share with it
	fixed    []bool          // by that one: one of them is persistent, on the host, or may lie in a state's buffer
	exempt   []bool          // by shown value: an operator updates it, or it is the next value of a state
	states   []bool          // by value: it is the input of a state, which has its next value in the end
	declined []uint8         // by value: the kind of sharing that is declined
	kept     []uint8         // declined, where the peak was lowest
	start    []int64         // Timeline.Start
	keep     []int32         // by value: one past the last step that needs it or a part that shows it
	into     []graph.ValueID // by value: in whose buffer it is written, plus 1
	intoAt   []int64         // by value: its first byte there
	first    []graph.ValueID // by root: the list of the values in its buffer, plus 1
	next     []graph.ValueID
	parted   []bool  // by root: some value in its buffer is smaller than the buffer
	shared   int     // how many values share as parts
	most     []int64 // by family, at the step of stamp: the largest of its values
	stamp    []int32
	filled   []int64 // by whole: bytes of parts that are made
}

// Kinds of sharing that are declined.
const (
	asCut  uint8 = 1 << iota // a part of the value that it was cut from
	asPart                   // a part of the value that it is joined to
)

// declineRounds bounds the simulations without the parts that cause its peak. Training graphs need
// one or two.
const declineRounds = 8

// hasSlices reports whether steps of the program have parts.
func (p *Program) hasSlices() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Slices != nil })
}

// best simulates a program with those parts shared that do not cause its peak; with all copied if
// that has a lower peak.
func (s *simulation) best(p *Program) (*Timeline, error) {
	q := &s.share
	q.prepare(p)
	q.declineAll()
	s.begin(p)
	s.noteHeirs()
	t, err := s.steps()
	if err != nil {
		return nil, err
	}
	copied, lowest := t.Peak.Bytes, int64(math.MaxInt64)
	s.noteRound(t)
	clear(q.declined)
	for round, more := 0, true; more; round++ {
		s.begin(p)
		if t, err = s.steps(); err != nil {
			return nil, err
		}
		s.noteRound(t)
		if t.Peak.Bytes < lowest {
			lowest = t.Peak.Bytes
			q.kept = append(q.kept[:0], q.declined...)
		}
		if q.shared == 0 || lowest == t.LowerBound {
			break
		}
		more = round < declineRounds && s.decline()
	}
	if lowest <= copied && slices.Equal(q.kept, q.declined) {
		return t, nil
	}
	if copy(q.declined, q.kept); lowest > copied {
		q.declineAll()
	}
	s.begin(p)
	return s.steps()
}

// noteHeirs marks the families of values that may lie in the buffer of a state.
func (s *simulation) noteHeirs() {
	for v := range s.p.Bytes {
		if id := graph.ValueID(v); s.heir(id) {
			s.share.fixed[s.share.of(id)] = true
		}
	}
}

func (q *sharing) declineAll() {
	for v := range q.declined {
		q.declined[v] = asCut | asPart
	}
}

// prepare computes the data that do not depend on which parts share.
func (q *sharing) prepare(p *Program) {
	n := len(p.Bytes)
	q.on = true
	q.shown, q.family = zeroed(q.shown, n), zeroed(q.family, n)
	q.maker, q.exempt, q.fixed = zeroed(q.maker, n), zeroed(q.exempt, n), zeroed(q.fixed, n)
	q.declined = zeroed(q.declined, n)
	q.most, q.filled = zeroed(q.most, n), zeroed(q.filled, n)
	for v := range q.shown {
		q.shown[v], q.family[v] = graph.ValueID(v), graph.ValueID(v)
	}
	for i := range p.Steps {
		step := &p.Steps[i]
		for _, v := range step.Out {
			if v != graph.NoValue {
				q.maker[v] = int32(i) + 1
			}
		}
		if src, out := step.viewSource(), step.Output0(); src != graph.NoValue && out != graph.NoValue {
			q.shown[out] = q.shown[src]
		}
		for _, slot := range op.Of(step.Kind).Mutates {
			if v := step.Input(slot); v != graph.NoValue {
				q.exempt[q.shown[v]] = true
			}
		}
	}
	q.states = zeroed(q.states, n)
	for _, st := range p.States {
		q.exempt[q.shown[st.Out]], q.states[st.In] = true, true
	}
	for v := range q.shown {
		q.unite(graph.ValueID(v), q.shown[v])
	}
	for i := range p.Steps {
		step := &p.Steps[i]
		eachPart(step, func(slot int, part, whole graph.ValueID) {
			if q.mayCut(p, step, slot) || q.mayJoin(p, step, slot) {
				q.unite(part, whole)
			}
		})
	}
	for v := range q.shown {
		if p.Persistent[v] {
			q.fixed[q.of(graph.ValueID(v))] = true
		}
	}
	for i := range p.Steps {
		step := &p.Steps[i]
		if out := step.Output0(); out != graph.NoValue && op.Of(step.Kind).Transfer == op.ToHost {
			q.fixed[q.of(out)] = true // it lies in no arena of the device
		}
	}
}

// eachPart calls f for the parts of a step, with their slot among the outputs or inputs.
func eachPart(step *Step, f func(slot int, part, whole graph.ValueID)) {
	if step.Slices == nil || step.Memory != AsKind {
		return
	}
	list, whole := step.Out, step.Input(0)
	if step.Slices.Join {
		list, whole = step.In, step.Output0()
	}
	for slot, at := range step.Slices.At {
		if at >= 0 && slot < len(list) && list[slot] != graph.NoValue && whole != graph.NoValue {
			f(slot, list[slot], whole)
		}
	}
}

// of returns the value that stands for the family of v.
func (q *sharing) of(v graph.ValueID) graph.ValueID {
	for q.family[v] != v {
		q.family[v] = q.family[q.family[v]]
		v = q.family[v]
	}
	return v
}

func (q *sharing) unite(v, w graph.ValueID) { q.family[q.of(v)] = q.of(w) }

// fits reports whether a part and its whole have known sizes that agree with its place.
func (p *Program) fits(part, whole graph.ValueID, at int64) bool {
	return p.Bytes[part] > 0 && p.Bytes[whole] > 0 && at <= p.Bytes[whole]-p.Bytes[part]
}

// mayCut reports whether output slot of a step may be a view of a part of input 0.
func (q *sharing) mayCut(p *Program, step *Step, slot int) bool {
	if step.Slices.Join {
		return false
	}
	src, out := step.In[0], step.Out[slot]
	return !p.Persistent[out] && p.fits(out, src, step.Slices.At[slot]) &&
		!q.exempt[q.shown[src]] && !q.exempt[out]
}

// mayJoin reports whether input slot of a step, or the value that it shows whole, may be written
// into output 0 when it is made.
func (q *sharing) mayJoin(p *Program, step *Step, slot int) bool {
	if !step.Slices.Join {
		return false
	}
	in, whole := step.In[slot], step.Out[0]
	return !p.Persistent[whole] && p.fits(in, whole, step.Slices.At[slot]) && !q.exempt[whole] &&
		q.mayLie(p, q.shown[in], p.Bytes[in])
}

// mayLie reports whether a value of that many bytes may be written wherever it is wanted.
func (q *sharing) mayLie(p *Program, v graph.ValueID, bytes int64) bool {
	if p.Persistent[v] || q.maker[v] == 0 || q.exempt[v] || p.Bytes[v] != bytes {
		return false
	}
	info := op.Of(p.Steps[q.maker[v]-1].Kind)
	return !info.Has(op.Yield) && info.Control == op.NoControl && len(info.Mutates) == 0 &&
		info.Transfer == op.NoTransfer
}
