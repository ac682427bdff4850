package planner

import (
	"fmt"
	"math"
	"strings"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
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
	// unmeasured lists the nodes that take time and have no measured one, where others have.
	unmeasured []graph.NodeID
}

// newProfileCosts estimates every node by a device profile.
func newProfileCosts(g *graph.Graph, sizes *live.Sizes, flops []symbolic.Expr, env symbolic.Env, p *Profile) *nodeCosts {
	c := &nodeCosts{flops: make([]float64, len(g.Nodes)), seconds: make([]float64, len(g.Nodes))}
	for i, n := range g.Nodes {
		if f, err := flops[i].Eval(env); err == nil {
			c.flops[i] = float64(f)
		}
		step := live.NewStep(g, graph.NodeID(i), sizes)
		c.seconds[i] = p.seconds(op.Of(n.Kind), computeType(g, n), c.flops[i], float64(step.Traffic(sizes)))
	}
	return c
}

// computeType returns the element type in which a node computes: its first float operand's, outputs
// after inputs, so that a widening Cast counts as what it reads and an ArgMax of floats as floats.
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

// measure replaces estimates by measured times, by NodeID; NaN and negative ones are none. The
// estimates that stay are scaled by what the measured nodes took over what was estimated for them,
// so that all costs are times on the machine that was measured.
func (c *nodeCosts) measure(measured []float64) {
	var took, estimated float64
	for i, s := range measured {
		if isMeasured(s) && c.seconds[i] > 0 { // views take a little, and are estimated at nothing
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

// costs returns what the nodes cost, computed once. It may only be asked of a plan with sizes.
func (p *Plan) costs() *nodeCosts {
	if p.nodeCosts != nil {
		return p.nodeCosts
	}
	g := p.Analysis.Graph
	profile := &DefaultProfile
	if p.Options.Profile != nil {
		profile = p.Options.Profile
	}
	c := newProfileCosts(g, p.Sizes, op.FLOPs(g, p.Model.Opsets, p.Types), p.Options.Dims, profile)
	if p.Options.Costs != nil {
		c.measure(p.Options.Costs)
	}
	p.nodeCosts = c
	return c
}

// NodeSeconds returns the time of one execution of every node, by NodeID: the measured one where
// there is one, else the estimate of the profile. It is nil where sizes are not known, and must not
// be changed.
func (p *Plan) NodeSeconds() []float64 {
	if p.Sizes == nil {
		return nil
	}
	return p.costs().seconds
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
	return DefaultProfile.Name
}

// warnUnmeasured says how many times are estimates where most are measured.
func (p *Plan) warnUnmeasured() {
	if p.nodeCosts == nil || len(p.nodeCosts.unmeasured) == 0 {
		return
	}
	list := p.nodeCosts.unmeasured
	p.Warnings = append(p.Warnings, fmt.Sprintf("%d of %d nodes have no measured time in %s, the first being %q: theirs are estimated from the device profile, scaled to the measured ones",
		len(list), len(p.Analysis.Graph.Nodes), strings.TrimPrefix(p.ProfileName(), MeasuredPrefix), p.Analysis.Graph.NodeLabel(list[0])))
}
