// Package anchor decides which anchors preserve the order of a rewritten graph, and with it the peak, in stock
// ONNX Runtime, which reorders nodes. It searches for the places of anchors and judges each set of places by
// the simulation of package ortsim.
//
// # Anchors
//
// The places of anchors are searched for (build.go, frontier.go), and each set is judged by the simulation of
// stock ONNX Runtime in sim/ort: its optimizations, one row each (passes.go, optimize.go, fuse.go), rewrite
// the program, defaultorder.go orders it, buffers.go gives values their buffers by the runtime's knowledge of
// shapes (shapes.go), with its kernels' workspaces (kernels.go), and arena.go counts the bytes of its arena.
// The runtime's treatment of an operator is a row of table.go. ortsim.Simulate does so for any file. The nodes
// of an anchor are written by one function (recompute/emit.go): it emits into a program for judging, and into
// the graph that Apply writes. [docs/onnxruntime.md](docs/onnxruntime.md) has the modelled parts and their
// accuracy.
package anchor

import (
	"context"
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/planner/place"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
)

const (
	// nodeSlack: of two sets of anchors, the one with fewer nodes is taken if its peak in ONNX
	// Runtime's arena is at most 1/128 higher.
	nodeSlack = 128
	// robustSlack: a set is rejected if its peak of live bytes over several orders is more than
	// 1/32 above the lowest such peak.
	robustSlack = 32
	// maxStride is the largest distance of places without clones that is tried.
	maxStride = 64
)

// Anchoring is a set of anchors, which preserve a rewritten graph's order, and with it the peak, in
// a runtime that reorders nodes.
type Anchoring struct {
	Anchors []recompute.Anchor
	Nodes   int // in all anchors together
	// Peaks of the live bytes in the default order of stock ONNX Runtime: of the unchanged graph, of
	// the rewritten graph without anchors, and with them.
	Base, Bare, Anchored int64
	// BaseArena and AnchoredArena are the bytes in use in its arena then, whose chunks are up to
	// twice as large as requested.
	BaseArena, AnchoredArena int64
	Planned                  int64 // of the rewritten graph in the planned order, with the same kernels
	Simulated                bool  // whether the peaks are known: not where symbols are unbound
	Work                     int   // steps that the search for places has looked at
	Warnings                 []string
}

// nodeSeconds is the cost of an anchor's node: the dispatch of a node that moves no data, measured in ONNX
// Runtime 1.30.
const nodeSeconds = 0.4e-6

// Seconds estimates the time that the anchors take in one step.
func (a *Anchoring) Seconds() float64 { return float64(a.Nodes) * nodeSeconds }

// Plan is a rewritten graph that needs anchors.
type Plan struct {
	Analysis *recompute.Analysis // of the unchanged graph
	Facts    *ortsim.Facts       // of that graph
	Sizes    *live.Sizes
	// Trial has the program of the rewritten graph in the planned order, without workspaces.
	Trial *place.Trial
	// Always asks for anchors at all recomputed nodes, regardless of the simulated peaks.
	Always bool
}

// Choose decides which anchors a rewritten graph needs to keep its peak in stock ONNX Runtime's default order.
//
// An anchor stands at every place with recomputed nodes: these would otherwise run in the forward half, and be
// merged with their originals. In between, anchors stand behind the last nodes of the backward half, such as
// weight gradients, which the default order defers to the end, as long as that lowers the simulated peak in
// that order, and where the live bytes have fallen and are about to rise. This helps even a plan without
// recomputation, and keeps the parts of a chunked region from running side by side. A context that is done
// ends the search for places after the first set. The error names a value that cannot be read through an
// anchor; Choose itself selects no such value.
func Choose(ctx context.Context, p *Plan) (*Anchoring, error) {
	m := p.Analysis.Model
	a := newSearch(p)
	clones := len(p.Trial.Placements) > 0
	out := &Anchoring{Simulated: true}
	base := asIs(a.sim, m.Graph, p.Sizes)
	bare := a.sim.Run(&ortsim.Case{Program: a.program, Shapes: a.shapes(a.program, false)})
	out.Base, out.BaseArena = base.Live, base.Arena
	out.Bare, out.AnchoredArena = bare.Live, bare.Arena
	out.Anchored, out.Planned = out.Bare, a.limit
	if m.OpsetVersion("") < recompute.MinAnchorOpset {
		out.Warnings = append(out.Warnings,
			fmt.Sprintf("anchors need operator set %d, this model has %d: ONNX Runtime will merge the nodes that "+
				"run again with their originals",
				recompute.MinAnchorOpset, m.OpsetVersion("")))
		return out, nil
	}
	best, err := a.choose(ctx)
	out.Work = a.work.looked
	if err != nil || best == nil {
		return out, err
	}
	if !out.gains(best) && (!p.Always || !clones) {
		if clones {
			out.Warnings = append(out.Warnings,
				fmt.Sprintf("in its default order, ONNX Runtime would need at least as much "+
					"memory for the rewritten graph as for the original (%d and %d bytes; in its "+
					"arena %d and %d): no anchors are written",
					best.Live, out.Base, best.Arena, out.BaseArena))
		}
		return out, nil
	}
	out.Anchors, out.Nodes, out.Anchored, out.AnchoredArena = best.anchors, best.nodes, best.Live, best.Arena
	return out, nil
}

// AsIs returns the peaks of an unchanged graph in the default order of stock ONNX Runtime. The facts are those
// of its model.
func AsIs(g *graph.Graph, f *ortsim.Facts, sizes *live.Sizes) ortsim.Peaks {
	return asIs(ortsim.NewSimulator(f), g, sizes)
}

func asIs(s *ortsim.Simulator, g *graph.Graph, sizes *live.Sizes) ortsim.Peaks {
	return s.Run(&ortsim.Case{Program: live.NewProgram(g, graph.FileOrder(g), sizes)})
}

// littleGain: if the live bytes fall by less than 1/16, the arena must not grow.
const littleGain = 16

// gains reports whether a set of anchors is worth writing.
func (a *Anchoring) gains(best *anchored) bool {
	saved := a.Base - best.Live
	return saved > 0 && (best.Arena < a.BaseArena || saved >= a.Base/littleGain)
}

// search looks for places of anchors.
type search struct {
	p       *Plan
	g       *graph.Graph // unchanged
	program *live.Program
	places  []int32
	step    []step
	def     []int32         // by value of the program: its step, or -1
	origin  []graph.ValueID // by value: the value of the graph that it is, or is a clone of
	lastUse []int32         // by value: the last step that reads it, or -1
	active  []bool          // by value: it is, or shows, the output of a node
	result  []int32         // by value: its place among the program's outputs, or -1
	small   int64           // values below this size are not worth an anchor
	limit   int64           // peaks below this are good enough: that in the planned order

	facts *ortsim.Facts
	sim   *ortsim.Simulator
	shape []ortsim.Shape // by value of the program that was built last: scratch memory
	work  *builder
}

// step is a step in the search.
type step struct {
	moves     bool  // a clone or a backward node
	follows   bool  // it reads through anchors: it moves, or stands behind a step that does
	backward  bool  // a backward node of the graph
	inputs    int   // how many of its operands may be anchored: captured ones may not
	firstRead int32 // the first step that reads an output; the number of steps without a reader
	lastRead  int32 // the last such step, or -1
	holds     int64 // size of the largest value that stays alive as long as the step is put off
}

func newSearch(p *Plan) *search {
	a := &search{p: p, g: p.Analysis.Graph, program: p.Trial.Program, places: p.Trial.Places, small: p.Trial.Small()}
	a.facts = p.Facts
	a.sim = ortsim.NewSimulator(a.facts)
	a.index()
	a.work = newBuilder(a)
	a.limit = a.sim.Live(&ortsim.Case{Program: a.program, Shapes: a.shapes(a.program, false)}, ortsim.Given)
	return a
}

// anchored is a set of anchors and its simulation.
type anchored struct {
	anchors []recompute.Anchor
	nodes   int
	ortsim.Peaks
	robust int64 // the highest peak of the live bytes in several orders
}

// choose returns the anchors to write, or nil.
func (a *search) choose(ctx context.Context) (*anchored, error) {
	needed := a.clonePlaces()
	optional := a.sinkPlaces()
	sets := [][]int32{needed}
	for share := int64(2); share <= maxDepth; share *= 2 {
		sets = append(sets, union(needed, a.valleys(a.p.Trial.Peak/share)))
	}
	for stride := maxStride; stride >= 1; stride /= 2 {
		var places []int32
		for i := stride - 1; i < len(optional); i += stride {
			places = append(places, optional[i])
		}
		sets = append(sets, union(needed, places))
	}
	var tried []*anchored
	for i, places := range sets {
		if i > 0 && ctx.Err() != nil {
			break
		}
		t, err := a.try(places)
		if err != nil {
			return nil, err
		}
		tried = append(tried, t)
	}
	return a.best(tried), nil
}

// union returns the places of two lists, each once and in order.
func union(a, b []int32) []int32 {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// best is the set of fewest nodes among those of about the lowest peak in the runtime's arena, of
// those that keep the peak of the live bytes low in other orders, too.
func (a *search) best(tried []*anchored) *anchored {
	robust := tried[0].robust
	for _, t := range tried {
		robust = min(robust, t.robust)
	}
	robust = max(robust, a.limit)
	var arena int64 = math.MaxInt64
	for _, t := range tried {
		if t.robust <= robust+robust/robustSlack {
			arena = min(arena, t.Arena)
		}
	}
	for _, t := range tried {
		if t.robust <= robust+robust/robustSlack && t.Arena <= arena+arena/nodeSlack && len(t.anchors) > 0 {
			return t
		}
	}
	return nil
}

// clonePlaces lists the first backward place, so that forward nodes stay in the forward half, and then the
// places with recomputed nodes.
func (a *search) clonePlaces() []int32 {
	var out []int32
	if first := slices.IndexFunc(a.step, func(s step) bool { return s.moves }); first > 0 {
		out = append(out, a.places[first])
	}
	for i := range a.step {
		if s := &a.step[i]; s.moves && !s.backward && (len(out) == 0 || out[len(out)-1] != a.places[i]) {
			out = append(out, a.places[i])
		}
	}
	return out
}

// maxDepth: valleys of the live bytes that are less than 1/32 of the peak deep are no places of
// their own.
const maxDepth = 32

// valleys lists the places where the live bytes fall before, and rise behind, by at least some bytes: there
// temporaries are used up, as a layer ends or a part of a chunked region (package chunk). Joins and sums read
// the outputs of parts behind the last of them, so that without anchors all could run side by side.
func (a *search) valleys(depth int64) []int32 {
	var out []int32
	bytes := a.p.Trial.Timeline.Live
	low, high, falling := -1, int64(0), false
	for i, now := range bytes {
		if !a.step[i].follows {
			continue
		}
		switch {
		case !falling:
			if high = max(high, now); now <= high-depth {
				low, falling = i, true
			}
		case now < bytes[low]:
			low = i
		case now >= bytes[low]+depth:
			out = append(out, a.places[low])
			high, falling = now, false
		}
	}
	return out
}

// parked: a result that is not read within this many steps is made for later, or never read.
const parked = 8

// sinkPlaces lists the places behind backward nodes whose results are not needed soon: such a node could run
// later, and would keep its operands alive until then.
func (a *search) sinkPlaces() []int32 {
	var out []int32
	order, backward := a.p.Analysis.Order, a.p.Analysis.Backward
	for i := range a.step {
		s, next := &a.step[i], a.places[i]+1
		if s.backward && (int(s.firstRead) == len(a.step) || int(s.firstRead) > i+parked) && int(next) < len(order) &&
			backward[order[next]] && s.holds >= a.small {
			out = append(out, next)
		}
	}
	return out
}

// touches is the size of the largest value that a step reads or makes.
func (a *search) touches(i int) int64 {
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
func (a *search) try(places []int32) (*anchored, error) {
	b := a.work
	if err := b.build(places); err != nil {
		return nil, err
	}
	c := &ortsim.Case{Program: &b.out, Shapes: a.shapes(&b.out, len(b.anchors) > 0), Cautious: true}
	return &anchored{anchors: b.anchors, nodes: len(b.out.Steps) - len(a.program.Steps), Peaks: a.sim.Run(c),
		robust: a.robust(c)}, nil
}

// robust is the highest peak over several orders: the default one with and without optimizations,
// and one that walks the other way, since optimizations renumber nodes.
func (a *search) robust(c *ortsim.Case) int64 {
	return max(a.sim.Live(c, ortsim.Unoptimized), a.sim.Live(c, ortsim.Basic), a.sim.Live(c, ortsim.Reversed))
}
