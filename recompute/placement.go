package recompute

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
)

// Placement asks for one recomputation: Nodes are recomputed right before the node Before, which
// reads the new value or needs it for another placement.
type Placement struct {
	Value  graph.ValueID  // the recomputed value: an output of the last of Nodes
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

// ErrPlacement means that placements do not fit the graph that they are for.
var ErrPlacement = errors.New("the placements do not fit this graph")

// Arrange checks that the placements can be applied in an order of the graph and returns them in
// their order of execution: by the place of their reader and, before one reader, by that of the
// value's producer, so that a value is available when another placement needs it. The error wraps
// ErrPlacement and names the first that cannot be applied.
func Arrange(g *graph.Graph, order graph.Order, backward []bool, placements []Placement) ([]Placement, error) {
	pos := order.Positions()
	for i := range placements {
		if err := checkPlacement(g, backward, pos, &placements[i]); err != nil {
			return nil, fmt.Errorf("%w: placement %d: %w", ErrPlacement, i, err)
		}
	}
	return InOrder(order, placements), nil
}

// InOrder returns placements in their order of execution (Arrange), without checking them.
func InOrder(order graph.Order, placements []Placement) []Placement {
	pos, out := order.Positions(), slices.Clone(placements)
	slices.SortStableFunc(out, func(a, b Placement) int {
		return cmp.Or(cmp.Compare(pos[a.Before], pos[b.Before]), cmp.Compare(pos[a.last()], pos[b.last()]))
	})
	return out
}

// last returns the node that makes the value.
func (p *Placement) last() graph.NodeID { return p.Nodes[len(p.Nodes)-1] }

func checkPlacement(g *graph.Graph, backward []bool, pos []int32, p *Placement) error {
	if len(p.Nodes) == 0 || p.Value < 0 || int(p.Value) >= len(g.Values) {
		return errors.New("it names no nodes or no value")
	}
	name := g.Values[p.Value].Name
	if p.Before < 0 || int(p.Before) >= len(g.Nodes) || !backward[p.Before] {
		return fmt.Errorf("value %q: the reader must be a backward node", name)
	}
	if g.Values[p.Value].Def != p.last() {
		return fmt.Errorf("value %q: the last of the nodes does not make it", name)
	}
	for _, id := range p.Nodes {
		if id < 0 || int(id) >= len(g.Nodes) {
			return fmt.Errorf("value %q: there is no node %d", name, id)
		}
		if backward[id] && pos[id] >= pos[p.Before] {
			return fmt.Errorf("value %q: node %q cannot be recomputed before %q, which it follows in the order", name,
				g.NodeLabel(id), g.NodeLabel(p.Before))
		}
		if why := uncloneable(g, id); why != "" {
			return fmt.Errorf("value %q: %s; leave its cluster out", name, why)
		}
	}
	return nil
}
