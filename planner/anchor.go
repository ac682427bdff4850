package planner

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner/place"
	"memopt/recompute"
	"memopt/symbolic"
)

const (
	// anchorSlack: of two sets of anchors, that with fewer nodes is taken where it peaks by at most
	// 1/128 higher in ONNX Runtime's arena.
	anchorSlack = 128
	// robustSlack: sets are left out whose live bytes peak by more than 1/32 above the lowest such
	// peak in several orders.
	robustSlack = 32
	// maxAnchorStride is the largest distance at which places without clones are tried.
	maxAnchorStride = 64
)

// Anchoring is what keeps a rewritten graph's order, and so its peak, in a runtime that orders
// nodes by itself.
type Anchoring struct {
	Anchors []recompute.Anchor
	Nodes   int // that the anchors are made of
	// Peaks of the live bytes in the default order of stock ONNX Runtime: of the graph as it is, of
	// the rewritten graph without anchors, and with them.
	Base, Bare, Anchored int64
	// BaseArena and AnchoredArena are the bytes in use in its arena then, which hands out chunks of
	// up to twice what is asked for.
	BaseArena, AnchoredArena int64
	Planned                  int64 // of the rewritten graph in the planned order, with the same kernels
	Simulated                bool  // whether the peaks are known: not where symbols are unbound
	Warnings                 []string
}

// anchorNodeSeconds is what a node of an anchor costs: the dispatch of a node that moves no data,
// measured in ONNX Runtime 1.30.
const anchorNodeSeconds = 0.4e-6

// Seconds estimates the time that the anchors take in one step.
func (a *Anchoring) Seconds() float64 { return float64(a.Nodes) * anchorNodeSeconds }

// Anchor decides which anchors the plan's rewritten graph needs to keep its peak in stock ONNX
// Runtime's default order.
//
// An anchor stands at every place where nodes run again: these would otherwise run in the forward
// half, and be merged with their originals. In between, anchors stand behind the last nodes of the
// backward half, such as weight gradients, which the default order puts off to the end, as far as
// the simulated peak in that order falls. That helps a plan that recomputes nothing, too. Where
// symbols are unbound, their places are those that suit usual sizes.
func (p *Plan) Anchor() (*Anchoring, error) {
	if p.Sizes != nil {
		return p.anchor(false)
	}
	guess, err := p.withUsualDims()
	if err != nil {
		return &Anchoring{Warnings: []string{fmt.Sprintf("no anchors are written, because no sizes are known: %v; bind symbols with --dim", err)}}, nil
	}
	out, err := guess.anchor(true)
	if err == nil {
		out = &Anchoring{Anchors: out.Anchors, Nodes: out.Nodes, Warnings: out.Warnings}
	}
	return out, err
}

// usualDim is what an unbound symbol is taken to be where only the order of sizes counts.
const usualDim = 64

// withUsualDims returns a copy of a plan without sizes in which every symbol is bound.
func (p *Plan) withUsualDims() (*Plan, error) {
	q := *p
	q.Options.Dims = maps.Clone(p.Options.Dims)
	if q.Options.Dims == nil {
		q.Options.Dims = symbolic.Env{}
	}
	for _, symbol := range p.Unbound {
		q.Options.Dims[symbol] = usualDim
	}
	var err error
	if q.Sizes, err = live.EvalSizes(p.Analysis.Graph, q.Options.Dims); err != nil {
		return nil, err
	}
	q.bench = place.NewBench(q.Analysis, q.Sizes, place.Memory{})
	return &q, nil
}

// anchor decides about anchors. always says that the simulated peaks are no reason to leave them
// out.
func (p *Plan) anchor(always bool) (*Anchoring, error) {
	base := live.NewProgram(p.Model.Graph, graph.FileOrder(p.Model.Graph), p.Sizes)
	// ONNX Runtime's kernels have a workspace of their own.
	bench := place.NewBench(p.Analysis, p.Sizes, place.Memory{CloneBytes: p.bench.Memory.CloneBytes})
	e, err := bench.Simulate(p.Placements)
	if err != nil {
		return nil, err
	}
	a, err := newAnchorSearch(p, e)
	if err != nil {
		return nil, err
	}
	out := &Anchoring{Simulated: true}
	out.Base, out.BaseArena = a.peaks(base)
	out.Bare, out.AnchoredArena = a.peaks(a.program)
	out.Anchored, out.Planned = out.Bare, a.limit
	if p.Model.OpsetVersion("") < recompute.MinAnchorOpset {
		out.Warnings = append(out.Warnings, fmt.Sprintf("anchors need operator set %d, this model has %d: ONNX Runtime will merge the nodes that run again with their originals",
			recompute.MinAnchorOpset, p.Model.OpsetVersion("")))
		return out, nil
	}
	best, err := a.choose()
	if err != nil || best == nil {
		return out, err
	}
	if !out.gains(best) && (!always || len(p.Placements) == 0) {
		if len(p.Placements) > 0 {
			out.Warnings = append(out.Warnings, fmt.Sprintf("ONNX Runtime in its default order would need no less for the rewritten graph than for the graph as it is (%d and %d bytes, in its arena %d and %d): no anchors are written",
				best.peak, out.Base, best.arena, out.BaseArena))
		}
		return out, nil
	}
	out.Anchors, out.Nodes, out.Anchored, out.AnchoredArena = best.anchors, best.nodes, best.peak, best.arena
	return out, nil
}

// littleGain: where the live bytes fall by less than 1/16, the arena must not need more.
const littleGain = 16

// gains reports whether a set of anchors is worth writing.
func (a *Anchoring) gains(best *anchored) bool {
	saved := a.Base - best.peak
	return saved > 0 && (best.arena < a.BaseArena || saved >= a.Base/littleGain)
}

// anchorSearch looks for places of anchors.
type anchorSearch struct {
	p       *Plan
	program *live.Program // of the rewritten graph, in the planned order
	places  []int32       // by step
	step    []anchorStep
	def     []int32         // by value: its step, or -1
	origin  []graph.ValueID // by value: the value of the graph that it is, or is a clone of
	lastUse []int32         // by value: the last step that reads it; -1 where none does
	active  []bool          // by value: it is, or shows, what a node has made
	result  []int32         // by value: its place among the program's outputs, or -1
	small   int64           // values below this size are not worth an anchor
	limit   int64           // peaks below this are good enough: that in the planned order

	plain     live.DefaultOrderer
	basic     live.DefaultOrderer
	reverse   live.DefaultOrderer
	optimizer *ortOptimizer
	arena     ortArena
	shape     []int32 // by value of the graph: its class
	class     []int32 // by value of the program
	shapes    int     // how many classes there are
	work      *anchorBuilder
}

// anchorStep is what the search knows of a step.
type anchorStep struct {
	moves     bool  // a clone or a backward node: it reads through anchors
	backward  bool  // a backward node of the graph
	result    bool  // it copies what a step makes to a graph output that nobody reads
	inputs    int   // how many of its operands may be anchored: captured ones may not
	firstRead int32 // the first step that reads what it makes; the number of steps where none does
	lastRead  int32 // the last such step; -1 where there is none
	holds     int64 // size of the largest value that stays alive as long as the step is put off
}

func newAnchorSearch(p *Plan, e *place.Trial) (*anchorSearch, error) {
	a := &anchorSearch{p: p, program: e.Program.Clone(), places: slices.Clone(e.Places), small: e.Small()}
	kernels := ortKernels{g: p.Model.Graph, opset: p.Model.OpsetVersion(""), env: p.Options.Dims}
	a.shape, a.shapes = shapeClasses(p.Model.Graph)
	a.arena.space = kernels.workspaces()
	a.optimizer = newORTOptimizer(p.Analysis.Graph)
	a.index()
	a.work = newAnchorBuilder(a)
	planned := make([]int32, len(a.program.Steps))
	for i := range planned {
		planned[i] = int32(i)
	}
	a.basic.Basic, a.reverse.Basic, a.reverse.Reverse = true, true, true
	var err error
	a.limit, err = a.peakIn(a.program, planned, false)
	return a, err
}

// anchored is a set of anchors and what it comes to.
type anchored struct {
	anchors []recompute.Anchor
	nodes   int
	peak    int64
	arena   int64
	robust  int64
}

// choose returns the anchors to write, or nil.
func (a *anchorSearch) choose() (*anchored, error) {
	needed := a.clonePlaces()
	optional := a.sinkPlaces()
	var tried []*anchored
	try := func(places []int32) error {
		t, err := a.try(places)
		if err == nil {
			tried = append(tried, t)
		}
		return err
	}
	if err := try(needed); err != nil {
		return nil, err
	}
	for stride := maxAnchorStride; stride >= 1; stride /= 2 {
		places := slices.Clone(needed)
		for i := stride - 1; i < len(optional); i += stride {
			places = append(places, optional[i])
		}
		slices.Sort(places)
		if err := try(slices.Compact(places)); err != nil {
			return nil, err
		}
	}
	return a.best(tried), nil
}

// best is the set of fewest nodes among those of about the lowest peak in the runtime's arena, of
// those that keep the peak of the live bytes low in other orders, too.
func (a *anchorSearch) best(tried []*anchored) *anchored {
	robust := tried[0].robust
	for _, t := range tried {
		robust = min(robust, t.robust)
	}
	robust = max(robust, a.limit)
	var arena int64 = math.MaxInt64
	for _, t := range tried {
		if t.robust <= robust+robust/robustSlack {
			arena = min(arena, t.arena)
		}
	}
	for _, t := range tried {
		if t.robust <= robust+robust/robustSlack && t.arena <= arena+arena/anchorSlack && len(t.anchors) > 0 {
			return t
		}
	}
	return nil
}

// clonePlaces lists the places at which nodes run again; before them the first backward place, so
// that forward nodes are held to the forward half.
func (a *anchorSearch) clonePlaces() []int32 {
	var out []int32
	if first := slices.IndexFunc(a.step, func(s anchorStep) bool { return s.moves }); first > 0 {
		out = append(out, a.places[first])
	}
	for i := range a.step {
		if s := &a.step[i]; s.moves && !s.backward && (len(out) == 0 || out[len(out)-1] != a.places[i]) {
			out = append(out, a.places[i])
		}
	}
	return out
}

// parked: a result that the next so many steps do not read is made for later, or for nobody.
const parked = 8

// sinkPlaces lists the places behind backward nodes whose results are not needed soon: these could
// as well run later, and would keep what they read alive until then.
func (a *anchorSearch) sinkPlaces() []int32 {
	var out []int32
	order, backward := a.p.Analysis.Order, a.p.Analysis.Backward
	for i := range a.step {
		s, next := &a.step[i], a.places[i]+1
		if s.backward && (int(s.firstRead) == len(a.step) || int(s.firstRead) > i+parked) && int(next) < len(order) && backward[order[next]] && s.holds >= a.small {
			out = append(out, next)
		}
	}
	return out
}

// touches is the size of the largest value that a step reads or makes.
func (a *anchorSearch) touches(i int) int64 {
	var most int64
	for _, list := range [][]graph.ValueID{a.program.Steps[i].In, a.program.Steps[i].Out} {
		for _, v := range list {
			if v != graph.NoValue && !a.program.Persistent[v] {
				most = max(most, a.program.Bytes[v])
			}
		}
	}
	return most
}

// try places anchors and simulates the outcome.
func (a *anchorSearch) try(places []int32) (*anchored, error) {
	b := a.work
	b.build(places)
	peak, arena := a.surePeaks(&b.out)
	robust, err := a.robustPeak(&b.out)
	if err != nil {
		return nil, err
	}
	return &anchored{anchors: b.anchors, nodes: len(b.out.Steps) - len(a.program.Steps), peak: peak, arena: arena, robust: robust}, nil
}

// RuntimePeak simulates a training graph, rewritten or not, in the default order of stock ONNX
// Runtime with its kernels: the peak of the live bytes, and of the bytes in use in its arena,
// without inputs and weights. The error is that of Make.
func RuntimePeak(m *graph.Model, types *op.Result, dims symbolic.Env) (bytes, arena int64, err error) {
	p, err := Make(m, types, Options{Dims: dims, Order: OrderFile, SkipLayout: true})
	if err != nil {
		return 0, 0, err
	}
	if err := p.needSizes(); err != nil {
		return 0, 0, err
	}
	e, err := p.bench.Simulate(nil)
	if err != nil {
		return 0, 0, err
	}
	a, err := newAnchorSearch(p, e)
	if err != nil {
		return 0, 0, err
	}
	bytes, arena = a.peaks(live.NewProgram(m.Graph, graph.FileOrder(m.Graph), p.Sizes))
	return bytes, arena, nil
}
