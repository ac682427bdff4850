package planner

import (
	"math"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner/chunk"
	"memopt/symbolic"
)

// tileRows is the rows and the columns of the tiles that products on a GPU are computed in: a
// product takes the time of whole tiles (NVIDIA, Matrix Multiplication Background User's Guide, DU-09798,
// "Tile quantization": 128 by 128 are usual).
const tileRows = 128

// shares compares the costs of parts of nodes with those of the whole nodes.
type shares struct {
	// tiles is by node: how much longer a part of a product takes by the tiles that it fills in part,
	// and the whole one does not; at least 1.
	tiles []float64
	// added are the nodes that are no parts of any: slices, joins and sums.
	added []bool
	// origin is by node the whole node that it is a part of, and whole has the costs of these.
	origin []graph.NodeID
	whole  *nodeCosts
}

// newShares compares the nodes of a chunked graph with those of the whole.
func newShares(whole *Plan, f *chunk.Applied) *shares {
	s := &shares{tiles: make([]float64, len(f.Origin)), added: make([]bool, len(f.Origin)), origin: f.Origin,
		whole: whole.costs}
	before, dims := whole.Analysis.Graph, whole.Options.Dims
	for i, old := range f.Origin {
		s.tiles[i] = 1
		if s.added[i] = old == graph.NoNode; s.added[i] {
			continue
		}
		n := f.Model.Graph.Nodes[i]
		if op.Of(n.Kind).Class != op.Expensive {
			continue
		}
		s.tiles[i] = max(1, tileLoss(f.Model.Graph, n, dims)/tileLoss(before, before.Nodes[old], dims))
	}
	return s
}

// tileLoss is the ratio of a product's computed elements, those of whole tiles, to the elements of its
// output.
func tileLoss(g *graph.Graph, n *graph.Node, env symbolic.Env) float64 {
	v := n.Output(0)
	if v == graph.NoValue || !g.Values[v].Type.Shape.Ranked {
		return 1
	}
	rows, columns := 1.0, 1.0
	dims := g.Values[v].Type.Shape.Dims
	for i, d := range dims {
		size, err := d.Eval(env)
		if err != nil || size <= 0 {
			return 1
		}
		if i == len(dims)-1 {
			columns = float64(size)
		} else {
			rows *= float64(size)
		}
	}
	return filled(rows) * filled(columns) / (rows * columns)
}

// filled rounds up to whole tiles.
func filled(n float64) float64 {
	tiles := int64(n+tileRows-1) / tileRows
	return float64(tiles * tileRows)
}

// moved is the bytes that a step moves. Among the nodes that chunking adds, slices that are views move no
// bytes, and joins move only parts that were not written in place.
func (s *shares) moved(step *live.Step, sizes *live.Sizes) int64 {
	if s == nil || !s.added[step.Node] || step.Slices == nil {
		return step.Traffic(sizes)
	}
	list := step.Out
	if step.Slices.Join {
		list = step.In
	}
	var bytes int64
	for i, v := range list {
		if v != graph.NoValue && (i >= len(step.Slices.At) || step.Slices.At[i] < 0) {
			bytes += 2 * max(sizes.Bytes[v], 0)
		}
	}
	return bytes
}

// measured converts measured times by node of the whole graph to nodes of the chunked one: a part takes
// the share of the whole node's time that the profile estimates for its size. estimated has the profile's
// times of the parts.
func (s *shares) measured(costs, estimated []float64) []float64 {
	if s == nil {
		return costs
	}
	parts := make([]float64, len(costs))
	for _, old := range s.origin {
		if old != graph.NoNode {
			parts[old]++
		}
	}
	out := make([]float64, len(s.origin))
	for i, old := range s.origin {
		switch {
		case old == graph.NoNode:
			out[i] = math.NaN()
		case s.whole.estimated[old] > 0:
			out[i] = costs[old] * (estimated[i] / s.whole.estimated[old])
		default:
			out[i] = costs[old] / parts[old]
		}
	}
	return out
}

// loss is the ratio of a node's time to its arithmetic's time by the roofline.
func (s *shares) loss(id graph.NodeID) float64 {
	if s == nil {
		return 1
	}
	return s.tiles[id]
}
