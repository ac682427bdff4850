package optimize

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// chains merges a node and the producer of its input 0, which has no other reader, by an edit of the
// node. A rule reports whether it has made one. Only operators in the table can be the producer.
var chains = [op.NumKinds]struct {
	behind func(s *site, first, n *graph.Node) bool
	front  chainFamily
}{
	op.Transpose: {behind: transposeTwice, front: permutes},
	op.Reshape:   {behind: reshapeTwice, front: reshapes},
	op.Flatten:   {front: reshapes},
	op.Squeeze:   {front: reshapes},
	op.Unsqueeze: {front: reshapes},
	op.Cast:      {behind: castTwice, front: casts},
}

// chainFamily is the kind of chain that an operator can be a part of.
type chainFamily uint8

const (
	noChain chainFamily = iota
	permutes
	reshapes
	casts
)

// joinChains joins nodes with the ones in front of them.
func joinChains(s *site) error {
	s.Nodes(func(n *graph.Node) {
		row := chains[n.Kind]
		if row.behind == nil || !known(n) {
			return
		}
		first := s.Maker(n.Input(0))
		if first == nil || chains[first.Kind].front != row.front || !known(first) || s.Gone(first) ||
			!s.Only(n.Inputs[0], n) || first.Input(0) == graph.NoValue {
			return
		}
		if !row.behind(s, first, n) {
			return
		}
		s.SetInput(n, 0, first.Input(0))
		s.Remove(first)
		s.did(n.Op)
	})
	return nil
}

// transposeTwice composes two permutations.
func transposeTwice(s *site, first, n *graph.Node) bool {
	shape := s.typeOf(first.Input(0)).Shape
	if !shape.Ranked {
		return false
	}
	rank := len(shape.Dims)
	a, b := permOf(first, rank), permOf(n, rank)
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(a[b[i]])
	}
	n.SetAttr("perm", perm)
	return true
}

// reshapeTwice: the shape in between does not matter unless the target copies dims from it.
func reshapeTwice(s *site, first, n *graph.Node) bool {
	target := n.Input(1)
	if target == graph.NoValue {
		return false
	}
	list, ok := s.ints(target)
	return ok && !slices.Contains(list, 0)
}

// castTwice: a type that holds all elements of the first one may be left out.
func castTwice(s *site, first, n *graph.Node) bool {
	from, over := s.typeOf(first.Input(0)).DType, s.typeOf(n.Input(0)).DType
	return slices.Contains(holders[from], over)
}

// holders lists by type those that hold all of its elements exactly, so that a conversion over them
// ends as one without them.
var holders = map[graph.DType][]graph.DType{
	graph.Bool:    {graph.Uint8, graph.Int8, graph.Int16, graph.Int32, graph.Int64},
	graph.Uint8:   {graph.Int16, graph.Int32, graph.Int64},
	graph.Int8:    {graph.Int16, graph.Int32, graph.Int64},
	graph.Int16:   {graph.Int32, graph.Int64},
	graph.Uint16:  {graph.Int32, graph.Int64},
	graph.Int32:   {graph.Int64},
	graph.Uint32:  {graph.Int64},
	graph.Float16: {graph.Float32, graph.Float64},
	graph.BFloat16: {
		graph.Float32, graph.Float64},
	graph.Float32: {graph.Float64},
}
