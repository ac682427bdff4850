package executor

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"

	"memopt/executor/small"
	"memopt/graph"
	"memopt/graph/op"
)

// NotFiniteError is the error of a value that must be finite (op.Watched) and is not, for example a
// loss that overflows. The step has written no state.
type NotFiniteError struct {
	Value string
	Node  string  // the label of the node that made it
	Index int     // of the first element that is not finite
	Elem  float64 // that element: a NaN or an infinity
}

func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("node %q: value %q is %v at element %d; it must be finite",
		e.Node, e.Value, e.Elem, e.Index)
}

// NotFinite returns the place of the first element of a tensor of floats that is a NaN or an
// infinity, and the element; -1 if all are finite. It reads the tensor's data, which are in the
// host's memory.
func NotFinite(t *Tensor) (int, float64) {
	switch t.DType {
	case graph.Float32:
		return firstBad(Of[uint32](t), 0x7f80_0000, func(x uint32) float64 {
			return float64(math.Float32frombits(x))
		})
	case graph.Float64:
		return firstBad(Of[uint64](t), 0x7ff0_0000_0000_0000, math.Float64frombits)
	case graph.Float16:
		return firstBad(Of[uint16](t), 0x7c00, func(x uint16) float64 { return special(x, 0x7c00) })
	case graph.BFloat16:
		return firstBad(Of[uint16](t), 0x7f80, func(x uint16) float64 { return special(x, 0x7f80) })
	}
	if t.DType.Bits() == 8 && t.DType.IsFloat() {
		values := small.Values(t.DType)
		for i, code := range t.Data {
			if x := float64(values[code]); math.IsNaN(x) || math.IsInf(x, 0) {
				return i, x
			}
		}
	}
	return -1, 0
}

// Bad is a set of kinds of numbers that are not finite.
type Bad uint8

// The kinds.
const (
	NaN Bad = 1 << iota
	Plus
	Minus
)

// BadKinds returns the kinds of the elements that are not finite, 0 if all are finite. It reads the
// tensor's data, which are in the host's memory.
func BadKinds(t *Tensor) (kinds Bad) {
	rest := *t
	for {
		i, x := NotFinite(&rest)
		switch {
		case i < 0:
			return kinds
		case math.IsNaN(x):
			kinds |= NaN
		case x > 0:
			kinds |= Plus
		default:
			kinds |= Minus
		}
		rest.Data = rest.Data[(i+1)*rest.DType.Bits()/8:]
	}
}

// firstBad finds the first element all of whose exponent's bits are set.
func firstBad[T uint16 | uint32 | uint64](data []T, exponent T,
	value func(T) float64) (int, float64) {
	for i, x := range data {
		if x&exponent == exponent {
			return i, value(x)
		}
	}
	return -1, 0
}

// special is the number of 16 bits whose exponent's bits are all set.
func special(x, exponent uint16) float64 {
	const sign = 0x8000
	switch {
	case x&^sign != exponent:
		return math.NaN()
	case x&sign != 0:
		return math.Inf(-1)
	}
	return math.Inf(1)
}

// planWatch notes which steps make values that must be finite. On an accelerator no step is noted:
// a check would have to wait for the device.
func (f *frame) planWatch() error {
	watched, err := op.Watched(f.s.model)
	if err != nil || f.s.virtual || f.s.mem != (hostMemory{}) {
		return err
	}
	for _, v := range watched {
		for i := range f.steps {
			if st := &f.steps[i]; st.node.ID == f.g.Values[v].Def {
				st.watched = append(st.watched, int(f.g.Values[v].DefSlot))
			}
		}
	}
	return nil
}

// checkFinite looks at the outputs of a step that must be finite.
func (st *step) checkFinite() error {
	for _, slot := range st.watched {
		if i, x := NotFinite(st.out[slot]); i >= 0 {
			value := st.f.g.ValueName(st.node.Outputs[slot])
			return &NotFiniteError{Value: value, Node: st.prep.Label, Index: i, Elem: x}
		}
	}
	return nil
}

// Examine executes the step once more up to the first node that writes a state, as Run would, but
// node by node, and shows every value that a node makes, while its memory is valid, until show
// returns false. No state changes. On an accelerator values are copied to the host for it.
func (s *Session) Examine(ctx context.Context, show func(v graph.ValueID, t *Tensor) bool) error {
	if err := s.hold(); err != nil {
		return err
	}
	f := s.root
	s.forget()
	f.release()
	s.outputs, s.fetched.done = nil, false
	s.refresh()
	f.step = s.run
	if s.mover != nil {
		s.mover.done = ctx.Done()
	}
	more := true
	probe := s.opts.Probe
	s.opts.Probe = func(v graph.ValueID, t *Tensor) { more = more && show(v, t) }
	defer func() { s.opts.Probe = probe }()
	err := s.guardedExamine(ctx, &more)
	s.mover.drain() // the steps may have ended before a copy has
	if e := s.mem.Sync(); err == nil {
		err = e
	}
	f.release()
	return err
}

// guardedExamine runs the steps of Examine. A file of weights that changes is an error.
func (s *Session) guardedExamine(ctx context.Context, more *bool) (err error) {
	defer catch(&err, debug.SetPanicOnFault(true))
	f := s.root
	f.live, f.livePeak, f.high = 0, 0, 0
	for i := range f.steps {
		st := &f.steps[i]
		if i >= s.states.first || f.updates(st) || !*more {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if st.kernel == nil { // a constant
			if err := st.named(f.probe(st)); err != nil {
				return err
			}
			continue
		}
		watched := st.watched
		st.watched = nil // they are shown
		err := f.runStep(ctx, i, st)
		st.watched = watched
		if err != nil {
			return err
		}
	}
	return nil
}

// updates reports whether a step writes to an input that outlives it.
func (f *frame) updates(st *step) bool {
	for _, slot := range st.prep.Info.Mutates {
		if st.node.Input(slot) != graph.NoValue {
			return true
		}
	}
	return false
}
