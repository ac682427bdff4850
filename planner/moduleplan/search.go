package moduleplan

import (
	"cmp"
	"context"
	"slices"
	"sort"

	torchsim "memopt/sim/torch"
)

// Plan is a choice of calls to put under checkpoints.
type Plan struct {
	Calls   []int32 // in order of execution
	Usage   torchsim.Usage
	Exact   bool // no other choice of the same units and parts is cheaper within the limit
	Choices int  // how many choices were simulated
}

// Blocks are the calls that are units with all of them under checkpoints, in order.
type Blocks []int32

// Search plans modules of a program.
type Search struct {
	cuts []*search // the program cut into units, coarser from one to the next
}

// search is a search in one cut.
type search struct {
	p        *torchsim.Program
	sim      *torchsim.Simulator
	units    []unit
	of       []int  // by forward step: its unit
	chain    *chain // nil: none, or not measured
	measured bool
	loose    int64 // bytes by which the chain's peaks may be too high
	tried    int   // choices simulated, without those for the chain
	manual   bool  // tests: not all choices are tried, however few they are
	large    bool  // measuring takes long: it ends with the context
	partial  bool  // the context has ended before all options were found
}

// New finds the units of a program and their options: the blocks that it repeats, and, where lists of few blocks
// are modules themselves, these. Where that takes long and the context ends before, the units that are left are
// recomputed as a whole or not at all.
func New(ctx context.Context, p *torchsim.Program) *Search {
	f := newFinder(p)
	out := &Search{}
	out.add(newSearch(ctx, f, f.units(false)))
	coarse := f.units(true)
	if !slices.EqualFunc(coarse, f.units(false), func(a, b unit) bool { return a.call == b.call }) {
		out.add(newSearch(ctx, f, coarse))
	}
	return out
}

// add adds a cut, behind one with few options for each unit where measuring all pairs takes long.
func (s *Search) add(cut *search) {
	if cut.large = cut.pairs()*len(cut.p.Steps) > quickSteps; cut.large {
		s.cuts = append(s.cuts, cut.quick(quickOptions))
	}
	s.cuts = append(s.cuts, cut)
}

// pairs is how many simulations the terms of a chain take.
func (s *search) pairs() (n int) {
	before := 1
	for i := range s.units {
		n += before * len(s.units[i].options)
		before = len(s.units[i].options)
	}
	return n
}

// quick is the search with at most so many options of each unit, 2 or more: to recompute no module, all of it, and
// others at equal distances in the order of their costs.
func (s *search) quick(most int) *search {
	x := &search{p: s.p, sim: s.sim, units: slices.Clone(s.units), of: s.of, large: true}
	for i := range x.units {
		u := &x.units[i]
		if len(u.options) <= most {
			continue
		}
		list := []int{0}
		if u.whole > 0 {
			list = append(list, u.whole)
		}
		rest := make([]int, 0, len(u.options))
		for o := 1; o < len(u.options); o++ {
			if o != u.whole {
				rest = append(rest, o)
			}
		}
		slices.SortStableFunc(rest, func(a, b int) int {
			return cmp.Compare(u.options[a].seconds, u.options[b].seconds)
		})
		for n, k := most-len(list), 0; k < n; k++ {
			list = append(list, rest[k*len(rest)/n])
		}
		whole := slices.Index(list, u.whole)
		options := make([]option, len(list))
		for k, o := range list {
			options[k] = u.options[o]
		}
		u.options, u.whole = options, whole
	}
	return x
}

func newSearch(ctx context.Context, f *finder, units []unit) *search {
	s := &search{p: f.p, sim: f.p.Simulator(), units: units}
	for i := range s.units {
		if c := s.units[i].call; c >= 0 {
			s.units[i].block = len(f.children[c]) > 0
		}
	}
	s.assign()
	s.drop()
	base := s.windows(make([]int, len(s.units)))
	for i := range s.units {
		if s.units[i].call >= 0 {
			s.options(ctx, f, base, i)
		}
	}
	return s
}

// measure finds out, once, whether the units form a chain, and its terms. Where that takes long and the context ends
// before, they are taken for none until the next call.
func (s *search) measure(ctx context.Context) {
	if s.measured || !slices.IsSorted(s.of) {
		return
	}
	if !s.large {
		ctx = context.WithoutCancel(ctx)
	}
	tried := s.tried
	s.chain, s.loose = s.newChain(ctx)
	s.tried = tried
	s.measured = ctx.Err() == nil
}

// newChain returns the chain of the units, and by how many bytes its peaks may be too high since it is one of the
// extended program. nil means that the units form no chain, or that the context has ended.
func (s *search) newChain(ctx context.Context) (c *chain, loose int64) {
	far := s.far()
	if len(far) == 0 {
		return newChain(ctx, s), 0
	}
	var bytes int64
	for _, id := range far {
		bytes += s.p.Storages[id].Bytes
	}
	if bytes > s.peak(make([]int, len(s.units)))/smallShare {
		return nil, 0
	}
	x := &search{p: s.extended(far), units: s.units, of: s.of}
	x.sim = x.p.Simulator()
	return newChain(ctx, x), bytes
}

// smallShare is the share of the peak that may count for longer than it lives, so that units are a chain.
const smallShare = 4

// Blocks lists the blocks (search.Blocks) of the finest cut.
func (s *Search) Blocks() Blocks { return s.cuts[0].Blocks() }

// Of simulates a choice of calls.
func (s *Search) Of(calls []int32) *Plan { return s.cuts[0].Of(calls) }

// Best returns the cheapest plan whose peak is at most limit bytes; ok is false without such a plan, and the
// result is then the plan with the lowest peak found.
func (s *Search) Best(ctx context.Context, limit int64) (p *Plan, ok bool) {
	exact, choices := true, 0
	for _, cut := range s.cuts {
		next, fits := cut.Best(ctx, limit)
		exact, choices = exact && next.Exact, choices+next.Choices
		if p == nil || fits && !ok || fits == ok && next.better(p, fits) {
			p, ok = next, fits
		}
	}
	p.Exact, p.Choices = exact, choices
	return p, ok
}

// better reports whether a plan is preferable to another one: the cheaper of two that fit, else the lower one.
func (p *Plan) better(than *Plan, fits bool) bool {
	if fits {
		return p.Usage.Seconds < than.Usage.Seconds
	}
	return p.Usage.Peak < than.Usage.Peak
}

// Blocks lists the units that have modules in them, can be recomputed as a whole and keep less if they do.
func (s *search) Blocks() Blocks {
	var out Blocks
	for i := range s.units {
		if s.units[i].whole >= 0 && s.units[i].block {
			out = append(out, s.units[i].call)
		}
	}
	return out
}

// Of simulates a choice of calls.
func (s *search) Of(calls []int32) *Plan { return &Plan{Calls: calls, Usage: s.sim.Run(calls)} }

// Best is Search.Best in one cut.
func (s *search) Best(ctx context.Context, limit int64) (p *Plan, ok bool) {
	before := s.tried
	choice, exact, ok := s.solve(ctx, limit)
	if !ok {
		choice, exact = s.lowest(ctx, limit)
	}
	p = s.Of(s.callsOf(choice))
	p.Exact, p.Choices = exact && !s.partial, s.tried-before
	return p, ok
}

// solve finds a choice within a limit.
func (s *search) solve(ctx context.Context, limit int64) (choice []int, exact, ok bool) {
	s.measure(ctx)
	if s.chain != nil && s.loose == 0 {
		return s.chained(ctx, limit)
	}
	if !s.manual && s.few() {
		choice, ok = s.all(limit)
		return choice, true, ok
	}
	if s.chain != nil {
		if choice, _, ok = s.chained(ctx, limit); ok {
			return s.lightened(ctx, choice, limit), false, true
		}
		if _, exact, ok = s.chained(ctx, limit+s.loose); !ok && exact {
			return nil, true, false
		}
	}
	if choice, ok = s.local(ctx, limit); !ok && ctx.Err() != nil {
		choice, ok = s.wholes(limit)
	}
	return choice, false, ok
}

// chained finds the cheapest choice of a chain; where the context ends before, a quick one, which is not exact.
func (s *search) chained(ctx context.Context, limit int64) (choice []int, exact, ok bool) {
	choice, ok, err := s.chain.solve(ctx, limit)
	if err != nil {
		choice, ok = s.wholes(limit)
	}
	return choice, err == nil, ok
}

// wholes recomputes as few of the first units as fit, each as a whole: an answer that takes little time.
func (s *search) wholes(limit int64) (choice []int, ok bool) {
	first := func(n int) []int {
		choice := make([]int, len(s.units))
		for i := range n {
			choice[i] = max(s.units[i].whole, 0)
		}
		return choice
	}
	n := sort.Search(len(s.units), func(n int) bool { return s.peak(first(n)) <= limit })
	choice = first(n)
	return choice, s.peak(choice) <= limit
}

// lowest finds a choice of a low peak, above limit: by bisection between limit and a peak that is reached. It
// is exact if the bisection ended before the context did, and each of its searches was.
func (s *search) lowest(ctx context.Context, limit int64) (choice []int, exact bool) {
	choice = make([]int, len(s.units))
	low, high := limit, s.peak(choice)
	if ctx.Err() != nil {
		if all, _ := s.wholes(0); s.peak(all) < high {
			choice = all
		}
		return choice, false
	}
	exact = true
	for high-low > max(high>>10, s.slack(), 1) && ctx.Err() == nil {
		mid := low + (high-low)/2
		c, e, ok := s.solve(ctx, mid)
		exact = exact && e
		if !ok {
			low = mid
			continue
		}
		choice, high = c, min(s.peak(c), mid)
	}
	return choice, exact && s.slack() == 0 && ctx.Err() == nil
}

// lightened takes cheaper options of units for as long as one of them fits: the room that an extended program has left.
func (s *search) lightened(ctx context.Context, choice []int, limit int64) []int {
	for better := true; better && ctx.Err() == nil; {
		better = false
		unit, option, least := 0, 0, s.seconds(choice)
		for i := range choice {
			now := choice[i]
			for o := range s.units[i].options {
				choice[i] = o
				if sec := s.seconds(choice); sec < least && s.peak(choice) <= limit {
					unit, option, least, better = i, o, sec, true
				}
			}
			choice[i] = now
		}
		if better {
			choice[unit] = option
		}
	}
	return choice
}

// slack is by how many bytes the lowest peak that a search finds may be above the lowest of all.
func (s *search) slack() int64 {
	if s.chain == nil || !s.manual && s.few() {
		return 0
	}
	return s.loose
}

// callsOf are the calls of a choice.
func (s *search) callsOf(choice []int) []int32 {
	var out []int32
	for i, o := range choice {
		out = append(out, s.units[i].options[o].calls...)
	}
	return out
}

// peak simulates a choice.
func (s *search) peak(choice []int) int64 {
	s.tried++
	return s.sim.Run(s.callsOf(choice)).Peak
}

// assign notes the unit of every forward step: a block, or the stretch behind the block before.
func (s *search) assign() {
	unitOf := map[int32]int{}
	for i := range s.units {
		if s.units[i].call >= 0 {
			unitOf[s.units[i].call] = i
		}
	}
	s.of = make([]int, s.p.Backward)
	now := 0
	for i := range s.of {
		at := -1
		for c := s.p.Steps[i].Call; c >= 0; c = s.p.Tree.Calls[c].Outer {
			if u, ok := unitOf[c]; ok {
				at = u
			}
		}
		if at < 0 {
			at = now
			if s.units[now].call >= 0 {
				at = now + 1
			}
		}
		now = at
		s.of[i] = at
	}
}

// drop leaves out units without steps.
func (s *search) drop() {
	has := make([]bool, len(s.units))
	for _, u := range s.of {
		has[u] = true
	}
	place := make([]int, len(s.units))
	var kept []unit
	for i, u := range s.units {
		if place[i] = len(kept); has[i] {
			kept = append(kept, u)
		}
	}
	for i, u := range s.of {
		s.of[i] = place[u]
	}
	s.units = kept
}

// options finds the ways to run a unit that are worth trying: no other one keeps as little, reaches as low and
// costs as little. base is the program without recomputation.
func (s *search) options(ctx context.Context, f *finder, base *windows, i int) {
	type measured struct {
		option
		kept, reach int64
	}
	choice := make([]int, len(s.units))
	u := &s.units[i]
	list := []measured{{option{}, base.kept[i], base.reach[i]}}
	for k, calls := range f.candidates(u.call) {
		if k > 0 && s.tried*len(s.p.Steps) > freeSteps && ctx.Err() != nil {
			s.partial = true
			break
		}
		u.options = append(u.options[:1], option{calls: calls})
		choice[i] = 1
		w := s.windows(choice)
		o := option{calls: calls, seconds: w.usage.Seconds}
		if w.total() >= base.total() && w.reach[i] >= base.reach[i] {
			continue // no gain
		}
		list = append(list, measured{o, w.total(), w.reach[i]})
	}
	list[0].kept = base.total()
	u.options = nil
	for k, m := range list {
		dominated := slices.ContainsFunc(list, func(x measured) bool {
			return x.kept <= m.kept && x.reach <= m.reach && x.seconds <= m.seconds &&
				(x.kept < m.kept || x.reach < m.reach || x.seconds < m.seconds)
		})
		whole := len(m.calls) == 1 && m.calls[0] == u.call
		if k > 0 && dominated && !whole || len(u.options) >= maxOptions {
			continue
		}
		if whole {
			u.whole = len(u.options)
		}
		u.options = append(u.options, m.option)
	}
}
