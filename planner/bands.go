package planner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/timelimit"
	"memopt/planner/envelope"
	"memopt/symbolic"
)

// Band is a plan for the sizes of a symbol from Lo to Hi.
type Band struct {
	Lo, Hi int64
	// Share is that of the steps whose size is in the band, Mean their mean size.
	Share float64
	Mean  int64
	Plan  *Plan // as MakeSpan returns it
	// Seconds is the time of a step of the mean size without recomputation, Overhead its further time with the plan, as
	// a share of that.
	Seconds, Overhead float64
}

// Bands are plans for sizes that differ from step to step. All keep within one budget, so they share one arena as
// large as the largest of theirs.
type Bands struct {
	Histogram *Histogram
	// Quantile is the share of steps whose memory is within the budget. Longer ones have the plan of the last band
	// and may take more: Beyond is their share, Longest the longest, and Most the bytes that it takes; all 0 where
	// there are none.
	Quantile float64
	List     []Band // in ascending order of sizes
	Beyond   float64
	Longest  int64
	Most     int64
	// Overhead is the expected further time of a step within the quantile, as a share of the expected time without
	// recomputation; One is that with one plan for all sizes; Single with a plan for each of the sizes that were tried
	// as ends of bands.
	Overhead, One, Single float64
}

// candidateEnds is how many sizes are tried as ends of bands.
const candidateEnds = 8

// enoughSaved is the share of the time by which a further band has to lower the expected time of a step.
const enoughSaved = 1e-4

// bandShare is the part of the time that the search for the ends of bands has.
const bandShare = 0.5

// MakeBands plans for sizes of a symbol that differ from step to step: at most so many plans, each for a band of
// sizes, so that the expected time of a step is the least that was found, where a share of the steps (the quantile,
// above 0 and at most 1) is within the budget. The strategy must be a Budget of bytes, in memopt's own arena. Errors
// are those of MakeSpan.
//
// A plan is sought for each of up to 8 sizes. Its cost is known at all smaller ones, and a dynamic program picks the
// ends of bands among them. The plan of each band is that of its end, or MakeSpan's where that does not fit in all of
// it. Bands without a plan are given up for narrower ones: other ends are picked, and where a band has a single end,
// its sizes are divided at a further one.
func MakeBands(ctx context.Context, m *graph.Model, types *op.Result, opts Options, h *Histogram, most int,
	quantile float64) (*Bands, error) {
	if most < 1 || !(quantile > 0 && quantile <= 1) {
		return nil, fmt.Errorf("%d plans for a share of %g of the steps: wanted 1 or more, and a share above 0 and of "+
			"at most 1", most, quantile)
	}
	if err := checkSpan(&opts); err != nil {
		return nil, err
	}
	b := &bander{spanner: spanner{ctx: ctx, model: m, types: types, opts: opts, budget: *opts.Budget()}, h: h}
	b.lo, b.ends = h.Lengths[0].Size, h.ends(candidateEnds, h.Quantile(quantile))
	if err := b.try(); err != nil {
		return nil, err
	}
	out := &Bands{Histogram: h, Quantile: quantile, One: b.expected([]int{len(b.ends) - 1})}
	every := make([]int, len(b.ends))
	for i := range every {
		every[i] = i
	}
	out.Single = b.expected(every)
	if err := b.cover(out, most); err != nil {
		return nil, err
	}
	return out, b.beyond(out)
}

// bander looks for plans for bands.
type bander struct {
	spanner
	h     *Histogram
	lo    int64
	ends  []int64
	share []float64 // by end: of the steps from the end before it on
	means []int64
	// seconds is by end the time of a step of the mean size without recomputation; cost by end j and end i <= j that
	// with the plan for j.
	seconds []float64
	cost    [][]float64
	plans   []*Plan // by end; nil where a plan for a larger one recomputes nodes nowhere
	// spans has the plans for bands that were sought, by their sizes; nil where there is none.
	spans map[symbolic.Range]*Plan
}

// env binds the symbol.
func (b *bander) env(size int64) symbolic.Env { return symbolic.Env{b.h.Symbol: size} }

// try plans for each of the ends, and finds the cost of each plan at the smaller ones.
func (b *bander) try() error {
	n := len(b.ends)
	b.cost, b.plans, b.spans = make([][]float64, n), make([]*Plan, n), map[symbolic.Range]*Plan{}
	if err := b.weigh(); err != nil {
		return err
	}
	ctx, done := timelimit.Share(b.ctx, bandShare)
	defer done()
	free := false                 // the plan for a larger end recomputes nodes nowhere
	for j := n - 1; j >= 0; j-- { // the largest first: where that does not fit, no other counts
		if !free {
			within, end := timelimit.Share(ctx, 1/float64(j+1))
			err := b.plan(within, j)
			end()
			if err != nil {
				return err
			}
			free = b.plans[j].Overhead == 0
		}
		if err := b.judge(b.plans[j], j); err != nil {
			return err
		}
	}
	return nil
}

// weigh finds the share, the mean and the time of the steps between the ends.
func (b *bander) weigh() error {
	b.share, b.means, b.seconds = nil, nil, nil
	low := int64(math.MinInt64)
	for _, hi := range b.ends {
		share, mean := b.h.part(low, hi)
		here, err := b.at(timelimit.Without(b.ctx), b.env(mean), nil)
		if err != nil {
			return err
		}
		b.share, b.means, low = append(b.share, share), append(b.means, mean), hi
		b.seconds = append(b.seconds, here.Step.Seconds)
	}
	return nil
}

// judge finds the cost of the plan for an end at the mean sizes up to its own.
func (b *bander) judge(p *Plan, j int) error {
	b.cost[j] = make([]float64, j+1)
	if p == nil || p.Overhead == 0 {
		return nil
	}
	for i := range b.cost[j] {
		here, err := b.at(timelimit.Without(b.ctx), b.env(b.means[i]), p.Saved())
		if err != nil {
			return err
		}
		b.cost[j][i] = here.Overhead
	}
	return nil
}

// expected is the further time of a step with plans for some of the ends, as a share.
func (b *bander) expected(picked []int) float64 {
	time, more, i := 0.0, 0.0, 0
	for _, j := range picked {
		for ; i <= j; i++ {
			t := b.share[i] * b.seconds[i]
			time, more = time+t, more+t*b.cost[j][i]
		}
	}
	if time == 0 {
		return 0
	}
	return more / time
}

// pick returns the ends of at most so many bands that take the least expected time. It takes fewer where a further
// one saves less than enoughSaved, and none where each choice has a band without a plan.
func (b *bander) pick(most int) []int {
	n := len(b.ends)
	type state struct {
		more float64
		from int // the end of the band before, or -1
	}
	best := make([][]state, min(most, n)) // by number of bands less 1, by last end
	for k := range best {
		best[k] = make([]state, n)
		for j := range n {
			best[k][j] = state{b.more(0, j), -1}
			for i := 0; k > 0 && i < j; i++ {
				if x := best[k-1][i].more + b.more(i+1, j); x < best[k][j].more {
					best[k][j] = state{x, i}
				}
			}
		}
	}
	time := 0.0
	for i := range b.ends {
		time += b.share[i] * b.seconds[i]
	}
	k := 0
	for x := 1; x < len(best); x++ {
		if best[x][n-1].more < best[k][n-1].more-enoughSaved*time {
			k = x
		}
	}
	if math.IsInf(best[k][n-1].more, 1) {
		return nil
	}
	var picked []int
	for j := n - 1; j >= 0; k-- {
		picked = append([]int{j}, picked...)
		j = best[k][j].from
	}
	return picked
}

// more is the further time of the steps of a band from one end to another; infinite where it has no plan.
func (b *bander) more(from, to int) (sum float64) {
	if p, sought := b.spans[b.sizes(from, to)]; sought && p == nil {
		return math.Inf(1)
	}
	for i := from; i <= to; i++ {
		sum += b.share[i] * b.seconds[i] * b.cost[to][i]
	}
	return sum
}

// sizes are those of a band from one end to another.
func (b *bander) sizes(from, to int) symbolic.Range {
	r := symbolic.Range{Lo: b.lo, Hi: b.ends[to]}
	if from > 0 {
		r.Lo = b.ends[from-1] + 1
	}
	return r
}

// maxEnds is how many ends there are at most where bands without a plan are divided, maxTries how often bands are
// picked.
const (
	maxEnds  = 2 * candidateEnds
	maxTries = 32
)

// cover makes the plans of at most so many bands. Where a band has none, it picks others, or divides it.
func (b *bander) cover(out *Bands, most int) error {
	err := ErrInfeasible
	for range maxTries {
		picked := b.pick(most)
		if picked == nil {
			divided, fault := b.divide()
			if fault != nil {
				return fault
			}
			if !divided {
				break
			}
			continue
		}
		if err = b.fill(out, picked); !errors.Is(err, ErrInfeasible) {
			return err
		}
	}
	return fmt.Errorf("no bands that all have plans, %d at most: %w", most, err)
}

// divide makes the middle of a band of one end that has no plan an end, too; false if there is no such band.
func (b *bander) divide() (bool, error) {
	for i := range b.ends {
		r := b.sizes(i, i)
		if p, sought := b.spans[r]; p != nil || !sought || r.Lo == r.Hi || len(b.ends) == maxEnds {
			continue
		}
		b.ends, b.plans = slices.Insert(b.ends, i, r.Lo+(r.Hi-r.Lo)/2), slices.Insert(b.plans, i, nil)
		b.cost = make([][]float64, len(b.ends))
		if err := b.weigh(); err != nil {
			return true, err
		}
		if next := b.plans[i+1]; next != nil && next.Overhead > 0 {
			if err := b.plan(b.ctx, i); err != nil {
				return true, err
			}
		}
		for j, p := range b.plans {
			if err := b.judge(p, j); err != nil {
				return true, err
			}
		}
		return true, nil
	}
	return false, nil
}

// plan seeks a plan for an end. Where none is found, that for the next larger end is its plan.
func (b *bander) plan(ctx context.Context, j int) error {
	p, err := b.at(ctx, b.env(b.ends[j]), b.budget)
	if errors.Is(err, ErrInfeasible) && j < len(b.ends)-1 {
		p, err = b.plans[j+1], nil
	}
	if err != nil {
		return fmt.Errorf("at %s=%d: %w", b.h.Symbol, b.ends[j], err)
	}
	b.plans[j] = p
	return nil
}

// fill makes the plans of the bands that end at the picked sizes. After ErrInfeasible, spans has the one without a
// plan.
func (b *bander) fill(out *Bands, picked []int) (err error) {
	out.List = nil
	time, more, from := 0.0, 0.0, 0
	low := int64(math.MinInt64)
	for k, j := range picked {
		r := b.sizes(from, j)
		band := Band{Lo: r.Lo, Hi: r.Hi}
		band.Share, band.Mean = b.h.part(low, band.Hi)
		p, sought := b.spans[r]
		if !sought {
			if p, err = b.span(r, b.plans[j], 1/float64(len(picked)-k)); errors.Is(err, ErrInfeasible) {
				b.spans[r] = nil
			}
			if err != nil {
				return err
			}
			b.spans[r] = p
		}
		here, err := b.at(timelimit.Without(b.ctx), b.env(band.Mean), p.Saved())
		if err != nil {
			return err
		}
		band.Plan, band.Overhead, band.Seconds = p, here.Overhead, here.Baseline().Step.Seconds
		t := band.Share * band.Seconds
		time, more = time+t, more+t*band.Overhead
		out.List = append(out.List, band)
		from, low = j+1, band.Hi
	}
	if time > 0 {
		out.Overhead = more / time
	}
	return nil
}

// span is a plan for a band, if there is one that of its largest size, found in a share of the time.
func (b *bander) span(r symbolic.Range, largest *Plan, share float64) (*Plan, error) {
	ctx, done := timelimit.Share(b.ctx, share)
	defer done()
	s := b.spanner
	s.ctx, s.box = ctx, envelope.Box{{Symbol: b.h.Symbol, Lo: r.Lo, Hi: r.Hi}}
	p, err := s.known(largest)
	if p == nil && err == nil {
		p, err = s.find()
	}
	return p, err
}

// known is a plan for the largest sizes if it fits at all others, too; else nil.
func (s *spanner) known(p *Plan) (*Plan, error) {
	if p == nil {
		return nil, nil
	}
	span, err := s.prove(p)
	if err != nil || !s.fits(span.Most) {
		return nil, err
	}
	return s.adopt(p, span)
}

// beyond finds the memory of steps that are longer than the quantile.
func (b *bander) beyond(out *Bands) error {
	last := &out.List[len(out.List)-1]
	longest := b.h.Range().Hi
	if longest <= last.Hi {
		return nil
	}
	here, err := b.at(timelimit.Without(b.ctx), b.env(longest), last.Plan.Saved())
	if err != nil {
		return err
	}
	out.Beyond, _ = b.h.part(last.Hi, longest)
	out.Longest, out.Most = longest, here.Arena.Bytes
	if b.budget.Total > 0 {
		out.Most += here.Persistent
	}
	return nil
}
