package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt"
	"memopt/executor"
	"memopt/hint"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/train/data"
)

// Band is the plan of Steps.Step for the sizes of Steps.Ragged from Lo to Hi, both included.
type Band struct {
	Lo, Hi int64
	*Planned
}

// SavedBand is a plan for a band of sizes that exists, for example that of a plan file.
type SavedBand struct {
	Lo, Hi   int64
	Strategy memopt.Strategy
}

// Vary makes a symbol one whose size differs from batch to batch, from least to its binding. The error says why it
// cannot be: it is unbound, counts the samples, or is in no input for data.
func (s *Steps) Vary(symbol string, least int64) error {
	most, bound := s.Step.Dims[symbol]
	switch {
	case !bound || least < 1 || least > most:
		return callerError("sizes of %q from %d to %d: wanted a range from 1 or more", symbol, least, most)
	case slices.Contains(s.batches(), symbol):
		return callerError("%q counts the samples of a batch, whose size is that of all batches: wanted a symbol of a "+
			"later dim", symbol)
	case !s.isLater(symbol):
		return callerError("%q is a dim of no input for data: wanted one whose size follows from the data", symbol)
	}
	s.Ragged, s.Least = symbol, least
	return nil
}

// sizedAt is sized at another size of Ragged.
func (s *Steps) sizedAt(m *memopt.Model, rows, size int64) *memopt.Model {
	out := s.sized(m, rows)
	out.Dims[s.Ragged] = size
	return out
}

// at is a planned step at another size of Ragged.
func (s *Steps) at(p *Planned, size int64) *Planned {
	out := *p
	out.Side.Dims = maps.Clone(p.Side.Dims)
	out.Side.Dims[s.Ragged] = size
	return &out
}

// bandSearches is how many searches of the plans for bands share the effort.
const bandSearches = 20

// planBands plans the step for all sizes of Ragged, in bands.
func (s *Steps) planBands(ctx context.Context, rows int64, sel Selection, p *Plans) ([]Band, error) {
	if sel.Moves.Asked() || sel.Moved != nil {
		return nil, callerError("a step of different sizes of %s moves no values to the host: leave out %v", s.Ragged,
			hint.HostBudget)
	}
	most := s.Step.Dims[s.Ragged]
	saved := sel.Saved
	if b, ok := sel.Strategy.(memopt.Budget); ok && sel.Sizes != nil && len(saved) == 0 {
		var err error
		if saved, err = s.findBands(ctx, rows, b, sel, p); err != nil {
			return nil, err
		}
	}
	if len(saved) == 0 {
		step, err := s.planStep(ctx, rows, sel, p)
		return []Band{{s.Least, most, step}}, err
	}
	var list []Band
	for _, band := range saved {
		sel.Strategy = band.Strategy
		step, err := plan(ctx, s.sizedAt(s.Step, rows, band.Hi), sel)
		if err != nil {
			return nil, fmt.Errorf("the plan for %s=%d..%d: %w", s.Ragged, band.Lo, band.Hi, err)
		}
		list = append(list, Band{band.Lo, band.Hi, step})
	}
	return list, nil
}

// findBands looks for plans to a budget, for the arena alone, as inputs have room for the largest size throughout. The
// proofs of bands know no workspaces of kernels, so that room for the largest is set aside. If there are no plans then,
// it sets less aside, and looks whether they fit at each size with workspaces.
func (s *Steps) findBands(ctx context.Context, rows int64, b memopt.Budget, sel Selection, p *Plans) ([]SavedBand,
	error) {
	if b.Runtime || b.Clusters || len(b.StashLimits) > 0 {
		return nil, callerError("plans for bands of %s are to a budget of bytes alone", s.Ragged)
	}
	plain := sel
	plain.Strategy = nil
	base, err := plan(ctx, s.sized(s.Step, rows), plain)
	if err != nil {
		return nil, err
	}
	limit := b.Arena
	switch {
	case b.Total > 0:
		limit = b.Total - p.Persistent - p.Inputs
	case b.Share > 0:
		limit = int64(b.Share * float64(base.Plan.Base.Peak.Bytes))
	}
	if limit < 1 {
		return nil, &planner.InfeasibleError{Budget: limit, Persistent: p.Persistent + p.Inputs}
	}
	workspace := int64(0)
	for _, n := range base.Plan.Options.Workspace {
		workspace = max(workspace, n)
	}
	b.Total, b.Share = 0, 0
	b.Effort /= bandSearches
	for _, aside := range []int64{workspace, workspace / 2, 0} {
		b.Arena = max(limit-aside, 1)
		var list []SavedBand
		if list, err = s.bandsWithin(ctx, rows, b, sel); err == nil && aside < workspace {
			err = s.fitAt(ctx, rows, limit, sel, list)
		}
		if !errors.Is(err, planner.ErrInfeasible) {
			return list, err
		}
	}
	return nil, err
}

// bandsWithin are plans within an arena, without workspaces.
func (s *Steps) bandsWithin(ctx context.Context, rows int64, b memopt.Budget, sel Selection) ([]SavedBand, error) {
	m := s.sized(s.Step, rows)
	delete(m.Dims, s.Ragged)
	o := sel.Options
	o.Workspace, o.Device = nil, nil
	found, err := m.PlanBands(ctx, b, o, sel.Sizes, max(sel.MostBands, 1), 1)
	if err != nil {
		return nil, err
	}
	var list []SavedBand
	for _, band := range found.List {
		list = append(list, SavedBand{band.Lo, band.Hi, band.Plan.Saved()})
	}
	return list, nil
}

// fitAt looks whether plans fit an arena at each size, with workspaces; else the error is an ErrInfeasible.
func (s *Steps) fitAt(ctx context.Context, rows, limit int64, sel Selection, list []SavedBand) error {
	for _, band := range list {
		sel.Strategy = band.Strategy
		for _, l := range sel.Sizes.Lengths {
			if l.Size < band.Lo || l.Size > band.Hi {
				continue
			}
			p, err := plan(timelimit.Without(ctx), s.sizedAt(s.Step, rows, l.Size), sel)
			if err != nil {
				return err
			}
			if p.Arena > limit {
				return fmt.Errorf("%w: at %s=%d the arena takes %d bytes with the workspaces of kernels, and %d are "+
					"to be enough", planner.ErrInfeasible, s.Ragged, l.Size, p.Arena, limit)
			}
		}
	}
	return nil
}

// band is the plan for a size.
func (j *job) band(size int64) (*Planned, error) {
	var known []string
	for _, b := range j.Plans.Bands {
		if b.Lo <= size && size <= b.Hi {
			return j.Steps.at(b.Planned, size), nil
		}
		known = append(known, fmt.Sprintf("%d..%d", b.Lo, b.Hi))
	}
	return nil, callerError("batches of %s=%d have no plan; there are plans for %s: make one for a range that holds "+
		"it, or bound the sizes with %v", j.Steps.Ragged, size, strings.Join(known, ", "), hint.Dims)
}

// openSizes opens the step at each size that batches may have.
func (j *job) openSizes(ctx context.Context) (err error) {
	switch doubt := j.Steps.Weights.Doubt; {
	case j.Steps.Ragged == "":
		return callerError("batches have different sizes: wanted steps that vary (Steps.Vary)")
	case j.Ranks != nil:
		return callerError("batches of different sizes are for one process: take blocks of one length (%v)",
			hint.Blocks)
	case doubt != "" && (j.Micros > 1 || j.Eval != nil):
		return callerError("%s: the mean over batches of different sizes needs the number of labels that count in "+
			"each: take blocks of one length (%v)", doubt, hint.Blocks)
	}
	j.sized, err = j.openEach(ctx, j.Order.Rungs, j.band)
	return err
}

// openEach opens a step at sizes, the largest first: it makes the arena.
func (j *job) openEach(ctx context.Context, sizes []int64, planned func(int64) (*Planned, error)) ([]*part, error) {
	list := make([]*part, len(sizes))
	for i, size := range slices.Backward(sizes) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, err := planned(size)
		if err != nil {
			return nil, err
		}
		if list[i], err = j.open(ctx, p); err != nil {
			return nil, fmt.Errorf("%s=%d: %w", j.Steps.Ragged, size, err)
		}
	}
	return list, nil
}

// ofSize is the part for a size among those of the order's rungs.
func ofSize(list []*part, o *data.Order, size int64) *part {
	i, _ := slices.BinarySearch(o.Rungs, size)
	return list[i]
}

// evalSizes is how many sizes batches of an evaluation may have. They are fewer than those of training, as each has a
// session of its own beside that of training.
const evalSizes = 8

// openEvalSizes opens the steps of evaluations of samples of different sizes.
func (j *job) openEvalSizes(ctx context.Context, e *evaluation) (err error) {
	e.order.Vary(j.Eval, j.Steps.Least, evalSizes)
	whole := j.Steps.PlanEval(int64(e.order.Batch))
	e.sized, err = j.openEach(ctx, e.order.Rungs, func(size int64) (*Planned, error) {
		return j.Steps.at(whole, size), nil
	})
	return err
}

// largest is the bytes of the largest arena of parts.
func largest(list []*part) (most executor.Prediction) {
	for _, x := range list {
		if x != nil {
			most.Arena, most.Host = max(most.Arena, x.Predicted().Arena), max(most.Host, x.Predicted().Host)
		}
	}
	return most
}
