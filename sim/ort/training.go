package ort

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/symbolic"
)

// TrainingPeak predicts the most live bytes of a step in a session of ORTModule 1.19.2 on the CPU, without
// inputs and weights, for the graph that the session executes, in an order of its nodes. ORTModule turns off
// that dead buffers serve again (enable_mem_reuse), so values share memory only as views and where a kernel
// writes in place. The error is a *symbolic.UnboundError, or names invalid sizes.
func TrainingPeak(m *graph.Model, order graph.Order, env symbolic.Env) (int64, error) {
	sizes, err := live.EvalSizes(m.Graph, env)
	if err != nil {
		return 0, err
	}
	p := live.NewProgram(m.Graph, order, sizes)
	if _, err := p.Simulate(); err != nil { // the sizes of all values together overflow int64
		return 0, err
	}
	steps := make([]int32, len(order))
	for i := range steps {
		steps[i] = int32(i)
	}
	s := NewSimulator(NewFacts(m, env))
	s.planner.apart = true
	s.planner.bind(p, &Case{Program: p})
	return s.planner.plan(p, steps, s.shape, s.Facts.shapes, true).peak(p, steps, s.space), nil
}

// Unfused lists the products of matrices that a session would fuse with the Transposes of their operands
// (MatmulTransposeFusion in optimizer/matmul_transpose_fusion.cc): a graph that has them is not yet as a session runs
// it.
func Unfused(g *graph.Graph) (found []graph.NodeID) {
	facts := describeAll(g)
	for i, n := range g.Nodes {
		swapped := func(v graph.ValueID) bool {
			return v != graph.NoValue && g.Values[v].Def != graph.NoNode && facts[g.Values[v].Def].swaps
		}
		if facts[i].matrix && slices.ContainsFunc(n.Inputs, swapped) {
			found = append(found, graph.NodeID(i))
		}
	}
	return found
}
