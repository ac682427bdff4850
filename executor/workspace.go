package executor

import (
	"context"

	"memopt/graph"
	"memopt/graph/op"
)

// Workspaces returns the bytes of workspace that a device's kernels announce for the nodes of a
// model, by NodeID; 0 for a node without workspace or with shapes unknown before the run. Planners
// count them. The error is that of Open.
func Workspaces(ctx context.Context, m *graph.Model, types *op.Result, d Device, opts Options) ([]int64, error) {
	opts.OnDemand, opts.sizesOnly = true, true // no layout is wanted
	s, err := Open(ctx, m, types, d, opts)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out := make([]int64, len(m.Graph.Nodes))
	for i := range s.root.steps {
		st := &s.root.steps[i]
		out[st.node.ID] = s.root.workspaceOf(st)
	}
	return out, nil
}
