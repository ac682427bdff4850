package planner

import (
	"context"
	"fmt"

	"memopt/planner/arena"
	"memopt/symbolic"
)

// Switch lays out an arena of one size at the bindings of each step, by the first of some plans that fits there. It is
// for steps whose sizes differ in several symbols, such as the tokens of each expert, where their sum differs little:
// then the arena does as well, while bounds for each symbol alone would be far above it.
type Switch struct {
	// Arena is the bytes that no layout is above.
	Arena int64
	plans []*programs
}

// Fitted is a layout at the bindings of a step.
type Fitted struct {
	Plan   int   // its number among those of the switch
	Live   int64 // peak of live bytes
	Layout *arena.Layout
}

// NewSwitch makes a switch among plans of one graph for an arena: plans in the sequence of preference, the fastest
// first. Their options say the order and the bindings of symbols that steps do not bind.
func NewSwitch(size int64, plans ...*Plan) (*Switch, error) {
	s := &Switch{Arena: size}
	for _, p := range plans {
		q, err := p.programs()
		if err != nil {
			return nil, err
		}
		s.plans = append(s.plans, q)
	}
	return s, nil
}

// At lays out the arena at bindings. The error is an ErrInfeasible that names the bindings if no plan fits, before a
// step has run.
func (s *Switch) At(ctx context.Context, env symbolic.Env) (*Fitted, error) {
	least := int64(0)
	for i, q := range s.plans {
		program, _, err := q.at(q.plan.Order, q.bindings(env), nil)
		if err != nil {
			return nil, err
		}
		t, err := program.Simulate()
		if err != nil {
			return nil, err
		}
		l := arena.FirstLayout(ctx, t, program.Bytes, s.Arena)
		if l.Bytes <= s.Arena {
			return &Fitted{i, t.Peak.Bytes, l}, nil
		}
		if least == 0 || l.Bytes < least {
			least = l.Bytes
		}
	}
	return nil, fmt.Errorf("%w: at %v none of %d plans fits an arena of %d bytes; the smallest is %d", ErrInfeasible,
		env, len(s.plans), s.Arena, least)
}
