package remat

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"
)

// A task that runs again between two moments and again behind both costs twice, and a value may be held over one
// moment and not over the other. So several moments t1 < t2 < … prove more than the best of them: the net has a copy
// of the cut of each, with a price of its own for the bytes there.
//
// The node of task x in copy j stands for a run of x again in the intervals from j up to the first one in which a first
// run reads an output of x, or up to the last one. This reader needs the output held over moment j or made again by
// then, so copies up to that interval share a run (the node of the later copy implies that of the earlier one), and
// copies behind it begin another run, which costs again. A reader that runs again asks for an input only where
// its own intervals end no later than those of the task that makes the input; elsewhere the input may be made again
// behind the reader.
//
// Recomputation takes time in which the link carries bytes, for the moments behind it: with prices p by moment,
// a run of cost c in interval j costs c*(1 - rate*(p of the moments behind j)), and the last of the intervals that it
// may stand in costs most. The prices together are at most those of mostPrice, so further waiting costs no less than
// it gains (see bound_moved.go).

// spans are the intervals of the copy of one moment.
type spans struct {
	due []int32 // by value: the interval of the next first run that reads it behind the moment, or never
	end []int32 // by task: the last interval that its node stands for, or the number of moments
}

const never = math.MaxInt32

// asks tells whether task x needs its input u behind the moment whenever x runs again and the task of u does not.
func (c *momentCut) asks(x, u int32) bool {
	return c.spans == nil || c.spans.end[x] <= c.spans.end[c.maker[u]]
}

// momentsCut is the minimum cut of several moments.
type momentsCut struct {
	*bounder
	net    flowNet
	times  []int32 // the moments, in ascending order
	copies []*momentCut
	runs   []sharedRun
	chains []int32 // arcs without end between copies

	prices []float64
	value  float64   // cost that the last choice proves, negative where it proves none
	excess []float64 // bytes beyond those that are free, by moment, of the last choice
}

// sharedRun is the node of a task in one copy.
type sharedRun struct {
	arc, task, copy int32
	begins          bool // the first copy of its run
}

func newMomentsCut(b *bounder, times []int32) *momentsCut {
	s := &momentsCut{bounder: b, times: times, excess: make([]float64, len(times))}
	nodes := int32(2)
	for j, t := range times {
		c := newMomentCut(b.moments)
		c.net, c.base, c.move = &s.net, nodes, true
		c.spans = b.spansAt(times, j)
		s.copies = append(s.copies, c)
		nodes += t
	}
	s.net.reset(int(nodes))
	for j, t := range times {
		s.copies[j].fill(t)
		s.chains = append(s.chains, s.copies[j].ends...)
	}
	s.share()
	return s
}

// spansAt finds the intervals of the copy of moment j.
func (b *bounder) spansAt(times []int32, j int) *spans {
	s := &spans{due: make([]int32, len(b.maker)), end: make([]int32, b.n)}
	for v := range s.due {
		s.due[v] = never
	}
	interval := int32(len(times) - 1)
	for r := int32(b.n) - 1; r > times[j]; r-- {
		for r <= times[interval] {
			interval--
		}
		for _, u := range b.g.Tasks[r].Uses {
			s.due[u] = interval
		}
	}
	for x := range s.end {
		s.end[x] = int32(len(times))
		for _, v := range b.g.Tasks[x].Makes {
			s.end[x] = min(s.end[x], s.due[v])
		}
	}
	return s
}

// share adds the arcs of runs, and between the copies that share one.
func (s *momentsCut) share() {
	for x := range s.times[len(s.times)-1] {
		if s.g.Tasks[x].Once {
			continue
		}
		for j, c := range s.copies {
			if x >= c.t {
				continue
			}
			begins := j == 0 || x >= s.times[j-1] || s.copies[j-1].spans.end[x] < int32(j)
			s.runs = append(s.runs, sharedRun{s.net.arc(c.base+x, flowSink), x, int32(j), begins})
			if !begins {
				s.chains = append(s.chains, s.net.arc(c.base+x, s.copies[j-1].base+x))
			}
		}
	}
}

// spent is the counted work.
func (s *momentsCut) spent() int64 {
	work := s.net.work + int64(len(s.runs))
	for _, c := range s.copies {
		work += c.steps
	}
	return work
}

// behind is the sum of the prices of the moments behind the interval of a copy.
func (s *momentsCut) behind(j int32) (sum float64) {
	for _, p := range s.prices[j+1:] {
		sum += p
	}
	return sum
}

// price returns the bound that prices of a byte by moment prove, and finds the excess of the cheapest choice if the
// work was enough.
func (s *momentsCut) price(prices []float64, limit int64) (proved int64, full bool) {
	s.prices = prices
	scale := 60 - bits.Len(uint(len(prices))) -
		max(bits.Len64(uint64(s.cost)), exponent(slices.Max(prices))+bits.Len64(uint64(s.moments.bytes)))
	free := int64(0)
	for j, c := range s.copies {
		perByte := newRatio(prices[j], scale)
		for _, h := range c.held {
			s.net.capacity(h.arc, perByte.times(h.size, false))
		}
		for _, r := range c.runs {
			s.net.capacity(r.arc, 0) // see runs
		}
		if over := c.fixed - s.budgetAt(int(c.t)); over > 0 {
			free -= perByte.times(over, false)
		} else {
			free += perByte.times(-over, true)
		}
	}
	for _, r := range s.runs {
		share := s.link.rate * prices[r.copy]
		if r.begins {
			share = 1 - s.link.rate*s.behind(r.copy)*(1+1e-12)
		}
		s.net.capacity(r.arc, newRatio(max(0, share), scale).times(s.g.Tasks[r.task].Cost, false))
	}
	for _, a := range s.chains {
		s.net.capacity(a, flowEndless)
	}
	flow, full := s.net.maximum(s.net.work + min(limit, math.MaxInt64/2))
	if flow -= free; flow > 0 {
		proved = shiftUp(flow, scale)
	}
	if s.value = math.Ldexp(float64(flow), -scale); full {
		s.choose()
	}
	return proved, full
}

// choose finds the excess of the last choice.
func (s *momentsCut) choose() {
	s.net.sourceSide()
	for j, c := range s.copies {
		bytes := c.fixed - s.budgetAt(int(c.t))
		for _, h := range c.held {
			if c.cuts(h) {
				bytes += h.size
			}
		}
		s.excess[j] = float64(bytes)
	}
	clear(s.again)
	for _, r := range s.runs {
		if s.net.level[s.copies[r.copy].base+r.task] != 1 {
			continue
		}
		s.again[r.task] = true
		carried := s.link.rate * float64(s.g.Tasks[r.task].Cost)
		if !r.begins {
			s.excess[r.copy] += carried
			continue
		}
		for j := int(r.copy) + 1; j < len(s.excess); j++ {
			s.excess[j] -= carried
		}
	}
}

// Prices are improved by the ellipsoid method with deep cuts (Bland, Goldfarb and Todd, "The ellipsoid method: a
// survey", 1981): the bound is concave in them, and the excess of a choice is its slope. Moments are added one by one
// where the mean of the choices at the newest prices takes more bytes than are free: such a mean tends to the best
// mixture of choices (Anstreicher and Wolsey, "Two 'well-known' properties of subgradient optimization", 2009), and a
// single choice may lack bytes elsewhere.
const (
	mostMoments = 4
	mostStarts  = 2    // moments that sets begin with
	together    = 3    // moments up to which sets from all of them are extended; then the best one is
	mostLacking = 12   // moments that are tried to extend a set
	mostFull    = 3    // sets, of those that are tried with few cuts, whose prices are looked for with all
	firstPrice  = 0.1  // of a moment that is added, as a share of the best price of one moment
	firstWidth  = 1.0  // of the first ellipsoid, likewise
	closeWidth  = 0.3  // and where a moment takes the place of one close to it
	fewCuts     = 3    // by moment in the first search for prices
	mostCuts    = 12   // and in each other one
	nearby      = 6    // moments on either side may take the place of one
	leastGain   = 1e-4 // of the bound, for which another moment is taken
	memory      = 0.8  // of a mean of choices: the share of those before
	fairChoice  = 0.9  // of the best bound, from which a choice counts in it
)

// momentSet is moments with prices, and the bound that these prove.
type momentSet struct {
	times  []int32
	prices []float64
	proved int64
	over   []float64 // by moment: bytes beyond those that are free, in the mean of choices; nil without any
}

// several raises the bound of the best moment by that of further ones, for so much counted work.
func (b *bounder) several(work int64) {
	if b.link == nil || b.best == math.MaxInt64 || b.alone.extra <= 0 || b.alone.price <= 0 {
		return
	}
	r := &raiser{bounder: b, end: b.spent() + work, unit: b.alone.price}
	single := r.raise(momentSet{times: []int32{b.alone.t}, prices: []float64{r.unit}}, firstWidth, mostCuts)
	sets := r.sieved(r.close(single), closeWidth, single)
	sets = sets[:min(mostStarts, len(sets))]
	for len(sets) > 0 && !r.over() {
		var next []momentSet
		for _, s := range sets {
			if longer := r.sieved(r.grown(s), firstWidth, s)[0]; longer.gains(s) {
				next = append(next, longer)
			} else if close := r.sieved(r.close(s), closeWidth, s)[0]; close.gains(s) {
				next = append(next, close)
			}
			b.best = max(b.best, s.proved)
		}
		if sets = r.largest(next); len(sets) > 0 {
			b.best = max(b.best, sets[0].proved)
			if len(sets[0].times) >= together {
				sets = sets[:1]
			}
		}
	}
}

// gains tells whether a set proves more than another one.
func (s *momentSet) gains(than momentSet) bool {
	return float64(s.proved) > float64(than.proved)*(1+leastGain)
}

// raiser is the state of several.
type raiser struct {
	*bounder
	end  int64 // of the counted work
	unit float64
}

// over reports whether the work is used up.
func (r *raiser) over() bool { return r.spent() >= r.end || r.ctx.Err() != nil }

// sieved raises the bounds of sets, most of them with few cuts, and returns the best and a given one in descending
// order of their bounds.
func (r *raiser) sieved(sets []momentSet, width float64, also momentSet) []momentSet {
	for i := range sets {
		sets[i] = r.raise(sets[i], width, fewCuts)
	}
	sets = r.largest(sets)
	sets = sets[:min(len(sets), mostFull)]
	for i := range sets {
		if more := r.raise(sets[i], width/2, mostCuts); more.proved > sets[i].proved {
			sets[i] = more
		}
	}
	return r.largest(append(sets, also))
}

// largest is the sets in descending order of their bounds.
func (r *raiser) largest(sets []momentSet) []momentSet {
	slices.SortStableFunc(sets, func(a, b momentSet) int {
		return cmp.Or(cmp.Compare(b.proved, a.proved), slices.Compare(a.times, b.times))
	})
	return slices.CompactFunc(sets, func(a, b momentSet) bool { return slices.Equal(a.times, b.times) })
}

// grown is the set with one of the moments more where its choices take most bytes beyond those that are free.
func (r *raiser) grown(s momentSet) (sets []momentSet) {
	if len(s.times) == mostMoments {
		return nil
	}
	for _, at := range r.lacking(s) {
		place, _ := slices.BinarySearch(s.times, at)
		sets = append(sets, momentSet{times: slices.Insert(slices.Clone(s.times), place, at),
			prices: slices.Insert(slices.Clone(s.prices), place, firstPrice*r.unit)})
	}
	return sets
}

// lacking lists moments where the choices of a set take more bytes than are free, and no fewer than right before and
// behind: those with the most first.
func (r *raiser) lacking(s momentSet) (list []int32) {
	for t, bytes := range s.over {
		if bytes > 0 && bytes >= s.over[max(0, t-1)] && bytes >= s.over[min(r.n-1, t+1)] &&
			!slices.Contains(s.times, int32(t)) {
			list = append(list, int32(t))
		}
	}
	slices.SortStableFunc(list, func(a, b int32) int { return cmp.Compare(s.over[b], s.over[a]) })
	return list[:min(len(list), mostLacking)]
}

// close is the set with a moment close to one of its own in place of that.
func (r *raiser) close(s momentSet) (sets []momentSet) {
	for i, was := range s.times {
		for at := max(0, was-nearby); at <= min(was+nearby, int32(r.n)-1); at++ {
			times := slices.Clone(s.times)
			if times[i] = at; at != was && increasing(times) {
				sets = append(sets, momentSet{times: times, prices: s.prices})
			}
		}
	}
	return sets
}

func increasing(list []int32) bool {
	for i := range list {
		if i > 0 && list[i] <= list[i-1] {
			return false
		}
	}
	return true
}

// raise looks for the best prices of the moments of a set, from its own on, at first within a distance, with so many
// cuts by moment.
func (r *raiser) raise(s momentSet, width float64, cuts int) momentSet {
	best, n := momentSet{times: s.times, prices: s.prices}, len(s.times)
	if r.over() {
		return best
	}
	cut := newMomentsCut(r.bounder, s.times)
	defer func() { r.work += cut.spent() }()
	e := newEllipsoid(slices.Clone(s.prices), width*r.unit)
	for range cuts * n {
		slope, depth := make([]float64, n), 0.0
		over := sum(e.at) - r.mostPrice()
		i := slices.IndexFunc(e.at, func(p float64) bool { return p < 0 })
		switch {
		case i >= 0:
			slope[i], depth = 1, -e.at[i]
		case over > 0:
			for j := range slope {
				slope[j] = -1
			}
			depth = over
		default:
			proved, full := cut.price(e.at, r.end-r.spent()-cut.spent())
			if proved > best.proved {
				best.proved, best.prices = proved, slices.Clone(e.at)
			}
			if !full {
				return best
			}
			if float64(proved) >= fairChoice*float64(best.proved) {
				r.remember(&best)
			}
			copy(slope, cut.excess)
			depth = max(0, float64(best.proved)-cut.value)
		}
		if !e.cut(slope, depth) {
			break
		}
	}
	return best
}

// remember takes the newest choice into the mean of a set.
func (r *raiser) remember(s *momentSet) {
	r.judge(r.again)
	if s.over == nil {
		s.over = make([]float64, r.n)
	}
	for t, bytes := range r.bytes {
		s.over[t] = memory*s.over[t] + (1-memory)*float64(bytes-r.budgetAt(t))
	}
}

func sum(list []float64) (total float64) {
	for _, x := range list {
		total += x
	}
	return total
}

// MovedSum is MovedBound with moments that prove more together than the best of them: for counted work twice
// as much as for one moment.
func (g *Graph) MovedSum(ctx context.Context, budget int64, rate float64, work int64) int64 {
	if rate <= 0 {
		return g.CostBound(ctx, budget, work)
	}
	b := newBounder(ctx, newMoments(g), budget, work)
	b.link, b.cut.move = newCarried(g, rate), true
	if b.run(); b.spent() < b.limit {
		b.several(work)
	}
	return b.best
}
