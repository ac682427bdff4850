package recompute

import (
	"memopt/graph"
	"memopt/graph/op"
)

// ReleaseSuffix ends the names of the nodes that Options.Release adds.
const ReleaseSuffix = "_unread"

// released puts a Shape node behind each output that no node reads.
func (r *rewriter) released(nodes []*graph.Node) []*graph.Node {
	read := make([]bool, len(r.g.Values))
	note := func(list []graph.ValueID) {
		for _, v := range list {
			if v != graph.NoValue {
				read[v] = true
			}
		}
	}
	for _, n := range nodes {
		note(n.Inputs)
		note(n.Captures())
	}
	for _, d := range r.g.Outputs {
		read[d.Value] = true
	}
	w := newAnchorWriter(r, r.out.Model.OpsetVersion(""))
	out, origin := make([]*graph.Node, 0, len(nodes)), make([]graph.NodeID, 0, len(nodes))
	for i, n := range nodes {
		out, origin, w.nodes = append(out, n), append(origin, r.out.Origin[i]), nil
		for _, v := range n.Outputs {
			if v != graph.NoValue && !read[v] && r.large(v) {
				shape := graph.Tensor(graph.Int64, graph.Ints(int64(r.g.Values[v].Type.Shape.Rank())))
				w.add(op.Shape, r.g.ValueName(v)+ReleaseSuffix, shape, true, v)
			}
		}
		for _, added := range w.nodes {
			r.guards[added] = true // it stands in either half
			out, origin = append(out, added), append(origin, graph.NoNode)
		}
		r.out.ReleaseNodes += len(w.nodes)
	}
	r.out.Origin = origin
	return out
}

// large reports whether a value may be worth a node that lets a runtime free it.
func (r *rewriter) large(v graph.ValueID) bool {
	t := &r.g.Values[v].Type
	if t.Form != graph.FormTensor || t.Shape.Rank() < 1 {
		return false
	}
	bytes, known := t.Bytes().Const()
	return !known || bytes >= smallest
}

// smallest: values of fewer bytes stay allocated.
const smallest = 4096
