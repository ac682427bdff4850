package recompute

import (
	"slices"

	"memopt/graph"
	"memopt/graph/ortsim"
)

// foldCopies takes out the Identity nodes that copy what anchors wait for to graph outputs, and
// lets the nodes that make these values make the outputs. ONNX Runtime does so by itself where
// nothing else reads the value; an anchor reads its size.
func (r *rewriter) foldCopies(nodes []*graph.Node) []*graph.Node {
	sunk, read := r.sunk()
	if !slices.Contains(sunk, true) {
		return nodes
	}
	as := make([]graph.ValueID, len(r.old.Values))
	for v := range as {
		as[v] = graph.ValueID(v)
	}
	kept, origin := nodes[:0], r.out.Origin[:0]
	for i, n := range nodes {
		if from := r.out.Origin[i]; from != graph.NoNode && n == r.g.Nodes[from] && r.copiesToOutput(n, sunk, read) {
			sunk[n.Inputs[0]] = false
			as[n.Inputs[0]] = n.Outputs[0]
			continue
		}
		kept, origin = append(kept, n), append(origin, r.out.Origin[i])
	}
	r.out.Origin = origin
	for _, n := range kept {
		rename(n.Inputs, as)
		rename(n.Outputs, as)
	}
	r.g.ValueInfo = slices.DeleteFunc(r.g.ValueInfo, func(d graph.Decl) bool {
		return int(d.Value) < len(as) && as[d.Value] != d.Value
	})
	return kept
}

// sunk marks the values of the old graph that anchors wait for and that only nodes of the graph
// itself read, and all values that are read by nodes.
func (r *rewriter) sunk() (out, read []bool) {
	out, read = make([]bool, len(r.old.Values)), make([]bool, len(r.old.Values))
	for i := range r.opts.Anchors {
		for _, v := range r.opts.Anchors[i].Sinks {
			out[v] = r.newest.Of(v) == v && r.old.Values[v].Def != graph.NoNode && !r.old.Values[v].Output
		}
	}
	for _, n := range r.old.Nodes {
		for _, v := range n.Inputs {
			if v != graph.NoValue {
				read[v] = true
			}
		}
		for _, v := range n.Captures() {
			out[v], read[v] = false, true
		}
	}
	return out, read
}

// copiesToOutput reports whether a node copies a sunk value to a graph output that nobody reads.
func (r *rewriter) copiesToOutput(n *graph.Node, sunk, read []bool) bool {
	if !ortsim.Copies(n.Kind) || n.Input(0) == graph.NoValue || n.Output(0) == graph.NoValue {
		return false
	}
	in, out := n.Inputs[0], n.Outputs[0]
	return int(in) < len(sunk) && sunk[in] && int(out) < len(sunk) && r.old.Values[out].Output && !read[out]
}

func rename(list, as []graph.ValueID) {
	for i, v := range list {
		if v != graph.NoValue && int(v) < len(as) {
			list[i] = as[v]
		}
	}
}
