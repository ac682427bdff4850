package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"memopt"
	"memopt/autograd"
	"memopt/executor"
	"memopt/hint"
	"memopt/planner"
)

// Way is a change that makes a job fit.
type Way struct {
	Kind  WayKind
	What  string // the options to set
	Total int64  // bytes that the job takes then
	Price string // its price, for the reader
	// Rank orders the ways by price, in thousandths of a step's time; ways that change the results
	// come after all that do not.
	Rank int64
	// Rows and Micros are the samples of a step and the steps of an update, of ByAccumulation.
	Rows, Micros int64
}

// WayKind is the setting that a way changes, for example the optimizer.
type WayKind int

// The kinds of ways.
const (
	ByRecomputation WayKind = iota
	ByAccumulation
	ByNotClipping
	ByOptimizer
	ByStateBits
)

// Infeasible reports whether an error means that the job does not fit.
func Infeasible(err error) bool {
	return errors.Is(err, planner.ErrInfeasible) || errors.Is(err, executor.ErrOutOfMemory)
}

// Ways looks for changes that make a job fit into a limit of bytes: fewer samples at a time with
// accumulation, a plan that recomputes, an optimizer with less state. remake makes the steps anew by
// another recipe. A context that is done ends the search with the changes found so far.
func Ways(ctx context.Context, s *Steps, r Recipe, rows, limit int64, sel Selection,
	remake func(Recipe) (*Steps, error)) []Way {
	w := &ways{ctx: ctx, recipe: r, rows: rows, limit: limit, sel: sel, remake: remake}
	w.recompute(s)
	w.others(s)
	return w.sorted()
}

// WaysBesidePlan is Ways without that of recomputing alone, for callers that have planned that.
func WaysBesidePlan(ctx context.Context, s *Steps, r Recipe, rows, limit int64, sel Selection,
	remake func(Recipe) (*Steps, error)) []Way {
	w := &ways{ctx: ctx, recipe: r, rows: rows, limit: limit, sel: sel, remake: remake}
	w.others(s)
	return w.sorted()
}

// others looks for all ways but that of recomputing alone.
func (w *ways) others(s *Steps) {
	w.accumulate(s)
	w.unclip()
	w.fewerBits()
	w.optimizer()
}

// sorted returns the ways, the cheapest first.
func (w *ways) sorted() []Way {
	slices.SortStableFunc(w.list, func(a, b Way) int { return cmp.Compare(a.Rank, b.Rank) })
	return w.list
}

// ways collects ways.
type ways struct {
	ctx         context.Context
	recipe      Recipe
	rows, limit int64
	sel         Selection
	remake      func(Recipe) (*Steps, error)
	list        []Way
}

// quick is a selection that takes the first plan within a budget for everything.
func (w *ways) quick() Selection {
	sel := w.sel
	sel.Strategy = memopt.Budget{Total: w.limit, Solver: "auto"}
	return sel
}

// recompute looks for a plan to the limit.
func (w *ways) recompute(s *Steps) {
	if _, ok := w.sel.Strategy.(memopt.Budget); ok || w.ctx.Err() != nil {
		return // it has been looked for, or there is no time
	}
	p, err := s.Plan(w.ctx, w.rows, 0, w.quick())
	if err != nil || p.Total() > w.limit {
		return
	}
	over := p.Step.Plan.Overhead
	w.list = append(w.list, Way{Kind: ByRecomputation, Total: p.Total(),
		What:  hint.Budget.With(fmt.Sprint(w.limit)).String(),
		Price: fmt.Sprintf("recomputing takes an estimated %.1f %% more time", 100*over), Rank: int64(1000 * over)})
}

// accumulate looks for the most rows that fit when gradients are accumulated.
func (w *ways) accumulate(s *Steps) {
	if s.Forward == nil || s.Batch == "" || w.rows < 2 || w.ctx.Err() != nil {
		return
	}
	r := w.recipe
	r.Micros = max(r.Micros, 2)
	steps, err := w.remake(r)
	if err != nil {
		return
	}
	rows, p := Largest(w.ctx, steps, w.rows-1, w.limit, w.plain())
	if rows == 0 {
		return
	}
	all := w.rows * max(int64(w.recipe.Micros), 1)
	micros := (all + rows - 1) / rows
	if even := (all + micros - 1) / micros; even < rows { // as many steps, and fewer samples too many
		if q, err := steps.Plan(w.ctx, even, 0, w.plain()); err == nil && q.Total() <= w.limit {
			rows, p = even, q
		}
	}
	w.list = append(w.list, Way{Kind: ByAccumulation, Rows: rows, Micros: micros,
		Total: p.Total(), Rank: 1,
		What:  fmt.Sprintf("%v %v", hint.Batch.With(fmt.Sprint(rows)), hint.Accumulation.With(fmt.Sprint(micros))),
		Price: "the same samples per update in smaller parts: no computation is added, and kernels are less busy"})
}

// plain is the selection without a budget for everything.
func (w *ways) plain() Selection {
	sel := w.sel
	if _, ok := sel.Strategy.(memopt.Budget); ok {
		return w.quick()
	}
	return sel
}

// unclip lets gradients go as soon as their parameters are updated.
func (w *ways) unclip() {
	r := w.recipe
	if r.Optimizer.MaxNorm == 0 || r.LossScale != "" {
		return
	}
	r.Optimizer.MaxNorm = 0
	if p := w.planned(r, w.plain()); p != nil {
		w.list = append(w.list, Way{Kind: ByNotClipping, Total: p.Total(), Rank: 1 << 30,
			What:  hint.MaxNorm.With("0").String(),
			Price: "gradients do not wait for the norm of all of them, which is then not bounded"})
	}
}

// planned returns the plans of another recipe, or nil if they do not fit.
func (w *ways) planned(r Recipe, sel Selection) *Plans {
	if w.ctx.Err() != nil {
		return nil
	}
	steps, err := w.remake(r)
	if err != nil {
		return nil
	}
	p, err := steps.Plan(w.ctx, w.rows, 0, sel)
	if err != nil || p.Total() > w.limit {
		return nil
	}
	return p
}

// fewerBits tries optimizers whose states take fewer bits, up to the first that fits.
func (w *ways) fewerBits() {
	r := w.recipe
	for i, kind := range r.Optimizer.FewerBits() {
		r.Optimizer.Kind = kind
		if p := w.planned(r, w.plain()); p != nil {
			w.list = append(w.list, Way{Kind: ByStateBits, Total: p.Total(), Rank: 1<<32 + int64(i),
				What: hint.Optimizer.With(kind).String(), Price: StateBitsPrice(&r.Optimizer)})
			return
		}
	}
}

// StateBitsPrice is the price of an optimizer whose states are stored in codes, for readers.
func StateBitsPrice(o *autograd.Optimizer) string {
	return fmt.Sprintf("moments in codes of %d bits: updates differ by their rounding", o.Bits())
}

// optimizer tries one without moments.
func (w *ways) optimizer() {
	r := w.recipe
	if r.Optimizer.Kind == "sgd" && r.Optimizer.Momentum == 0 {
		return
	}
	r.Optimizer.Kind, r.Optimizer.Momentum, r.Optimizer.Nesterov = "sgd", 0, false
	if p := w.planned(r, w.plain()); p != nil {
		w.list = append(w.list, Way{Kind: ByOptimizer, Total: p.Total(), Rank: 1 << 40,
			What:  hint.Optimizer.With("sgd").String(),
			Price: "no moments; another path of training, with a learning rate of its own"})
	}
}

// Largest finds the most rows, up to a number, that let a job fit into a limit of bytes, and its
// plans. 0 rows mean that not even one row fits. Memory grows with the rows. A context that is done
// ends the search with the most rows so far, but at least one row is tried.
func Largest(ctx context.Context, s *Steps, most, limit int64, sel Selection) (int64, *Plans) {
	best, plans := int64(0), (*Plans)(nil)
	fits := func(rows int64) bool {
		p, err := s.Plan(ctx, rows, 0, sel)
		if err != nil || p.Total() > limit {
			return false
		}
		best, plans = rows, p
		return true
	}
	// The bound doubles while it fits, so that no plan of far more rows than fit is ever made.
	high := int64(1)
	for high <= most && (best == 0 || ctx.Err() == nil) && fits(high) {
		high *= 2
	}
	high = min(high, most+1)
	for low := best; high-low > 1 && ctx.Err() == nil; {
		if mid := low + (high-low)/2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return best, plans
}
