package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// SplitSequences replaces every SplitToSequence of the main graph whose tensors are only read by
// SequenceAt nodes, at known places, by a Split. PyTorch's exporter writes torch.split as a sequence
// unless it optimizes, and few runtimes and no gradient support sequences. A model that inference
// rejects is not changed.
//
// For example, x.split(3, dim=1) of x [2, 8] is SplitToSequence(x, 3), and becomes Split with the
// sizes 3, 3, 2.
func SplitSequences(m *graph.Model) (changed bool, err error) {
	makes := func(n *graph.Node) bool { return Lookup(n.Domain, n.Op) == SplitToSequence }
	if !slices.ContainsFunc(m.Graph.Nodes, makes) {
		return false, nil
	}
	types, refused := InferAsIs(m)
	if refused != nil {
		return false, nil
	}
	s := &sequenceSplitter{g: m.Graph, types: types, uses: graph.NewUses(m.Graph), names: graph.NewNames(m),
		version: m.OpsetVersion(""), gone: make([]bool, len(m.Graph.Nodes))}
	for _, n := range slices.Clone(m.Graph.Nodes) {
		if n.Kind != SplitToSequence {
			continue
		}
		done, err := s.split(n)
		if err != nil {
			return true, err
		}
		changed = changed || done
	}
	if !changed {
		return false, nil
	}
	m.Graph.SetNodes(slices.DeleteFunc(slices.Clone(m.Graph.Nodes), func(n *graph.Node) bool { return s.gone[n.ID] }))
	return true, sealAll(m.Graph)
}

// sequenceSplitter holds the tables that all splits of a graph share.
type sequenceSplitter struct {
	g       *graph.Graph
	types   *Result
	uses    *graph.Uses
	names   *graph.Names
	version int64
	gone    []bool // by NodeID
}

// split replaces one node, if it can.
func (s *sequenceSplitter) split(n *graph.Node) (done bool, err error) {
	axis, sizes := s.sizes(n)
	if len(sizes) == 0 || slices.ContainsFunc(s.g.Outputs, func(d graph.Decl) bool { return d.Value == n.Output(0) }) {
		return false, nil
	}
	parts := make([]graph.ValueID, len(sizes))
	for i := range parts {
		parts[i] = graph.NoValue
	}
	uses := s.uses.Of(n.Output(0))
	places := make([]int64, len(uses))
	for i, u := range uses {
		at, ok := s.place(u, int64(len(sizes)))
		if !ok {
			return false, nil
		}
		places[i] = at
	}
	for i, u := range uses {
		reader := s.g.Nodes[u.Node]
		if at := places[i]; parts[at] == graph.NoValue {
			parts[at] = reader.Output(0)
			s.gone[u.Node] = true
		} else {
			reader.Op, reader.Kind, reader.Inputs = "Identity", Identity, []graph.ValueID{parts[at]}
		}
	}
	name := s.g.ValueName(n.Output(0))
	for i, v := range parts {
		if v == graph.NoValue {
			parts[i] = s.g.Value(s.names.Value(name + "_part"))
		}
	}
	return true, s.become(n, axis, sizes, parts, name)
}

// become makes a node the Split with some sizes and outputs.
func (s *sequenceSplitter) become(n *graph.Node, axis int64, sizes []int64, parts []graph.ValueID, name string) error {
	n.Op, n.Kind, n.Outputs = "Split", Split, parts
	n.Inputs, n.Attrs = n.Inputs[:1:1], []graph.Attr{{Name: "axis", Value: axis}}
	equal := !slices.ContainsFunc(sizes, func(size int64) bool { return size != sizes[0] })
	switch {
	case s.version < 13:
		n.Attrs = append(n.Attrs, graph.Attr{Name: "split", Value: sizes})
	case !equal:
		list := graph.Int64Tensor(s.names.Value(name+"_sizes"), []int64{int64(len(sizes))}, sizes...)
		v, err := s.g.AddInitializer(list)
		if err != nil {
			return err
		}
		n.Inputs = append(n.Inputs, v)
	case s.version >= 18:
		n.Attrs = append(n.Attrs, graph.Attr{Name: "num_outputs", Value: int64(len(sizes))})
	}
	return nil
}

// place returns the index of the tensor that a node takes out of a sequence of n tensors; ok is false if
// it is not known.
func (s *sequenceSplitter) place(u graph.Use, n int64) (at int64, ok bool) {
	reader := s.g.Nodes[u.Node]
	if reader.Kind != SequenceAt || u.Slot != 0 {
		return 0, false
	}
	list, known := s.types.Contents(reader.Input(1))
	if !known || len(list) != 1 {
		return 0, false
	}
	if at, ok = list[0].Const(); at < 0 {
		at += n
	}
	return at, ok && at >= 0 && at < n
}

// maxParts is more parts than a Split gets here: a sequence of more is one that loops go through.
const maxParts = 1024

// sizes returns the axis of a SplitToSequence and the sizes of its parts; nil if they are not known, or
// if its tensors lack the axis.
func (s *sequenceSplitter) sizes(n *graph.Node) (axis int64, sizes []int64) {
	shape := s.g.Values[n.Input(0)].Type.Shape
	axis = n.Int("axis", 0)
	if axis < 0 {
		axis += int64(shape.Rank())
	}
	if !shape.Ranked || axis < 0 || axis >= int64(shape.Rank()) || n.Input(1) == graph.NoValue {
		return 0, nil
	}
	list, known := s.types.Contents(n.Input(1))
	if !known || len(list) == 0 || len(list) > maxParts {
		return 0, nil
	}
	if t := s.g.Values[n.Input(1)].Type.Shape; t.Ranked && t.Rank() == 0 {
		return axis, partsOf(shape.Dims[axis], list[0])
	}
	for _, x := range list {
		size, ok := x.Const()
		if !ok || size < 0 {
			return 0, nil
		}
		sizes = append(sizes, size)
	}
	return axis, sizes
}

// partsOf returns the sizes of the parts of a dim, each of one size but the last, which may be smaller.
func partsOf(dim, size symbolic.Expr) (sizes []int64) {
	length, known := dim.Const()
	each, too := size.Const()
	if !known || !too || each <= 0 || length <= 0 || (length-1)/each >= maxParts {
		return nil
	}
	for ; length > 0; length -= each {
		sizes = append(sizes, min(each, length))
	}
	return sizes
}
