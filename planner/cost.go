package planner

import (
	"math"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner/chunk"
	"memopt/planner/device"
	"memopt/symbolic"
)

// Cost is the arithmetic and the time of a number of node executions.
type Cost struct {
	Nodes   int
	FLOPs   float64
	Seconds float64
}

// nodeCosts has the arithmetic and the time of one execution of every node, by NodeID. It is
// the one place that turns nodes into seconds.
type nodeCosts struct {
	flops, seconds []float64
	// estimated has the times by the profile for all nodes, measured or not.
	estimated []float64
	// unmeasured lists the nodes that take time and have no measured one, where others have.
	unmeasured []graph.NodeID
	// copies marks the nodes that copy to the host and back, or wait for that: the link's time is none of theirs.
	copies []bool
}

// newProfileCosts estimates every node by a device profile.
func newProfileCosts(
	g *graph.Graph, sizes *live.Sizes, flops []symbolic.Expr, env symbolic.Env, p *device.Profile, s *shares,
) *nodeCosts {
	c := &nodeCosts{flops: make([]float64, len(g.Nodes)), seconds: make([]float64, len(g.Nodes)),
		copies: make([]bool, len(g.Nodes))}
	for i, n := range g.Nodes {
		if f, err := flops[i].Eval(env); err == nil {
			c.flops[i] = float64(f)
		}
		step := live.NewStep(g, graph.NodeID(i), sizes)
		loss := 1.0
		if p.Memory > 0 { // a GPU
			loss = s.loss(graph.NodeID(i))
		}
		if c.copies[i] = op.Of(n.Kind).Transfer != op.NoTransfer; c.copies[i] {
			continue // Plan.Copies has the time
		}
		c.seconds[i] = p.Seconds(op.Of(n.Kind), computeType(g, n), loss*c.flops[i],
			float64(s.moved(&step, sizes)))
	}
	return c
}

// computeType returns the element type of a node's arithmetic: its first float operand's, outputs
// after inputs, so that a widening Cast counts as its input and an ArgMax of floats as floats.
func computeType(g *graph.Graph, n *graph.Node) graph.DType {
	for _, list := range [][]graph.ValueID{n.Inputs, n.Outputs} {
		for _, v := range list {
			if v != graph.NoValue && g.Values[v].Type.DType.IsFloat() {
				return g.Values[v].Type.DType
			}
		}
	}
	return graph.Float32
}

// measure replaces estimates by measured times, by NodeID; NaN and negative numbers mean no
// measurement. The remaining estimates are scaled by the ratio of measured to estimated time of the
// measured nodes, so that all costs are times on the machine that was measured.
func (c *nodeCosts) measure(measured []float64) {
	c.estimated = slices.Clone(c.seconds)
	var took, estimated float64
	for i, s := range measured {
		if isMeasured(s) && c.seconds[i] > 0 { // views take little time, and are estimated at 0
			took += s
			estimated += c.seconds[i]
		}
	}
	scale := 1.0
	if took > 0 && estimated > 0 {
		scale = took / estimated
	}
	for i, s := range measured {
		switch {
		case c.copies[i]: // which may have waited for the link
		case isMeasured(s):
			c.seconds[i] = s
		case c.seconds[i] > 0:
			c.seconds[i] *= scale
			c.unmeasured = append(c.unmeasured, graph.NodeID(i))
		}
	}
}

// isMeasured reports whether a number can be a time.
func isMeasured(s float64) bool { return s >= 0 && !math.IsInf(s, 1) }

// of sums the cost of the given executions.
func (c *nodeCosts) of(nodes []graph.NodeID) Cost {
	total := Cost{Nodes: len(nodes)}
	for _, id := range nodes {
		total.FLOPs += c.flops[id]
		total.Seconds += c.seconds[id]
	}
	return total
}

// newNodeCosts returns the nodes' costs: measured, else by the profile.
func newNodeCosts(m *graph.Model, types *op.Result, sizes *live.Sizes, o *Options,
	s *shares) *nodeCosts {
	profile := &device.Default
	if o.Profile != nil {
		profile = o.Profile
	}
	c := newProfileCosts(m.Graph, sizes, op.FLOPs(m.Graph, m.Opsets, types), o.Dims, profile, s)
	if o.Costs != nil {
		c.measure(s.measured(o.Costs, c.seconds))
	}
	return c
}

// overhead is the price of the plan, as a share of a step of the original graph.
func (p *Plan) overhead() float64 {
	step := p.Baseline().Step.Seconds
	if step <= 0 {
		return 0
	}
	more := p.Recompute.Seconds
	if p.Whole != nil {
		more += p.inParts() - step
	}
	return more / step
}

// reprice converts costs from shares of a chunked step to shares of the original one, and drops
// bounds, since other cuts may be cheaper.
func (p *Plan) reprice() {
	if p.Whole == nil {
		return
	}
	if b := p.Bound; b != nil {
		p.Bound = &Bound{Overhead: p.priced(b.Overhead), Gap: b.Gap}
	}
	if n := p.Lower; n != nil {
		lower := *n
		lower.Overhead = p.priced(n.Overhead)
		p.Lower = &lower
	}
	for i := range p.Alternatives {
		p.Alternatives[i].Overhead = p.priced(p.Alternatives[i].Overhead)
	}
}

// priced turns a share of a step of Model into one of a step of the original graph.
func (p *Plan) priced(overhead float64) float64 {
	if p.Whole == nil || p.Whole.Step.Seconds <= 0 {
		return overhead
	}
	return (overhead*p.Step.Seconds + p.inParts() - p.Whole.Step.Seconds) / p.Whole.Step.Seconds
}

// inParts is the seconds of a step of the chunked graph. Nodes that are constants there, since
// sizes are known, count as in the original graph: they are no gain of chunking.
func (p *Plan) inParts() float64 {
	seconds := p.Step.Seconds
	there := make([]bool, len(p.Whole.Model.Graph.Nodes))
	for _, old := range p.applied.Origin {
		if old != graph.NoNode {
			there[old] = true
		}
	}
	for id, s := range p.Whole.costs.seconds {
		if !there[id] {
			seconds += s
		}
	}
	return seconds
}

// NodeSeconds returns the time of one execution of every node, by NodeID: the measured one if there
// is one, else the estimate of the profile. It is nil if sizes are unknown, and must not be
// changed.
func (p *Plan) NodeSeconds() []float64 {
	if p.costs == nil {
		return nil
	}
	return p.costs.seconds
}

// MeasuredPrefix starts the names of costs that come from measured times; the file follows.
const MeasuredPrefix = "measured:"

// ProfileName says where the times come from: the name of a device profile, or Options.CostSource.
func (p *Plan) ProfileName() string {
	switch {
	case p.Options.Costs != nil:
		return p.Options.CostSource
	case p.Options.Profile != nil:
		return p.Options.Profile.Name
	}
	return device.Default.Name
}

// warnUnmeasured says how many times are estimates if the others are measured.
func (p *Plan) warnUnmeasured() {
	if p.costs == nil || len(p.costs.unmeasured) == 0 {
		return
	}
	list := p.costs.unmeasured
	g := p.Analysis.Graph
	p.warnf("%d of %d nodes have no measured time in %s (the first is %q): their times are "+
		"estimated from the device profile and scaled to the measured ones", len(list), len(g.Nodes),
		strings.TrimPrefix(p.ProfileName(), MeasuredPrefix), g.NodeLabel(list[0]))
}

// tileRows is the rows and the columns of the tiles that products on a GPU are computed in: a
// product takes the time of whole tiles (NVIDIA, Matrix Multiplication Background User's Guide, DU-09798,
// "Tile quantization": 128 by 128 are usual).
const tileRows = 128

// shares compares the costs of parts of nodes with those of the whole nodes.
type shares struct {
	// tiles is by node: how much longer a part of a product takes by the tiles that it fills in part,
	// and the whole one does not; at least 1.
	tiles []float64
	// added are the nodes that are no parts of any: slices, joins and sums.
	added []bool
	// origin is by node the whole node that it is a part of, and whole has the costs of these.
	origin []graph.NodeID
	whole  *nodeCosts
}

// newShares compares the nodes of a chunked graph with those of the whole.
func newShares(whole *Plan, f *chunk.Applied) *shares {
	s := &shares{tiles: make([]float64, len(f.Origin)), added: make([]bool, len(f.Origin)), origin: f.Origin,
		whole: whole.costs}
	before, dims := whole.Analysis.Graph, whole.Options.Dims
	for i, old := range f.Origin {
		s.tiles[i] = 1
		if s.added[i] = old == graph.NoNode; s.added[i] {
			continue
		}
		n := f.Model.Graph.Nodes[i]
		if op.Of(n.Kind).Class != op.Expensive {
			continue
		}
		s.tiles[i] = max(1, tileLoss(f.Model.Graph, n, dims)/tileLoss(before, before.Nodes[old], dims))
	}
	return s
}

// tileLoss is the ratio of a product's computed elements, those of whole tiles, to the elements of its
// output.
func tileLoss(g *graph.Graph, n *graph.Node, env symbolic.Env) float64 {
	v := n.Output(0)
	if v == graph.NoValue || !g.Values[v].Type.Shape.Ranked {
		return 1
	}
	rows, columns := 1.0, 1.0
	dims := g.Values[v].Type.Shape.Dims
	for i, d := range dims {
		size, err := d.Eval(env)
		if err != nil || size <= 0 {
			return 1
		}
		if i == len(dims)-1 {
			columns = float64(size)
		} else {
			rows *= float64(size)
		}
	}
	return filled(rows) * filled(columns) / (rows * columns)
}

// filled rounds up to whole tiles.
func filled(n float64) float64 {
	tiles := int64(n+tileRows-1) / tileRows
	return float64(tiles * tileRows)
}

// moved is the bytes that a step moves. Among the nodes that chunking adds, slices that are views move no
// bytes, and joins move only parts that were not written in place.
func (s *shares) moved(step *live.Step, sizes *live.Sizes) int64 {
	if s == nil || !s.added[step.Node] || step.Slices == nil {
		return step.Traffic(sizes)
	}
	list := step.Out
	if step.Slices.Join {
		list = step.In
	}
	var bytes int64
	for i, v := range list {
		if v != graph.NoValue && (i >= len(step.Slices.At) || step.Slices.At[i] < 0) {
			bytes += 2 * max(sizes.Bytes[v], 0)
		}
	}
	return bytes
}

// measured converts measured times by node of the whole graph to nodes of the chunked one: a part takes
// the share of the whole node's time that the profile estimates for its size. estimated has the profile's
// times of the parts.
func (s *shares) measured(costs, estimated []float64) []float64 {
	if s == nil {
		return costs
	}
	parts := make([]float64, len(costs))
	for _, old := range s.origin {
		if old != graph.NoNode {
			parts[old]++
		}
	}
	out := make([]float64, len(s.origin))
	for i, old := range s.origin {
		switch {
		case old == graph.NoNode:
			out[i] = math.NaN()
		case s.whole.estimated[old] > 0:
			out[i] = costs[old] * (estimated[i] / s.whole.estimated[old])
		default:
			out[i] = costs[old] / parts[old]
		}
	}
	return out
}

// loss is the ratio of a node's time to its arithmetic's time by the roofline.
func (s *shares) loss(id graph.NodeID) float64 {
	if s == nil {
		return 1
	}
	return s.tiles[id]
}

// NodeSeconds estimates the time of one execution of every node of any graph by a device profile, by
// NodeID; nil stands for device.Default. The error is a *symbolic.UnboundError if sizes are not known.
func NodeSeconds(m *graph.Model, types *op.Result, dims symbolic.Env, p *device.Profile) ([]float64, error) {
	sizes, err := live.EvalSizes(m.Graph, dims)
	if err != nil {
		return nil, err
	}
	if p == nil {
		p = &device.Default
	}
	return newProfileCosts(m.Graph, sizes, op.FLOPs(m.Graph, m.Opsets, types), dims, p, nil).seconds, nil
}
