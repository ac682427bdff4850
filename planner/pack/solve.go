package pack

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// Solve packs the buffers. With a capacity it returns as soon as they fit, and reports
// ErrInfeasible or ErrTimeLimit with the best packing found if they do not. Without one it looks
// for the smallest arena until that is proved, the nodes are used up or the context ends; ending
// early is then not an error, but Optimal is false. A result that is not nil is valid.
//
// The greedy orders come first. For the groups of buffers that they did not
// settle, rounds of the exact search follow, each round with more nodes than the one before.
func Solve(ctx context.Context, buffers []Buffer, opts Options) (*Result, error) {
	if err := validate(buffers); err != nil {
		return nil, err
	}
	s := newSolver(ctx, buffers, opts)
	for !s.done() {
		s.round(s.worst())
	}
	r := s.result()
	switch {
	case opts.Capacity <= 0 || r.Height <= opts.Capacity:
		return r, nil
	case r.LowerBound > opts.Capacity:
		return r, ErrInfeasible
	case ctx.Err() != nil:
		return r, fmt.Errorf("%w: %w", ErrTimeLimit, context.Cause(ctx))
	}
	return r, ErrTimeLimit
}

// group is a problem in the hands of the solver.
type group struct {
	*problem
	best  answer
	low   int64 // no packing is lower
	exact *exact
	shake *shaker
	round int
	ranks [][]int32 // by exactOrders
}

// bytes of the best packing and of the bound.
func (g *group) height() int64 { return g.best.height * g.unit }
func (g *group) bound() int64  { return g.low * g.unit }

// solver is one call of Solve.
type solver struct {
	ctx      context.Context
	opts     Options
	buffers  int
	groups   []*group
	nodes    int64
	progress int64 // nodes until the next call of the caller's function
	method   string
	height   int64 // last reported
}

func newSolver(ctx context.Context, buffers []Buffer, opts Options) *solver {
	s := &solver{ctx: ctx, opts: opts, buffers: len(buffers), method: "greedy", height: math.MaxInt64}
	for _, p := range split(buffers) {
		s.groups = append(s.groups, &group{problem: p, low: p.bound})
	}
	goal, halt := max(s.lower(), opts.Capacity), s.halt
	if opts.Capacity > 0 && s.lower() > opts.Capacity {
		halt = func(int64) bool { return true } // no packing fits: the first will do
	}
	for _, g := range s.groups {
		enough := g.enough(goal / g.unit)
		if opts.Capacity > 0 {
			enough = math.MaxInt64 // the exact search is as fast, and may prove infeasibility
		}
		g.best = g.greedy(goal/g.unit, enough, greedyWork, halt)
	}
	s.report()
	return s
}

// lower is the bound of the whole, and upper the height of its best packing.
func (s *solver) lower() int64 {
	low := int64(0)
	for _, g := range s.groups {
		low = max(low, g.bound())
	}
	return low
}

func (s *solver) upper() int64 {
	top := int64(0)
	for _, g := range s.groups {
		top = max(top, g.height())
	}
	return top
}

// goal is the height that is good enough.
func (s *solver) goal() int64 { return max(s.lower(), s.opts.Capacity) }

// ended reports whether the context is done or the nodes are used up.
func (s *solver) ended() bool {
	return s.ctx.Err() != nil || s.opts.Nodes > 0 && s.nodes >= s.opts.Nodes
}

// halt is the halt of greedy orders.
func (s *solver) halt(work int64) bool { return haltAt(s.ctx)(work) || s.ended() }

func (s *solver) done() bool {
	return s.ended() || s.upper() <= s.goal() || s.opts.Capacity > 0 && s.lower() > s.opts.Capacity
}

// worst is the group to work on: of those above the goal, the one with the fewest rounds; of
// several, the highest.
func (s *solver) worst() *group {
	goal := s.goal()
	var open []*group
	for _, g := range s.groups {
		if g.height() > goal {
			open = append(open, g)
		}
	}
	return slices.MinFunc(open, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(b.height(), a.height()))
	})
}

// result gathers the packings of the groups.
func (s *solver) result() *Result {
	r := &Result{Offsets: make([]int64, s.buffers), LowerBound: s.lower(), Nodes: s.nodes}
	for _, g := range s.groups {
		r.take(g.problem, g.best)
	}
	r.Optimal = r.Height == r.LowerBound
	return r
}

// report tells the caller about a lower packing, and from time to time about the work done.
func (s *solver) report() {
	if s.opts.Progress == nil {
		return
	}
	height := s.upper()
	if height >= s.height && s.nodes < s.progress {
		return
	}
	s.height, s.progress = height, s.nodes+progressNodes
	s.opts.Progress(Progress{Height: height, LowerBound: s.lower(), Nodes: s.nodes, Method: s.method})
}

// progressNodes is the work between two reports without news.
const progressNodes = 1 << 14
