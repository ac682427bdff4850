package autograd

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// arrange puts the nodes in order of execution, forward half first, drops values without readers,
// and records where the halves meet.
func (j *joint) arrange(order graph.Order, forward int, losses []lossValue) error {
	early := j.earlyShapes(forward)
	nodes := slices.Clone(early[graph.NoNode])
	for _, id := range order {
		nodes = append(nodes, j.g.Nodes[id])
		nodes = append(nodes, early[id]...)
	}
	var backward []*graph.Node
	for _, n := range j.live(j.g.Nodes[forward:], nil) {
		if _, moved := j.shapeOfForward(n, forward); !moved {
			backward = append(backward, n)
		}
	}
	backward = j.restash(nodes, backward)
	nodes = j.dropUnread(nodes, backward, losses)
	first := len(nodes)
	nodes = append(nodes, backward...)
	j.g.SetNodes(nodes)
	j.dropConstants()
	j.out.Backward = graph.NodeID(first)
	j.m.Path += " (differentiated)"
	b := live.Boundary{Kind: live.RecordedBoundary, Node: j.g.Values[losses[0].value].Def, Loss: losses[0].value,
		Backward: graph.NoNode}
	if first < len(nodes) {
		b.Backward = j.out.Backward
	}
	j.m.SetMeta(live.BoundaryKey, b.Record(j.g))
	var err error
	j.out.Types, err = op.InferAsIs(j.m)
	return err
}

// earlyShapes lists the nodes that rules have emitted for the shapes of forward values, by the node
// that makes the value: they run right behind it, so that the backward half keeps a few integers
// and not the value.
func (j *joint) earlyShapes(forward int) map[graph.NodeID][]*graph.Node {
	early := map[graph.NodeID][]*graph.Node{}
	for _, n := range j.live(j.g.Nodes[forward:], nil) {
		if def, ok := j.shapeOfForward(n, forward); ok {
			early[def] = append(early[def], n)
		}
	}
	return early
}

// shapeOfForward reports whether an emitted node only reads the shape of a forward value, and
// returns that value's producer.
func (j *joint) shapeOfForward(n *graph.Node, forward int) (graph.NodeID, bool) {
	if !op.Of(n.Kind).Has(op.ShapeOf) {
		return graph.NoNode, false
	}
	def := j.g.Values[n.Inputs[0]].Def
	return def, def == graph.NoNode || int(def) < forward
}

// live returns the nodes of a list in order of execution that a graph output, or one of the losses,
// depends on in the end.
func (j *joint) live(nodes []*graph.Node, losses []lossValue) []*graph.Node {
	used := make([]bool, len(j.g.Values))
	for _, d := range j.g.Outputs {
		used[d.Value] = true
	}
	for _, l := range losses {
		used[l.value] = true
	}
	var kept []*graph.Node
	for _, n := range slices.Backward(nodes) {
		if !slices.ContainsFunc(n.Outputs, func(v Value) bool { return v != None && used[v] }) {
			continue
		}
		for _, list := range [][]Value{n.Inputs, n.Captures()} {
			for _, v := range list {
				if v != None {
					used[v] = true
				}
			}
		}
		n.Subgraphs(func(_ string, sub *graph.Graph) {
			for i := range sub.Values {
				if outer := sub.Values[i].Outer; outer != None {
					used[outer] = true
				}
			}
		})
		kept = append(kept, n)
	}
	slices.Reverse(kept)
	return kept
}

// dropConstants removes the constants of rules that have no readers.
func (j *joint) dropConstants() {
	uses := graph.NewUses(j.g)
	made := map[Value]bool{}
	for _, v := range j.constants {
		made[v] = len(uses.Of(v)) == 0 && !j.g.Values[v].Output
	}
	j.g.Initializers = slices.DeleteFunc(j.g.Initializers, func(v Value) bool { return made[v] })
	for v, unused := range made {
		if unused {
			j.g.Values[v].Data = nil
		}
	}
}
