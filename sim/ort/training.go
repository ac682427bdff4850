package ort

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

// TrainingPeak predicts the most live bytes of a step in a session of ORTModule 1.19.2 on the CPU, without
// inputs and weights, for the graph that the session executes, in an order of its nodes. ORTModule turns off
// that dead buffers serve again (enable_mem_reuse), so values share memory only as views and where a kernel
// writes in place. The error is a *symbolic.UnboundError, or names invalid sizes.
func TrainingPeak(m *graph.Model, order graph.Order, env symbolic.Env) (int64, error) {
	t, err := newTraining(m, order, env)
	if err != nil {
		return 0, err
	}
	return t.plan.peak(t.program, t.steps, t.space), nil
}

// TrainingBuffers returns by value, for the session of [TrainingPeak], the value whose buffer it lies in: itself, that
// of a view, or one that its node writes over; graph.NoValue for memory of the caller's, such as that of an input.
func TrainingBuffers(m *graph.Model, order graph.Order, env symbolic.Env) ([]graph.ValueID, error) {
	t, err := newTraining(m, order, env)
	if err != nil {
		return nil, err
	}
	return t.plan.root[:len(m.Graph.Values)], nil
}

// Told reports by value whether the file declares its shape. ORTModule's exporter computes shapes, and a session's file
// has them.
func Told(g *graph.Graph) []bool {
	told := make([]bool, len(g.Values))
	for _, list := range [][]graph.Decl{g.Inputs, g.Outputs, g.ValueInfo} {
		for _, d := range list {
			told[d.Value] = true
		}
	}
	return told
}

// SizedByInput reports whether ORTModule's memory optimizer counts a node's output by its input where it does not know
// the output's dims (GetTensorElemCountInSymbolicString in orttraining/core/optimizer/memory_optimizer/common.cc).
func SizedByInput(n *graph.Node) bool { return n.Kind == op.Reshape }

// training is a step in a session of ORTModule, with the buffers of its values.
type training struct {
	program *live.Program
	steps   []int32
	space   [][]int64
	plan    *bufferPlan
}

func newTraining(m *graph.Model, order graph.Order, env symbolic.Env) (*training, error) {
	sizes, err := live.EvalSizes(m.Graph, env)
	if err != nil {
		return nil, err
	}
	t := &training{program: live.NewProgram(m.Graph, order, sizes), steps: make([]int32, len(order))}
	if _, err := t.program.Simulate(); err != nil { // the sizes of all values together overflow int64
		return nil, err
	}
	for i := range t.steps {
		t.steps[i] = int32(i)
	}
	facts := NewFacts(m, env)
	facts.shape, facts.shapes = numberShapes(m.Graph, Told(m.Graph))
	s := NewSimulator(facts)
	s.planner.apart = true
	s.planner.bind(t.program, &Case{Program: t.program})
	t.space = s.space
	t.plan = s.planner.plan(t.program, t.steps, s.shape, s.Facts.shapes, true)
	return t, nil
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
