package xla

import (
	"fmt"
	"slices"

	"memopt/graph/hlo"
)

// isEarly reports whether a module is from before XLA's optimizations: no instruction is fused and none is scheduled.
func isEarly(m *hlo.Module) bool {
	if m.Scheduled {
		return false
	}
	for _, c := range m.Computations {
		for i := range c.Instructions {
			if c.Instructions[i].Opcode == "fusion" {
				return false
			}
		}
	}
	return true
}

// maxInlined bounds the instructions of a module with those of its calls in place, beside as many as it has.
const maxInlined = 100_000

// inline returns a module whose computations have the instructions of those that they call in place of calls
// (xla/service/call_inliner.cc). It shares the rest with m. Calls in calls may make more of them than the bounds allow;
// then the module stays as it is.
func inline(m *hlo.Module) (*hlo.Module, error) {
	out := *m
	out.Computations = slices.Clone(m.Computations)
	w := &inliner{m: &out, left: m.Instructions() + maxInlined}
	for k, c := range m.Computations { // callees before their callers
		if !slices.ContainsFunc(c.Instructions, isInlined) {
			continue
		}
		w.to = &hlo.Computation{Name: c.Name}
		at, err := w.all(c, nil)
		if err != nil {
			return nil, fmt.Errorf("computation %q: %w", c.Name, err)
		}
		if w.left < 0 {
			out.Computations = m.Computations
			return &out, nil
		}
		w.to.Root = at[c.Root]
		out.Computations[k] = w.to
	}
	return &out, nil
}

func isInlined(in hlo.Instruction) bool { return in.Opcode == "call" && len(in.Called) == 1 }

// inliner writes a computation with the instructions of its callees.
type inliner struct {
	m    *hlo.Module
	to   *hlo.Computation
	left int // instructions that may still be written
}

// all copies a computation and returns where its instructions are. arguments are the places of its parameters' values;
// nil copies the parameters, too.
func (w *inliner) all(c *hlo.Computation, arguments []int32) ([]int32, error) {
	at := make([]int32, len(c.Instructions))
	for i := range c.Instructions {
		in := c.Instructions[i]
		if in.Opcode == "parameter" && arguments != nil {
			if in.Number < 0 || in.Number >= int64(len(arguments)) {
				return nil, fmt.Errorf("instruction %q: is parameter %d of a call with %d operands", in.Name, in.Number,
					len(arguments))
			}
			at[i] = arguments[in.Number]
			continue
		}
		operands := make([]int32, len(in.Operands))
		for k, o := range in.Operands {
			operands[k] = at[o]
		}
		if isInlined(in) {
			callee := w.m.Computations[in.Called[0]] // its own calls are gone
			inner, err := w.all(callee, operands)
			if err != nil {
				return nil, err
			}
			at[i] = inner[callee.Root]
			continue
		}
		if w.left--; w.left < 0 {
			return at, nil
		}
		in.Operands = operands
		at[i] = int32(len(w.to.Instructions))
		w.to.Instructions = append(w.to.Instructions, in)
	}
	return at, nil
}
