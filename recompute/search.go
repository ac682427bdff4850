package recompute

import (
	"cmp"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

const (
	// smallElements is ONNX Runtime's limit for small values: its search takes a value of known,
	// numeric shape and fewer elements as available.
	smallElements = 1 << 20
	// maxSubgraph and maxWork keep the search from taking quadratic time and space on graphs where
	// many entries lead to one large subgraph. ONNX Runtime has no such limits; a subgraph of
	// thousands of nodes is not worth recomputing anyway.
	maxSubgraph = 20_000
	maxWork     = 20_000_000
)

// found is the outcome of one search.
type found struct {
	nodes      []graph.NodeID // in order of execution; nil where the search failed
	ratio      Ratio
	compromise bool // a Cast on the way widens its input
	blocker    graph.NodeID
	why        string
}

func (f *found) ok() bool { return f.nodes != nil }

func (f *found) fail(blocker graph.NodeID, why string) {
	f.nodes, f.blocker, f.why = nil, blocker, why
}

// subgraph searches upstream from an entry, breadth-first. With compromise it
// stops at Casts that widen.
func (s *search) subgraph(entry graph.NodeID, compromise bool) found {
	f := found{ratio: Ratio{1, 1}, blocker: graph.NoNode}
	s.searches++
	queue := []graph.NodeID{entry}
	for head := 0; head < len(queue); head++ {
		id := queue[head]
		if s.visited[id] == s.searches {
			continue
		}
		s.visited[id] = s.searches
		s.work++
		if id != entry {
			if s.entry[id] {
				continue // available: stashed itself
			}
			if why := s.policy.reject(id); why != "" {
				f.fail(id, fmt.Sprintf("it needs %q, which is not available in the backward half "+
					"and cannot be recomputed: %s",
					s.a.Graph.NodeLabel(id), why))
				return f
			}
		}
		f.nodes = append(f.nodes, id)
		if len(f.nodes) > maxSubgraph || s.work > maxWork {
			f.fail(id, "the subgraph to recompute is too large to be worth searching")
			return f
		}
		if ratio, widens := s.widening(id); widens {
			f.compromise = true
			if compromise {
				f.ratio = Ratio{ratio.Den - ratio.Num, ratio.Den}.reduced()
				continue
			}
		}
		queue = s.followInputs(queue, id)
	}
	slices.SortFunc(f.nodes, func(a, b graph.NodeID) int { return cmp.Compare(s.pos[a], s.pos[b]) })
	return f
}

// followInputs appends the producers of a node's inputs that the search goes on with.
func (s *search) followInputs(queue []graph.NodeID, id graph.NodeID) []graph.NodeID {
	skip := s.policy.skip(id)
	s.edges.EachIn(id, func(producer graph.NodeID, outSlot, inSlot int) bool {
		if !slices.Contains(skip, inSlot) && !s.isSmall(s.a.Graph.Nodes[producer].Outputs[outSlot]) {
			queue = append(queue, producer)
		}
		return true
	})
	return queue
}

// isSmall reports whether a value has a numeric shape of few elements. It is asked once per value,
// however many searches meet it.
func (s *search) isSmall(id graph.ValueID) bool {
	if s.size[id] == unasked {
		s.size[id] = large
		if n, ok := s.a.Graph.Values[id].Type.Shape.Elements().Const(); ok && n < smallElements {
			s.size[id] = small
		}
	}
	return s.size[id] == small
}

// The size of a value as a search knows it.
const (
	unasked uint8 = iota
	small
	large
)

// widening returns the ratio of input to output size of a Cast, and whether it is below 1. It only
// looks at the operator's name, as ONNX Runtime does.
func (s *search) widening(id graph.NodeID) (Ratio, bool) {
	n := s.a.Graph.Nodes[id]
	if !op.Of(n.Kind).Has(op.CastRole) || n.Input(0) == graph.NoValue || n.Output(0) == graph.NoValue {
		return Ratio{1, 1}, false
	}
	in, out := s.a.Graph.Values[n.Input(0)].Type.DType.Bits(), s.a.Graph.Values[n.Output(0)].Type.DType.Bits()
	if in == 0 || out == 0 || in >= out {
		return Ratio{1, 1}, false
	}
	return Ratio{int64(in), int64(out)}, true
}
