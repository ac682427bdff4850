package recompute

import (
	"fmt"

	"memopt/graph"
)

// Placement asks for one second computation: Nodes run again right before the
// node Before, which reads the new value or needs it for another placement.
type Placement struct {
	Value  graph.ValueID  // what is made again: an output of the last of Nodes
	Nodes  []graph.NodeID // in order of execution
	Before graph.NodeID   // a backward node
	Copy   int            // 1 for the first clone of Value, 2 for the second, …
	Reason string
}

// Labels gives every node of a graph a name that no other node has: its own
// name where it is unique, else the name or operator with "#" and the node's
// place in the file. Plan files refer to nodes by it.
func Labels(g *graph.Graph) []string {
	count := make(map[string]int, len(g.Nodes))
	for _, n := range g.Nodes {
		count[n.Name]++
	}
	out := make([]string, len(g.Nodes))
	for i, n := range g.Nodes {
		switch {
		case n.Name == "":
			out[i] = fmt.Sprintf("%s#%d", n.Op, i)
		case count[n.Name] > 1:
			out[i] = fmt.Sprintf("%s#%d", n.Name, i)
		default:
			out[i] = n.Name
		}
	}
	return out
}

// checkPlacements reports the first placement that Apply could not obey.
func checkPlacements(g *graph.Graph, backward []bool, placements []Placement) error {
	for i, p := range placements {
		if len(p.Nodes) == 0 || p.Value < 0 || int(p.Value) >= len(g.Values) {
			return fmt.Errorf("placement %d: names no nodes or no value", i)
		}
		name := g.Values[p.Value].Name
		if p.Before < 0 || int(p.Before) >= len(g.Nodes) || !backward[p.Before] {
			return fmt.Errorf("placement of %q: the reader must be a backward node of this graph", name)
		}
		if last := p.Nodes[len(p.Nodes)-1]; g.Values[p.Value].Def != last {
			return fmt.Errorf("placement of %q: the last node, %q, does not make it", name, g.NodeLabel(last))
		}
		for _, id := range p.Nodes {
			if id < 0 || int(id) >= len(g.Nodes) || backward[id] {
				return fmt.Errorf("placement of %q: node %d is no forward node of this graph", name, id)
			}
		}
	}
	return nil
}
