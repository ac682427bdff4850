package planner

import (
	"context"
	"fmt"
	"slices"

	"memopt/planner/envelope"
	"memopt/symbolic"
)

// AssumedRange is the range of symbols for which the caller has given no range.
var AssumedRange = symbolic.Range{Lo: 1, Hi: 4096}

// lowerRanges are assumed one after the other where sizes are too large for numbers in the one before.
var lowerRanges = []int64{512, 64, 8}

// Formulas are the peaks of a plan without sizes, over ranges of its symbols.
type Formulas struct {
	Base    *Formula // the unchanged graph
	Planned *Formula // the graph as it would be rewritten; nil without recomputation
	// Assumed are the symbols whose range is AssumedRange.
	Assumed []string
	// Points is at how many random bindings, drawn with Seed, the formulas were compared with
	// simulations, and Error the largest difference in bytes.
	Points int
	Seed   int64
	Error  int64
}

// Formulas are checked at checkPoints bindings; at fewer where that would be more than checkSteps
// simulated nodes.
const (
	checkPoints = 100
	checkSteps  = 100_000
)

// mostUnasked is the most nodes of a graph that gets formulas without an explicit range.
const mostUnasked = 50_000

// formulas finds the formulas of a plan without sizes. Their absence is an error for explicit ranges,
// else a warning.
func (p *Plan) formulas(ctx context.Context) error {
	if len(p.Options.Ranges) == 0 && len(p.Analysis.Order) > mostUnasked {
		return nil
	}
	f, box, err := p.formulasUpTo(ctx, AssumedRange.Hi)
	for _, hi := range lowerRanges {
		if err == nil || ctx.Err() != nil || len(f.Assumed) == 0 {
			break
		}
		f, box, err = p.formulasUpTo(ctx, hi)
	}
	switch {
	case err == nil:
		p.Formulas = f
	case len(f.Assumed) == 0:
		return fmt.Errorf("the peak over %v: %w", box, err)
	default:
		p.Warnings = append(p.Warnings, fmt.Sprintf("no formula of the peak: %v; give ranges of sizes, such as "+
			"%s=%d..%d", err, f.Assumed[0], AssumedRange.Lo, AssumedRange.Hi))
	}
	return nil
}

// formulasUpTo finds formulas with assumed ranges that end at a size.
func (p *Plan) formulasUpTo(ctx context.Context, hi int64) (*Formulas, envelope.Box, error) {
	ranges := map[string]symbolic.Range{}
	f := &Formulas{Seed: p.Options.CheckSeed}
	for _, s := range p.Unbound {
		r, given := p.Options.Ranges[s]
		if !given {
			r = symbolic.Range{Lo: AssumedRange.Lo, Hi: hi}
			f.Assumed = append(f.Assumed, s)
		}
		ranges[s] = r
	}
	box, err := envelope.NewBox(ranges)
	if err == nil {
		err = f.fill(ctx, p, box)
	}
	return f, box, err
}

func (f *Formulas) fill(ctx context.Context, p *Plan, box envelope.Box) error {
	whole := p.Baseline()
	opts := whole.Options
	opts.Workspace = nil
	var err error
	if f.Base, err = FormulaOf(ctx, whole.Model, whole.Types, opts, box); err != nil {
		return err
	}
	list := []*Formula{f.Base}
	if len(p.Placements) > 0 || p.Whole != nil {
		if f.Planned, err = p.Formula(ctx, box); err != nil {
			return err
		}
		list = append(list, f.Planned)
	}
	f.Points = max(1, min(checkPoints, checkSteps/max(len(p.Analysis.Order), 1)))
	for _, x := range list {
		difference, err := x.Check(ctx, f.Points, f.Seed)
		if err != nil {
			return err
		}
		f.Error = max(f.Error, difference)
	}
	return nil
}

// AssumedText lists the assumed ranges: "batch=1..4096, seq=1..4096"; "" if all ranges were given.
func (f *Formulas) AssumedText() string {
	var text string
	for _, a := range f.Base.Box {
		if !slices.Contains(f.Assumed, a.Symbol) {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += a.String()
	}
	return text
}
