package planner

import (
	"context"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner/arena"
	"memopt/planner/budget"
	"memopt/planner/offload"
	"memopt/planner/place"
	"memopt/recompute"
)

// Bytes is the most that an arena may take besides persistent bytes; a share is of base, the bytes of the arena
// of the unchanged graph.
func (b Budget) Bytes(persistent, base int64) int64 { return b.bytes(persistent, base) }

// MovedBound returns a lower bound on the overhead of any plan in the plan's order, with its regions in parts,
// whose arena takes at most so many bytes and whose values may move to the host over a link of so many bytes per
// second each way, and the bytes that the link may have moved before the moment that proves it.
func (p *Plan) MovedBound(ctx context.Context, bytes int64, rate float64) (overhead float64, carried int64) {
	m := p.moved(ctx, bytes, rate)
	return p.priced(m.Overhead), m.Carried
}

// MovedSum is MovedBound with moments that prove more together than the best of them, which takes longer.
func (p *Plan) MovedSum(ctx context.Context, bytes int64, rate float64) (overhead float64) {
	return p.priced(budget.MovedSum(ctx, p.problem(), bytes, rate))
}

// MovedCut returns the node at whose first execution a minimum cut proves the bound of MovedBound or a part of it, and
// the price of a byte in seconds that it is proved with; NoNode where no cut proves any.
func (p *Plan) MovedCut(ctx context.Context, bytes int64, rate float64) (moment graph.NodeID, price float64) {
	m := p.moved(ctx, bytes, rate)
	if m.Moment < 0 {
		return graph.NoNode, 0
	}
	return p.Analysis.Order[m.Moment], m.Price
}

func (p *Plan) moved(ctx context.Context, bytes int64, rate float64) budget.Moved {
	return budget.MovedBound(ctx, p.problem(), bytes, rate)
}

func (p *Plan) problem() *budget.Problem {
	memory := place.Memory{Workspace: p.Options.Workspace, CloneBytes: p.Options.CloneBytes}
	return &budget.Problem{Base: p.Base, Seconds: p.costs.seconds,
		Evaluator: place.NewEvaluator(p.Analysis, p.Sizes, memory)}
}

// InParts plans the graph of a plan with its regions in parts for other options, which no other regions are cut
// for.
func (p *Plan) InParts(ctx context.Context, opts Options) (*Plan, error) {
	of := p.Baseline()
	r, err := newRequest(of.Model, of.Types, opts)
	if err != nil {
		return nil, err
	}
	cut, err := r.cut(ctx, of, p.Fission)
	if err != nil {
		return nil, err
	}
	return cut.plan(ctx)
}

// MoveUnit is the unit of the costs in the timelines of TimelineOf.
const MoveUnit = "us"

// Gaps are the gaps of a graph's timeline, with the values that they are of.
type Gaps struct {
	offload.Timeline
	Of []graph.ValueID // by gap
}

// TimelineOf returns the timeline of a graph in an order as moves see it: seconds has the time of each node. Values
// that share memory with others but for views stay where they are: those in the buffers of states, parts of
// others, those that ranks still work on together, and the graph's outputs.
func TimelineOf(g *graph.Graph, order graph.Order, sizes *live.Sizes, t *live.Timeline, seconds []float64) *Gaps {
	f := &gapFinder{g: g, sizes: sizes, t: t, base: make([]graph.ValueID, len(g.Values)),
		used: make([]int32, len(g.Values)), made: make([]int32, len(g.Values)), stays: make([]bool, len(g.Values)),
		gaps: &Gaps{}}
	for v := range f.base {
		f.base[v] = graph.ValueID(v)
		f.made[v] = -1
	}
	for _, id := range order {
		if n := g.Nodes[id]; sizes.View(n) && n.Input(0) != graph.NoValue {
			f.base[n.Outputs[0]] = f.base[n.Input(0)]
		}
	}
	for _, d := range g.Outputs {
		f.stays[f.base[d.Value]] = true
	}
	for run, id := range order {
		f.run(int32(run), g.Nodes[id])
		f.gaps.Cost = append(f.gaps.Cost, seconds[id]*1e6)
	}
	f.gaps.Bytes = t.Live
	f.sort()
	return f.gaps
}

// gapFinder is the state of TimelineOf.
type gapFinder struct {
	g     *graph.Graph
	sizes *live.Sizes
	t     *live.Timeline
	base  []graph.ValueID // by value: the one that it is a view of, or itself
	used  []int32         // by base: the newest run that uses it
	made  []int32         // by base: the run that makes it, or -1
	stays []bool          // by base: it must not move
	gaps  *Gaps
}

func (f *gapFinder) run(run int32, n *graph.Node) {
	for _, v := range n.Inputs {
		if v != graph.NoValue {
			f.use(f.base[v], run)
		}
	}
	for _, v := range n.Captures() {
		f.use(f.base[v], run)
	}
	for _, v := range n.Outputs {
		if v == graph.NoValue {
			continue
		}
		if f.base[v] == v {
			f.made[v], f.used[v], f.stays[v] = run, run, f.stays[v] || op.Of(n.Kind).Pending
		} else {
			f.use(f.base[v], run)
		}
	}
}

// use notes a use of a value, and the gap before it.
func (f *gapFinder) use(v graph.ValueID, run int32) {
	after := f.used[v]
	f.used[v] = run
	if f.made[v] < 0 || run-after < 2 || !f.moves(v) {
		return
	}
	f.gaps.Gaps = append(f.gaps.Gaps, offload.Gap{Life: int32(v), Size: f.sizes.Bytes[v], Made: f.made[v],
		After: after, Before: run})
	f.gaps.Of = append(f.gaps.Of, v)
}

// moves tells whether a value may leave the device.
func (f *gapFinder) moves(v graph.ValueID) bool {
	root := f.t.Root[v]
	return !f.stays[v] && root != graph.NoValue && f.sizes.Bytes[v] > 0 && f.sizes.Bytes[root] == f.sizes.Bytes[v] &&
		(f.t.Start == nil || f.t.Start[v] == 0) && (f.t.State == nil || f.t.State[v] == graph.NoValue)
}

// sort puts the gaps in ascending order of After.
func (f *gapFinder) sort() {
	order := f.gaps.Sort()
	of := make([]graph.ValueID, len(order))
	for i, o := range order {
		of[i] = f.gaps.Of[o]
	}
	f.gaps.Of = of
}

// Moves are the moves of values that a timeline's moves stand for, in an order of its graph.
func (g *Gaps) Moves(order graph.Order, moves []offload.Move) []recompute.Move {
	moves = slices.Clone(moves)
	turns := offload.Sequence(moves)
	list := make([]recompute.Move, len(moves))
	for i, m := range moves {
		list[i] = recompute.Move{Value: g.Of[m.Gap], Offload: graph.NoNode, Free: order[m.Free], Reload: order[m.In],
			Wait: order[g.Gaps[m.Gap].Before]}
		list[i].Turn = turns[i]
		if !m.Clean {
			list[i].Offload = order[m.Out]
		}
	}
	return list
}

// Copies are the copies of a step between the memories of device and host (Offload, Reload), and its time with them.
type Copies struct {
	Out, In           int   // copies to the host, and back
	OutBytes, InBytes int64 // of a step
	Peak, Arena       int64 // bytes on the host at once, and of their layout there
	// Seconds is the time of a step over a link, Waited the part of it that waits for copies. Without a link, copies
	// take no time.
	Seconds, Waited float64
}

// Copies returns the copies of a plan's graph over a link; nil where it has none, or sizes are not known.
func (p *Plan) Copies(ctx context.Context, link offload.Link) (*Copies, error) {
	if p.Planned == nil || p.Planned.Host == nil {
		return nil, nil
	}
	memory := place.Memory{Workspace: p.Options.Workspace, CloneBytes: p.Options.CloneBytes}
	trial, err := place.NewEvaluator(p.Analysis, p.Sizes, memory).Simulate(p.Placements)
	if err != nil {
		return nil, err
	}
	host := trial.Timeline.Host
	c := &Copies{Peak: host.Peak.Bytes, Arena: arena.NewLayout(ctx, host, trial.Program.Bytes).Bytes}
	took := func(bytes int64) float64 {
		if link.BytesPerSecond == 0 {
			return 0
		}
		return link.Latency.Seconds() + float64(bytes)/link.BytesPerSecond
	}
	var out, in float64 // when the newest copy of each direction ends
	ends := map[graph.ValueID]float64{}
	for i := range trial.Program.Steps {
		s := &trial.Program.Steps[i]
		from := s.Input(0)
		switch op.Of(s.Kind).Transfer {
		case op.ToHost:
			bytes := max(trial.Program.Bytes[from], 0)
			c.Out, c.OutBytes = c.Out+1, c.OutBytes+bytes
			out = max(out, c.Seconds) + took(bytes)
			ends[s.Output0()] = out
		case op.FromHost:
			bytes := max(trial.Program.Bytes[s.Output0()], 0)
			c.In, c.InBytes = c.In+1, c.InBytes+bytes
			in = max(in, c.Seconds) + took(bytes)
			ends[s.Output0()] = in
		case op.Awaits:
			if end := ends[from]; end > c.Seconds {
				c.Waited, c.Seconds = c.Waited+end-c.Seconds, end
			}
		default:
			c.Seconds += p.costs.seconds[s.Node]
		}
	}
	return c, nil
}
