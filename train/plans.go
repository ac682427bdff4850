package train

import (
	"context"
	"errors"
	"fmt"

	"memopt"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/recompute"
	"memopt/symbolic"
	"memopt/train/checkpoint"
)

// Selection has the options for the plans of steps.
type Selection struct {
	Strategy memopt.Strategy
	Options  memopt.PlanOptions
	Traits   verify.Traits // of the engine
	Seed     int64         // of the rewrite
	// Moves let the values of steps that are planned to a budget move to the host.
	Moves memopt.MoveOptions
	// Moved is a plan file whose values move, in place of Strategy; nil: there is none. Random nodes have the seeds
	// of Seed, as without it.
	Moved *recompute.Record
	// Sizes says how often batches have which size of Steps.Ragged: steps that are planned to a budget have plans for
	// bands of these sizes, MostBands at most. Saved are such plans in place of Strategy. Without both, one plan is for
	// all sizes.
	Sizes     *planner.Histogram
	MostBands int
	Saved     []SavedBand
}

// PlanFileError says that a step and the plan file for it do not go together.
type PlanFileError struct{ Err error }

// Error is the text of Err.
func (e *PlanFileError) Error() string { return e.Err.Error() }

// Unwrap is Err.
func (e *PlanFileError) Unwrap() error { return e.Err }

// Plans are the steps of a job for a number of rows.
type Plans struct {
	Rows   int64
	Step   *Planned
	Update *Planned // nil if Step updates
	// Combine adds up the sums of several ranks; nil with one rank, or if Step does.
	Combine *Planned
	// Rest is Step for the last batch of an epoch, of fewer rows; nil if all batches have the same
	// rows.
	Rest *Planned
	// Bands are the plans of the step where sizes differ (Steps.Ragged), in ascending order; nil otherwise. The last
	// one is Step.
	Bands []Band
	// Persistent is the bytes of states, weights and constants, Inputs those of the inputs of a step.
	Persistent, Inputs int64
	// Home is the bytes of the files of Config.Home, with the states that Persistent then lacks.
	Home int64
}

// Planned is a model ready for execution.
type Planned struct {
	Plan *memopt.Plan // nil for a model without a backward half
	// Moving is the plan with values that move to the host, whose recomputations alone are Plan; nil: none may.
	Moving *memopt.Moving
	Side   verify.Side
	// Arena is the bytes of its planned layout, workspaces of the device included; 0 if it is known
	// only once the step is open.
	Arena int64
	eval  bool
}

// Plan plans the steps for batches of so many rows, the last one of rest rows, if any. The errors are
// those of memopt.Model.Plan.
func (s *Steps) Plan(ctx context.Context, rows, rest int64, sel Selection) (*Plans, error) {
	p := &Plans{Rows: rows}
	var err error
	if p.Persistent, p.Inputs, err = s.persistent(rows); err != nil {
		return nil, err
	}
	if s.Homed {
		if p.Home, err = s.HomeBytes(rows); err != nil {
			return nil, err
		}
	}
	if s.Ragged != "" {
		if p.Bands, err = s.planBands(ctx, rows, sel, p); err != nil {
			return nil, err
		}
		p.Step = p.Bands[len(p.Bands)-1].Planned
	} else if p.Step, err = s.planStepWithin(ctx, rows, rest, sel, p); err != nil {
		return nil, err
	}
	nothing := sel
	nothing.Strategy, nothing.Moved, nothing.Saved = nil, nil, nil
	for _, x := range []struct {
		m  *memopt.Model
		to **Planned
	}{{s.Update, &p.Update}, {s.Combine, &p.Combine}} {
		if x.m != nil {
			if *x.to, err = plan(ctx, s.sized(x.m, rows), nothing); err != nil {
				return nil, err
			}
		}
	}
	if rest > 0 && s.Ragged == "" { // else rows without a sample fill it up
		if p.Rest, err = plan(ctx, s.sized(s.Step, rest), nothing); err != nil {
			return nil, err
		}
		if p.Rest.Arena > p.Step.Arena {
			p.Rest, err = s.planStep(ctx, rest, sel, p)
		}
	}
	return p, err
}

// PlanEval plans evaluation with batches of so many rows.
func (s *Steps) PlanEval(rows int64) *Planned {
	m := s.sized(s.Eval, rows)
	return &Planned{Side: verify.Side{Model: m.Model, Types: m.Types, Dims: m.Dims}, eval: true}
}

// stepShare is the part of the time that the search for the plan of the step has where the last batch
// of an epoch may need one, too.
const stepShare = 0.7

// planStepWithin is planStep in a part of the time where a step of rest rows is planned as well.
func (s *Steps) planStepWithin(ctx context.Context, rows, rest int64, sel Selection, p *Plans) (*Planned, error) {
	if rest > 0 {
		var done context.CancelFunc
		ctx, done = timelimit.Share(ctx, stepShare)
		defer done()
	}
	return s.planStep(ctx, rows, sel, p)
}

// planStep plans the step of a micro-batch. A budget for everything also counts the memory that
// persists between steps, such as the optimizer's state while gradients are accumulated.
func (s *Steps) planStep(ctx context.Context, rows int64, sel Selection, p *Plans) (*Planned, error) {
	m := s.sized(s.Step, rows)
	if b, ok := sel.Strategy.(memopt.Budget); ok && b.Total > 0 && s.Update != nil {
		own, err := persistentOf(m)
		if err != nil {
			return nil, err
		}
		beside := max(p.Persistent+p.Inputs-own, 0)
		if b.Total <= beside {
			return nil, &planner.InfeasibleError{
				Budget: b.Total - p.Persistent - p.Inputs, Persistent: p.Persistent + p.Inputs,
			}
		}
		b.Total -= beside
		sel.Strategy = b
	}
	return plan(ctx, m, sel)
}

// stateBytes is the bytes of all states.
func (s *Steps) stateBytes(rows int64) (sum int64, err error) {
	for i := range s.States {
		n, err := s.States[i].bytes(s.dims(rows))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// bytes is the size of a state.
func (s *State) bytes(env symbolic.Env) (int64, error) {
	n, err := s.Type.Bytes().Eval(env)
	if err != nil {
		return 0, fmt.Errorf("state %q: %w", s.Name, err)
	}
	return n, nil
}

// HomeBytes is the size of the files that the states of a job lie in, twice (Config.Home).
func (s *Steps) HomeBytes(rows int64) (int64, error) {
	weights, others, err := s.homeEntries(rows)
	if err != nil {
		return 0, err
	}
	return checkpoint.HomeBytes(weights, others)
}

// plan plans a model and rewrites it if there is anything to recompute.
func plan(ctx context.Context, m *memopt.Model, sel Selection) (*Planned, error) {
	o := sel.Options
	o.Device = sel.Traits.Device
	if o.Device == nil && o.Profile != nil && o.Profile.Name == "cpu" {
		o.Device = cpu.Device{}
	}
	if sel.Moved != nil {
		return followMoves(ctx, m, o, sel)
	}
	if b, ok := sel.Strategy.(memopt.Budget); ok && sel.Moves.Asked() {
		return planMoves(ctx, m, b, o, sel)
	}
	p, err := m.Plan(ctx, sel.Strategy, o)
	if err != nil {
		return nil, err
	}
	out := &Planned{Plan: p}
	if p.Arena != nil {
		out.Arena = p.Arena.Bytes
	}
	x := p.Execution()
	rewrite := memopt.RewriteOptions{Stock: sel.Traits.Reorders, Seed: sel.Seed}
	if sel.Traits.Reorders && p.Rewrites() {
		if rewrite.Anchors, err = p.Anchor(); err != nil {
			return nil, err
		}
	}
	if p.Rewrites() {
		r, err := p.Rewrite(rewrite)
		if err != nil {
			return nil, err
		}
		if x, err = r.Execution(); err != nil {
			return nil, err
		}
	}
	out.Side = x.Planned
	return out, nil
}

// planMoves plans a model whose values may move to the host.
func planMoves(ctx context.Context, m *memopt.Model, b memopt.Budget, o memopt.PlanOptions,
	sel Selection) (*Planned, error) {
	moves := sel.Moves
	moves.Seed = sel.Seed
	p, err := m.PlanMoves(ctx, b, o, moves)
	if err != nil {
		return nil, err
	}
	return moving(m, p)
}

// followMoves plans a model as a plan file whose values move says.
func followMoves(ctx context.Context, m *memopt.Model, o memopt.PlanOptions, sel Selection) (*Planned, error) {
	r, moved := *sel.Moved, *sel.Moved.MovedRecord
	r.Seed, moved.Seeds, r.MovedRecord = sel.Seed, nil, &moved
	p, err := m.MovingOf(timelimit.Without(ctx), &r, o)
	if err != nil {
		var known *memopt.Error
		if ctx.Err() == nil && !errors.As(err, &known) {
			err = &PlanFileError{err}
		}
		return nil, err
	}
	return moving(m, p)
}

// moving is a plan with moves, ready for execution.
func moving(m *memopt.Model, p *memopt.Moving) (*Planned, error) {
	types, err := op.InferAsIs(p.Model)
	if err != nil {
		return nil, err
	}
	return &Planned{Plan: p.Plan, Moving: p, Arena: p.Arena, Side: verify.Side{Model: p.Model, Types: types,
		Order: graph.FileOrder(p.Model.Graph), Dims: m.Dims}}, nil
}

// persistent is the bytes of the states, which persist between steps, and of a step's inputs; without states that have
// a home.
func (s *Steps) persistent(rows int64) (states, inputs int64, err error) {
	env := s.dims(rows)
	given := map[string]bool{}
	if !s.Homed {
		if states, err = s.stateBytes(rows); err != nil {
			return 0, 0, err
		}
	}
	for i := range s.States {
		given[s.States[i].Name] = true
	}
	for _, v := range s.Inputs {
		n, err := s.Step.Graph.Values[v].Type.Bytes().Eval(env)
		if errors.Is(err, symbolic.ErrUnknown) {
			continue // texts, and values without a shape: as in a plan, 0 bytes
		}
		if err != nil {
			return 0, 0, fmt.Errorf("input %q: %w", s.Step.Graph.ValueName(v), err)
		}
		inputs += n
	}
	for i := range s.Step.Graph.Values {
		val := &s.Step.Graph.Values[i]
		if val.Data != nil && !given[s.Step.Graph.ValueName(graph.ValueID(i))] {
			if n, err := val.Type.Bytes().Eval(env); err == nil {
				states += n
			}
		}
	}
	return states, inputs, nil
}

// Stays is the bytes that are there throughout a job with so many rows, and those of a step's inputs; without states
// that have a home.
func (s *Steps) Stays(rows int64) (int64, error) {
	stay, inputs, err := s.persistent(rows)
	return stay + inputs, err
}

// persistentOf is the bytes of inputs and weights of a model.
func persistentOf(m *memopt.Model) (int64, error) {
	sizes, err := live.EvalSizes(m.Graph, m.Dims)
	if err != nil {
		return 0, err
	}
	return live.PersistentBytes(m.Graph, sizes)
}

// Arena is the bytes of the largest arena of all steps: only one is in use at a time.
func (p *Plans) Arena() int64 {
	most := int64(0)
	for _, x := range []*Planned{p.Step, p.Update, p.Combine, p.Rest} {
		if x != nil {
			most = max(most, x.Arena)
		}
	}
	for _, b := range p.Bands {
		most = max(most, b.Arena)
	}
	return most
}

// Host is the bytes on the host of the step whose values take most there: only one is in use at a time.
func (p *Plans) Host() int64 {
	most := int64(0)
	for _, x := range []*Planned{p.Step, p.Rest} {
		if x != nil && x.Moving != nil {
			most = max(most, x.Moving.HostArena)
		}
	}
	return most
}

// Total is the memory of the job: states, inputs and the largest arena.
func (p *Plans) Total() int64 { return p.Persistent + p.Inputs + p.Arena() }
