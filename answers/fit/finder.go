package fit

import (
	"context"
	"errors"
	"fmt"

	"memopt"
	"memopt/internal/timelimit"
	"memopt/planner"
	"memopt/planner/envelope"
	"memopt/symbolic"
)

// mostConsidered bounds sizes without a range: more is no size of anything that is trained.
const mostConsidered = 1 << 30

// finder finds the largest value of one symbol.
type finder struct {
	ctx    context.Context
	model  *memopt.Model // with all other symbols bound
	opts   *Options
	symbol string
	fixed  symbolic.Env
	over   symbolic.Range // values that need to be considered
	capped bool           // over.Hi is an implied limit: no size above it can fit
	base   *planner.Formula
	pool   []reusable
}

// newFinder prepares for one symbol, with values for symbols that are not bound otherwise.
func newFinder(ctx context.Context, m *memopt.Model, o *Options, symbol string, fixed symbolic.Env) (*finder, error) {
	f := &finder{ctx: ctx, model: at(m, fixed), opts: o, symbol: symbol, fixed: fixed}
	var given bool
	if f.over, given = o.Ranges[symbol]; !given {
		f.over = symbolic.Range{Lo: 1, Hi: mostConsidered}
	}
	f.cap()
	var err error
	opts := o.Plan.Options
	opts.Dims, opts.Strategy = f.model.Dims, nil
	box, err := envelope.NewBox(map[string]symbolic.Range{symbol: f.over})
	if err != nil {
		return nil, &memopt.Error{Fault: memopt.OfCaller, Err: err}
	}
	if o.Plan.Device != nil {
		return f, nil
	}
	f.base, err = planner.FormulaOf(ctx, f.model.Model, f.model.Types, opts, box)
	if errors.Is(err, envelope.ErrPieces) || f.late() {
		err = nil
	}
	return f, err
}

// cap lowers the range to sizes that could fit: a value that is larger than the limit by itself
// never does, and sizes do not shrink as symbols grow.
func (f *finder) cap() {
	sizes := envelope.NewSizes(f.model.Graph, nil)
	largest := func(n int64) bool { return sizes.Largest(f.env(n)) > f.opts.Limit }
	hi := f.over.Lo
	for hi < f.over.Hi && !largest(hi) {
		hi = min(2*hi+1, f.over.Hi)
	}
	if hi < f.over.Hi {
		f.over.Hi, f.capped = hi, true
	}
}

// late reports whether the time is up: then the sizes so far are the answer.
func (f *finder) late() bool { return timelimit.Ended(f.ctx) }

// searches is about how many searches for plans an answer takes, which share the effort.
const searches = 6

// effort is that of one search.
func (o *Options) effort() float64 { return o.Effort / searches }

// env binds all symbols, the varied one to n.
func (f *finder) env(n int64) symbolic.Env {
	env := symbolic.Env{}
	for name, v := range f.model.Dims {
		env[name] = v
	}
	env[f.symbol] = n
	return env
}

// make plans the step at a size.
func (f *finder) make(n int64, s memopt.Strategy, live bool) (*memopt.Plan, error) {
	if err := f.ctx.Err(); err != nil && !f.late() {
		return nil, err
	}
	o := f.opts.Plan
	o.SkipLayout = live
	return at(f.model, symbolic.Env{f.symbol: n}).Plan(f.ctx, s, o)
}

// sizes finds the largest size of every kind.
func (f *finder) sizes() (*Sizes, error) {
	out := &Sizes{Fixed: f.fixed}
	by := &out.By
	for k, find := range [numKinds]func() (*Size, error){
		Plain:  func() (*Size, error) { return f.largest(Plain, nil, f.over.Lo) },
		Level1: func() (*Size, error) { return f.largest(Level1, memopt.Level(1), by[Plain].Value) },
		Best:   func() (*Size, error) { return f.best(&by[Plain], &by[Level1]) },
		Moves:  func() (*Size, error) { return f.withMoves(&by[Best]) },
	} {
		if Kind(k) == f.opts.kinds() {
			break
		}
		f.tell(fmt.Sprintf("the largest %s %s", f.symbol, titles[k]))
		s, err := find()
		if err != nil {
			return nil, err
		}
		by[k] = *s
	}
	return out, nil
}

// titles are the headings of the kinds.
var titles = [numKinds]string{"without a plan", "with level 1", "with a plan", "with moves"}

func (f *finder) tell(what string) {
	if f.opts.Progress != nil {
		f.opts.Progress(what)
	}
}

// outcome is the plan and the memory of a kind at a size.
type outcome struct {
	plan  *memopt.Plan // nil if no plan was found
	total int64        // the fewest bytes that were reached; 0 if unknown
	price float64      // the overhead of the cheapest plan found, if that is too much
	fits  bool
}

// judge makes a plan and packs it, unless its live bytes are too many already. Once the time is up
// one plan is made, with its layout: the few sizes that are tried then are those that formulas say
// to fit.
func (f *finder) judge(n int64, s memopt.Strategy) (*outcome, error) {
	if !f.late() {
		p, err := f.make(n, s, true)
		if err != nil {
			return nil, err
		}
		if least := p.Persistent + p.Planned.Peak.Bytes; least > f.opts.Limit {
			return &outcome{plan: p, total: least}, nil
		}
	}
	p, err := f.make(n, s, false)
	if err != nil {
		return nil, err
	}
	return &outcome{plan: p, total: total(p), fits: total(p) <= f.opts.Limit}, nil
}
