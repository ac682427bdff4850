package recompute

import (
	"slices"

	"memopt/graph"
	ortsim "memopt/sim/ort"
)

// folding is the rule for copies of sinks: a node that copies a sink to a graph output is left out,
// and the producer of the value makes the output. ONNX Runtime does so by itself if the value has
// no other reader; an anchor reads its size.
type folding struct {
	copies []bool // by node: it copies the output of a node to a graph output without readers
	may    []bool // by value: nodes of the graph itself alone read it, and it is no graph output
	sunk   []bool // by value: an anchor waits for it, and no copy of it has been left out
}

func newFolding(g *graph.Graph) folding {
	f := folding{copies: make([]bool, len(g.Nodes)), may: make([]bool, len(g.Values)),
		sunk: make([]bool, len(g.Values))}
	read := make([]bool, len(g.Values))
	for v := range f.may {
		f.may[v] = g.Values[v].Def != graph.NoNode && !g.Values[v].Output
	}
	for _, n := range g.Nodes {
		for _, v := range n.Inputs {
			if v != graph.NoValue {
				read[v] = true
			}
		}
		for _, v := range n.Captures() {
			f.may[v], read[v] = false, true
		}
	}
	for i, n := range g.Nodes {
		in, out := n.Input(0), n.Output(0)
		f.copies[i] = ortsim.Copies(n.Kind) && in != graph.NoValue && out != graph.NoValue &&
			g.Values[in].Def != graph.NoNode && g.Values[out].Output && !read[out]
	}
	return f
}

// reset forgets the sinks of anchors.
func (f *folding) reset() { clear(f.sunk) }

// wait says that an anchor waits for a value of the graph.
func (f *folding) wait(v graph.ValueID) { f.sunk[v] = f.may[v] }

// CopiesResult reports whether a node of the graph copies the output of a node to a graph output
// without readers.
func (e *AnchorEmitter) CopiesResult(id graph.NodeID) bool { return e.folds.copies[id] }

// Folds reports whether a node of the graph is left out because its input takes the place of its
// output. It is asked once all anchors are emitted, for the nodes in their order: if a value has
// several copies, the first folds.
func (e *AnchorEmitter) Folds(id graph.NodeID) bool {
	if !e.folds.copies[id] {
		return false
	}
	in := e.g.Nodes[id].Inputs[0]
	if !e.folds.sunk[in] || !e.sink.Itself(in) {
		return false
	}
	e.folds.sunk[in] = false
	return true
}

// foldCopies takes out the nodes that fold, and lets the nodes that make their inputs make their
// outputs.
func (s *graphSink) foldCopies() []*graph.Node {
	as := make([]graph.ValueID, len(s.old.Values))
	for v := range as {
		as[v] = graph.ValueID(v)
	}
	kept, origin := s.nodes[:0], s.out.Origin[:0]
	for i, n := range s.nodes {
		if from := s.out.Origin[i]; from != graph.NoNode && n == s.g.Nodes[from] && s.writer.emitter.Folds(from) {
			as[n.Inputs[0]] = n.Outputs[0]
			continue
		}
		kept, origin = append(kept, n), append(origin, s.out.Origin[i])
	}
	if len(kept) == len(s.nodes) {
		return kept
	}
	s.out.Origin = origin
	for _, n := range kept {
		rename(n.Inputs, as)
		rename(n.Outputs, as)
	}
	s.g.ValueInfo = slices.DeleteFunc(s.g.ValueInfo, func(d graph.Decl) bool {
		return int(d.Value) < len(as) && as[d.Value] != d.Value
	})
	return kept
}

func rename(list, as []graph.ValueID) {
	for i, v := range list {
		if v != graph.NoValue && int(v) < len(as) {
			list[i] = as[v]
		}
	}
}
