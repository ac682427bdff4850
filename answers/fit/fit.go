package fit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt"
	"memopt/symbolic"
)

// Options of Largest. Limit and Vary must be given.
type Options struct {
	// Vary names one symbol of the model, or two for a frontier: for values of the first the largest
	// of the second.
	Vary []string
	// Ranges are the values that are considered, by symbol; a symbol without one may be anything from
	// 1 on.
	Ranges map[string]symbolic.Range
	// Limit is the bytes that inputs, weights and the arena may take together.
	Limit int64
	// MaxOverhead is how much longer a step may take with the plan, as a share: 0.2.
	MaxOverhead float64
	// Plan has the options of plans: device profile, order, costs, and with Chunk the mode of chunking for sizes
	// that recomputation alone does not reach. With a Device, the workspaces of its kernels count; these have no
	// formula, so sizes are then found by plans alone.
	Plan memopt.PlanOptions
	// Effort is the work of all searches for plans, in seconds of a typical core; 0 means that each takes the
	// first plan that fits. Seed is that of their random choices.
	Effort float64
	Seed   int64
	// Moves let values move to the host in plans of one kind more, Moves; the zero value asks for none.
	Moves memopt.MoveOptions
	// Progress is called with a description of the current work, in a few words; it may be nil.
	Progress func(what string)
}

// Kind is a kind of plan: the nodes that it may recompute.
type Kind int

// The kinds, in the order of reports.
const (
	Plain  Kind = iota // no node
	Level1             // every cluster, layer by layer (planner.Layerwise)
	Best               // the nodes of the cheapest plan that fits, within Options.MaxOverhead
	Moves              // those, and values move to the host, within Options.Moves
	numKinds
)

// String is the name of a kind in JSON.
func (k Kind) String() string { return [...]string{"plain", "level1", "plan", "moves"}[k] }

// Size is the largest size that fits, or the fact that every size is infeasible.
type Size struct {
	// Value is the size; 0 means that not even Least fits.
	Value int64
	// Least is the smallest size that was considered.
	Least int64
	// Unlimited is set if Value is the largest that was considered.
	Unlimited bool
	// Plan is the step at Value, or at Least if every size is infeasible; nil if no plan was found there.
	Plan *memopt.Plan
	// Moving is that plan with its moves, and Plan its recomputations alone; nil for a plan that moves no value.
	Moving *memopt.Moving
	// Total is the bytes of that plan, or the fewest that were reached.
	Total int64
	// Above is the fewest bytes that were reached one above Value; 0 where that is not known.
	Above int64
	// AbovePrice is the overhead of the cheapest plan found at the next larger size, if it is infeasible only for
	// its overhead.
	AbovePrice float64
	// Peak is the formula of the plan's live bytes around Value, and Persistent that of inputs and weights.
	// Without formulas, because sizes change the sharing of memory too often, the values between were not proved
	// to fit.
	Peak, Persistent symbolic.Expr
	Proved           bool // that everything from Least up to Value fits, by the formula
	Searches         int  // for plans
	// Stopped is set if the time limit ended the search: larger sizes may fit.
	Stopped bool
}

// Sizes are the largest sizes by kind.
type Sizes struct {
	// Fixed are the bindings of the other symbols.
	Fixed symbolic.Env
	By    [numKinds]Size
}

// Result is the answer of Largest.
type Result struct {
	Model   *memopt.Model
	Options Options
	// Sizes are those of the symbol; nil for a frontier.
	Sizes *Sizes
	// Frontier has the largest of the second symbol for rising values of the first.
	Frontier []*Sizes
}

// ErrNothing means that not even the smallest size fits.
var ErrNothing = errors.New("no size fits")

// Largest finds the largest sizes that make a training step fit. The model must have a backward half, and every
// symbol that is not varied must be bound. The deadline of the context ends the search with the largest sizes so
// far (Size.Stopped); an interrupt ends it with its error. Other errors are those of planning, a
// *symbolic.UnboundError among them, and a *memopt.Error for options that make no sense.
func Largest(ctx context.Context, m *memopt.Model, o Options) (*Result, error) {
	if err := o.check(m); err != nil {
		return nil, &memopt.Error{Fault: memopt.OfCaller, Err: err}
	}
	r := &Result{Model: m, Options: o}
	if len(o.Vary) == 2 {
		return r, r.frontier(ctx)
	}
	f, err := newFinder(ctx, m, &o, o.Vary[0], nil)
	if err != nil {
		return nil, err
	}
	r.Sizes, err = f.sizes()
	return r, err
}

func (o *Options) check(m *memopt.Model) error {
	symbols := m.Symbols()
	for _, s := range o.Vary {
		if !slices.Contains(symbols, s) {
			if len(symbols) == 0 {
				return fmt.Errorf("%s has no symbol %q to vary: all of its sizes are numbers", m.Path, s)
			}
			return fmt.Errorf("%s has no symbol %q to vary; there are %s", m.Path, s, strings.Join(symbols, ", "))
		}
	}
	switch {
	case len(o.Vary) < 1 || len(o.Vary) > 2 || len(o.Vary) == 2 && o.Vary[0] == o.Vary[1]:
		return fmt.Errorf("%d symbols to vary: wanted one, or two different ones", len(o.Vary))
	case o.Limit <= 0:
		return fmt.Errorf("a limit of %d bytes: wanted a positive number", o.Limit)
	case o.MaxOverhead < 0:
		return fmt.Errorf("an overhead of %v: wanted 0 or more", o.MaxOverhead)
	}
	var open []string
	for _, s := range symbols {
		if _, bound := m.Dims[s]; !bound && !slices.Contains(o.Vary, s) {
			open = append(open, s)
		}
	}
	if open != nil {
		return &symbolic.UnboundError{Symbols: open}
	}
	return nil
}

// frontiers bounds how many values of the first symbol a frontier has.
const frontiers = 24

// frontier finds the largest of the second symbol for 1, 2, 4, … of the first, up to an infeasible one.
func (r *Result) frontier(ctx context.Context) error {
	first := r.Options.Vary[0]
	over, given := r.Options.Ranges[first]
	if !given {
		over = symbolic.Range{Lo: 1, Hi: mostConsidered}
	}
	var pool []reusable
	for n := over.Lo; n <= over.Hi && len(r.Frontier) < frontiers; n = max(2*n, 1) {
		f, err := newFinder(ctx, r.Model, &r.Options, r.Options.Vary[1], symbolic.Env{first: n})
		if err != nil {
			return err
		}
		f.pool = pool
		s, err := f.sizes()
		if err != nil {
			return err
		}
		pool = f.pool
		r.Frontier = append(r.Frontier, s)
		if !s.any() || f.late() {
			break
		}
	}
	return nil
}

// Stopped reports whether the time limit ended a search.
func (r *Result) Stopped() bool {
	list := r.Frontier
	if r.Sizes != nil {
		list = []*Sizes{r.Sizes}
	}
	return slices.ContainsFunc(list, func(s *Sizes) bool {
		return slices.ContainsFunc(s.By[:], func(x Size) bool { return x.Stopped })
	})
}

// any reports whether anything fits.
func (s *Sizes) any() bool {
	return slices.ContainsFunc(s.By[:], func(x Size) bool { return x.Value > 0 })
}

// Fits returns nil, or ErrNothing with the fewest bytes that were reached.
func (r *Result) Fits() error {
	list := r.Frontier
	if r.Sizes != nil {
		list = []*Sizes{r.Sizes}
	}
	for _, s := range list {
		if s.any() {
			return nil
		}
	}
	return ErrNothing
}

// Lowest is the fewest bytes that any kind of plan takes at the smallest size; 0 if unknown.
func (s *Sizes) Lowest() int64 {
	var least int64
	for _, x := range s.By {
		if x.Total > 0 && (least == 0 || x.Total < least) {
			least = x.Total
		}
	}
	return least
}

// at returns the model at bindings.
func at(m *memopt.Model, env symbolic.Env) *memopt.Model {
	c := *m
	c.Dims = maps.Clone(m.Dims)
	maps.Copy(c.Dims, env)
	return &c
}

// total is the bytes that a plan takes.
func total(p *memopt.Plan) int64 { return p.Persistent + p.Arena.Bytes }

// placementsOf is the strategy that takes over the placements of a plan.
func placementsOf(p *memopt.Plan) memopt.Strategy {
	return p.Saved()
}
