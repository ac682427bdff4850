package ort

import (
	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// Facts is the part of a simulation that all programs of a graph share: the properties of nodes and
// constants that the optimizations ask for, the shapes that the runtime knows, and the workspaces
// of its kernels. It is read-only.
type Facts struct {
	node   []nodeFacts
	same   []graph.ValueID // by value: the first one of equal small constants, or itself
	fixed  []bool          // by value: a constant
	shape  []Shape         // by value
	shapes int             // how many shapes there are
	space  [][]int64       // by node: blocks of workspace
}

// NewFacts gathers the facts of a model's main graph at given bindings of its symbols.
func NewFacts(m *graph.Model, env symbolic.Env) *Facts {
	g := m.Graph
	k := kernels{g: g, opset: m.OpsetVersion(""), env: env}
	f := &Facts{
		node: describeAll(g), same: sharedConstants(g), fixed: make([]bool, len(g.Values)), space: k.workspaces(),
	}
	f.shape, f.shapes = numberShapes(g, nil)
	for v := range f.fixed {
		f.fixed[v] = op.Contents(g, graph.ValueID(v)) != nil
	}
	return f
}

// Shape returns the shape of a value of the graph.
func (f *Facts) Shape(v graph.ValueID) Shape { return f.shape[v] }
