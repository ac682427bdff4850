package estimate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"memopt"
	"memopt/graph/precision"
	"memopt/hint"
	"memopt/symbolic"
	"memopt/train"
)

// Advice is a change that makes a step fit that does not.
type Advice struct {
	What  string // the options to set
	Total int64  // bytes that the step takes then
	Price string // its cost
	rank  int64
}

// The ranks of advice that train.Ways has not: halves are no slower, but other numbers.
const (
	rankHome      = 1 << 19 // the same numbers, at the pace of a file
	rankHalf      = 1 << 20
	rankUnclipped = 1 << 30 // as train.Ways has it
	rankPure      = 1 << 35
	rankSeveral   = 1 << 36
	rankShrink    = 1 << 41
)

// advise looks for changes besides a plan that make the step fit, the cheapest first; planned says that a plan does.
// Where no change by itself helps, several together are tried.
func (s *step) advise(ctx context.Context, planned bool) []Advice {
	list := s.trainWays(ctx)
	list = append(list, s.precisions(ctx)...)
	if a := s.moved(ctx); a != nil {
		list = append(list, *a)
	}
	if len(list) == 0 && !planned {
		list = s.several(ctx)
	}
	list = append(list, s.lodged(ctx)...)
	if a := s.shrink(ctx); a != nil {
		list = append(list, *a)
	}
	slices.SortStableFunc(list, func(a, b Advice) int { return cmp.Compare(a.rank, b.rank) })
	return list
}

// expandable is the advice to let segments grow, where PyTorch's allocator has memory for the step then.
func (r *Result) expandable() []Advice {
	s := r.Plain.Served
	if s == nil || s.Error == "" || s.Expandable == nil || s.Expandable.Error != "" {
		return nil
	}
	total := r.Plain.Total() - s.Peak.Reserved + s.Expandable.Peak.Reserved
	return []Advice{{What: hint.AllocatorConf.With(expandableOn).String(), Total: total,
		Price: "PYTORCH_CUDA_ALLOC_CONF=" + expandableOn + " in the program's environment; the same numbers"}}
}

// expandableOn is the option of PyTorch's allocator.
const expandableOn = "expandable_segments:True"

// trainWays are the ways that a training job would name, in the options of an estimate.
func (s *step) trainWays(ctx context.Context) (list []Advice) {
	if s.steps == nil || s.opts.Allocator != ByRuntime && s.opts.Allocator != InArena { // they count an arena
		return nil
	}
	beside := s.memory - s.limit()
	for _, w := range train.WaysBesidePlan(ctx, s.steps, s.opts.Recipe, s.rows, s.limit(), s.selection(nil), s.make) {
		what := w.What
		if w.Kind == train.ByAccumulation {
			what = fmt.Sprintf("%v %v", hint.Dims.With(fmt.Sprintf("%s=%d", s.steps.Batch, w.Rows)),
				hint.StepMicros.With(fmt.Sprint(w.Micros)))
		}
		list = append(list, Advice{what, w.Total + beside, w.Price, w.Rank})
	}
	return list
}

// precisions are the precisions that make the step fit.
func (s *step) precisions(ctx context.Context) (list []Advice) {
	if s.opts.Precision != precision.AsIs && s.opts.Precision != precision.FP32 {
		return nil
	}
	least := int64(math.MaxInt64)
	for _, c := range []struct {
		p    precision.Precision
		rank int64
	}{{precision.BF16, rankHalf}, {precision.BF16Pure, rankPure}} {
		total, ok := s.with(ctx, s.read, func(o *Options) { o.Precision = c.p })
		if ok && total <= s.memory && total < least {
			list = append(list, Advice{hint.Precision.With(string(c.p)).String(), total, precisionPrice[c.p], c.rank})
			least = total
		}
	}
	return list
}

// moved is a plan whose values move to the host over the link of the device, unless that has been looked for.
func (s *step) moved(ctx context.Context) *Advice {
	link := s.profile().Link
	if s.opts.Moves.Asked() || link <= 0 || s.opts.Device == nil || ctx.Err() != nil {
		return nil
	}
	o := s.opts
	o.Moves.Link.BytesPerSecond, o.Moves.HostBudget = link, math.MaxInt64
	other, err := newStep(s.read, o)
	if err != nil {
		return nil
	}
	out, err := other.outcome(ctx, other.quick())
	if err != nil || out.Total() > s.memory || out.Copies == nil {
		return nil
	}
	return &Advice{hint.HostBudget.With(wholeMiB(out.Copies.Arena)).String(), out.Total(),
		fmt.Sprintf("values move to the host and back: an estimated %.1f %% more time", 100*out.Overhead),
		int64(1000 * out.Overhead)}
}

// wholeMiB is a size that is rounded up to MiB.
func wholeMiB(bytes int64) string { return fmt.Sprintf("%dMiB", (bytes+1<<20-1)>>20) }

// quick is a budget of all the device's memory, with the first plan found.
func (s *step) quick() memopt.Strategy {
	return memopt.Budget{Total: max(s.limit(), 1), Solver: "auto", Seed: s.opts.Seed}
}

// mostSeveral is how many sets of changes are named.
const mostSeveral = 3

// change is a set of changes of the options.
type change struct {
	precision     precision.Precision // "" for no change
	optimizer     string              // "" for no change
	optimizerCost string
	unclipped     bool // the norm of gradients has no bound
	home          bool // the states have a home
}

// changes are sets of changes, the gentlest first: a precision, an optimizer whose states take fewer bits, gradients
// that do not wait for their norm; and those with Adafactor in the optimizer's place.
func (s *step) changes() (list []change) {
	r := &s.opts.Recipe
	types := []precision.Precision{""}
	if s.opts.Precision == precision.AsIs || s.opts.Precision == precision.FP32 {
		types = append(types, precision.BF16, precision.BF16Pure)
	}
	norms := []bool{false}
	if s.trained != nil && r.Optimizer.MaxNorm != 0 && r.LossScale == "" {
		norms = append(norms, true)
	}
	for _, optimizers := range s.optimizers() {
		for _, unclipped := range norms {
			for _, p := range types {
				for _, c := range optimizers {
					c.precision, c.unclipped = p, unclipped
					if c != (change{}) {
						list = append(list, c)
					}
				}
			}
		}
	}
	return list
}

// optimizers are changes of the optimizer, in groups: the one that there is, and those that store its states in fewer
// bits; Adafactor.
func (s *step) optimizers() [2][]change {
	same := []change{{}}
	if s.trained == nil {
		return [2][]change{same}
	}
	o := s.opts.Recipe.Optimizer
	for _, kind := range o.FewerBits() {
		coded := o
		coded.Kind = kind
		same = append(same, change{optimizer: kind, optimizerCost: train.StateBitsPrice(&coded)})
	}
	if len(o.States()) == 0 || o.Kind == factored {
		return [2][]change{same}
	}
	return [2][]change{same, {{optimizer: factored, optimizerCost: "second moments by their rows and columns alone: " +
		"another path of training, with a learning rate of its own"}}}
}

// factored is the kind of optimizer whose second moments are vectors.
const factored = "adafactor"

// on is options with the changes.
func (c *change) on(o Options) Options {
	if c.precision != "" {
		o.Precision = c.precision
	}
	if c.optimizer != "" {
		o.Recipe.Optimizer.Kind = c.optimizer
	}
	if c.unclipped {
		o.Recipe.Optimizer.MaxNorm = 0
	}
	if c.home {
		none := int64(0)
		o.Recipe.Home, o.Device, o.Reserve = true, o.HomeOn, &none
		o.Moves = memopt.MoveOptions{}
	}
	return o
}

// words are the options to set for a step that they make, and their prices.
func (c *change) words(made *step) (what, price []string) {
	if h := made.home; c.home {
		what = append(what, hint.Device.With(made.opts.Device.Name).String(), hint.HostDir.With("DIR").String(),
			hint.HostBudget.With(wholeMiB(h.Bytes())).String())
		price = append(price, fmt.Sprintf("states in a file on the host, twice: %s", h.Price()))
	}
	if c.precision != "" {
		what, price = append(what, hint.Precision.With(string(c.precision)).String()),
			append(price, precisionPrice[c.precision])
	}
	if c.optimizer != "" {
		what, price = append(what, hint.Optimizer.With(c.optimizer).String()), append(price, c.optimizerCost)
	}
	if c.unclipped {
		what, price = append(what, hint.MaxNorm.With("0").String()),
			append(price, "the norm of gradients has no bound")
	}
	return what, price
}

// several tries sets of changes, with a plan where they do not suffice.
func (s *step) several(ctx context.Context) (list []Advice) {
	for _, c := range s.changes() {
		if len(list) == mostSeveral || ctx.Err() != nil {
			break
		}
		if s.leastHeld(&c) > s.memory-s.reserve {
			continue
		}
		if a := s.together(ctx, &c); a != nil {
			list = append(list, *a)
		}
	}
	return list
}

// leastHeld is a lower bound of the bytes of parameters and states with changes, without making the step.
func (s *step) leastHeld(c *change) int64 {
	weights, elements, float := int64(0), int64(0), int64(32)
	s.each(func(name string, k kind, n int64) {
		if k == weight {
			weights, elements = weights+n, elements+s.params[name]
		}
	})
	if c.precision == precision.BF16Pure {
		weights, float = min(weights, 2*elements), 16
	}
	o := c.on(s.opts).Recipe.Optimizer
	bits := cmp.Or(int64(o.Bits()), float) * int64(len(o.States()))
	if s.trained == nil || o.Bits() == 0 && !o.Uniform() { // whose states are not those of each element
		bits = 0
	}
	return weights + elements*bits/8
}

// together is the step with changes, and with a plan where it does not fit without; nil: it does not fit.
func (s *step) together(ctx context.Context, c *change) *Advice {
	other, err := newStep(s.read, c.on(s.opts))
	if err != nil || other.limit() <= 0 || other.home.Over() {
		return nil
	}
	out, err := other.outcome(ctx, nil)
	if err != nil {
		return nil
	}
	what, price := c.words(other)
	if out.Total() > other.memory {
		if out, err = other.outcome(ctx, other.quick()); err != nil || out.Total() > other.memory {
			return nil
		}
		price = append(price, fmt.Sprintf("with a plan, an estimated %.1f %% more time", 100*out.Overhead))
	}
	return &Advice{strings.Join(what, " "), out.Total(), strings.Join(price, "; "),
		rankSeveral + int64(1000*out.Overhead)}
}

// lodged is the step whose states have a home, on the device that reads them there; where that does not suffice without
// a plan, also without the bound of the norm, for which gradients wait for each other on the device.
func (s *step) lodged(ctx context.Context) (list []Advice) {
	r := &s.opts.Recipe
	if s.trained == nil || s.opts.HomeOn == nil || r.Home {
		return nil
	}
	for _, c := range []change{{home: true}, {home: true, unclipped: true}} {
		if c.unclipped && (r.Optimizer.MaxNorm == 0 || r.LossScale != "") || ctx.Err() != nil {
			break
		}
		a := s.together(ctx, &c)
		if a == nil {
			continue
		}
		if a.rank -= rankSeveral - rankHome; c.unclipped {
			a.rank += rankUnclipped
		}
		if list = append(list, *a); a.rank == rankHome {
			break
		}
	}
	return list
}

// precisionPrice is the price of a precision, for readers.
var precisionPrice = map[precision.Precision]string{
	precision.BF16:     "activations and gradients of 16 bits, master weights of 32: results differ",
	precision.BF16Pure: "weights and moments of 16 bits too, rounded up or down by chance",
}

// with is the memory of a model's step with other options.
func (s *step) with(ctx context.Context, m *memopt.Model, change func(*Options)) (total int64, ok bool) {
	if ctx.Err() != nil {
		return 0, false
	}
	o := s.opts
	change(&o)
	other, err := newStep(m, o)
	if err != nil || ctx.Err() != nil {
		return 0, false
	}
	out, err := other.outcome(ctx, nil)
	if err != nil {
		return 0, false
	}
	return out.Total(), true
}

// shrink finds the most samples that fit for a graph with gradients of its own, which estimate
// cannot accumulate.
func (s *step) shrink(ctx context.Context) *Advice {
	symbol := s.batch()
	rows := s.read.Dims[symbol]
	if s.steps != nil || symbol == "" || rows < 2 {
		return nil
	}
	best, least := int64(0), int64(0)
	for low, high := int64(0), rows; high-low > 1 && ctx.Err() == nil; {
		mid := low + (high-low)/2
		m := *s.read
		m.Dims = maps.Clone(m.Dims)
		m.Dims[symbol] = mid
		total, ok := s.with(ctx, &m, func(*Options) {})
		if ok && total <= s.memory {
			low, best, least = mid, mid, total
		} else {
			high = mid
		}
	}
	if best == 0 {
		return nil
	}
	return &Advice{hint.Dims.With(fmt.Sprintf("%s=%d", symbol, best)).String(), least,
		"fewer samples in a step: another path of training, unless their gradients are accumulated", rankShrink}
}

// batch is the symbol of the first dim of the first input that is data, or "".
func (s *step) batch() string {
	g := s.models[0].Graph
	for _, d := range g.Inputs {
		dims := g.Values[d.Value].Type.Shape.Dims
		if s.kinds[g.ValueName(d.Value)] != input || len(dims) == 0 {
			continue
		}
		if list := dims[0].Symbols(); len(list) == 1 && dims[0].Equal(symbolic.Sym(list[0])) {
			return list[0]
		}
	}
	return ""
}
