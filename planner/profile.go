package planner

import (
	"memopt/graph"
	"memopt/graph/live"
	"memopt/symbolic"
)

// Profile is what a device can do at its best. Times estimated with it rank
// plans; they promise nothing.
type Profile struct {
	Name        string
	FLOPS       float64 // float32 operations per second
	BytesPerSec float64 // memory bandwidth
	Source      string
}

// DefaultProfile is used where no device is named.
var DefaultProfile = Profile{
	Name:        "a100",
	FLOPS:       19.5e12,
	BytesPerSec: 2.039e12,
	Source:      "NVIDIA A100 80GB SXM data sheet: 19.5 TFLOPS FP32, 2,039 GB/s",
}

// Cost is the arithmetic and the time of a number of node executions.
type Cost struct {
	Nodes   int
	FLOPs   float64
	Seconds float64
}

// nodeCosts estimates one execution of every node by the roofline model (Williams et
// al., 2009): the larger of arithmetic time and memory time.
type nodeCosts struct {
	flops, seconds []float64
}

func newNodeCosts(g *graph.Graph, sizes *live.Sizes, flops []symbolic.Expr, env symbolic.Env, p Profile) *nodeCosts {
	c := &nodeCosts{flops: make([]float64, len(g.Nodes)), seconds: make([]float64, len(g.Nodes))}
	program := live.NewProgram(g, graph.FileOrder(g), sizes)
	for i := range g.Nodes {
		if n, err := flops[i].Eval(env); err == nil {
			c.flops[i] = float64(n)
		}
		c.seconds[i] = max(c.flops[i]/p.FLOPS, float64(program.Steps[i].Traffic(sizes))/p.BytesPerSec)
	}
	return c
}

// of sums the cost of the given executions.
func (c *nodeCosts) of(nodes []graph.NodeID) Cost {
	total := Cost{Nodes: len(nodes)}
	for _, id := range nodes {
		total.FLOPs += c.flops[id]
		total.Seconds += c.seconds[id]
	}
	return total
}
