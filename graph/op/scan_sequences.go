package op

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// ScanSequences replaces sequences that loops of the main graph fill: where a Loop begins with an empty
// sequence, inserts a tensor at its end in each iteration, and ConcatFromSequence nodes alone read the
// filled sequence, the tensors become a scan output of the Loop. Its slices are joined by Reshape and
// Transpose. PyTorch's exporter writes nn.EmbeddingBag so. The tensors must have the same length along the
// axis; their other dims are equal, or ConcatFromSequence would fail. A model that inference rejects is
// not changed.
//
// For example, ConcatFromSequence<axis=0> of four tensors [1, 8] is the scan output [4, 1, 8] as [4, 8].
func ScanSequences(m *graph.Model) (changed bool, err error) {
	joins := func(n *graph.Node) bool { return Lookup(n.Domain, n.Op) == ConcatFromSequence }
	loops := func(n *graph.Node) bool { return Lookup(n.Domain, n.Op) == Loop }
	if !slices.ContainsFunc(m.Graph.Nodes, joins) || !slices.ContainsFunc(m.Graph.Nodes, loops) {
		return false, nil
	}
	if _, refused := InferAsIs(m); refused != nil {
		return false, nil
	}
	s := &sequenceScanner{g: m.Graph, uses: graph.NewUses(m.Graph), names: graph.NewNames(m),
		gone: map[*graph.Node]bool{}, begun: map[*graph.Node]int{}, before: map[*graph.Node][]*graph.Node{}}
	for _, n := range slices.Clone(m.Graph.Nodes) {
		if n.Kind != Loop {
			continue
		}
		// From the last one on, so that the places of the others stay.
		for k := len(n.GraphAttr("body").Inputs) - 3; k >= 0; k-- {
			done, err := s.scan(n, k)
			if err != nil {
				return true, err
			}
			changed = changed || done
		}
	}
	if !changed {
		return false, nil
	}
	var nodes []*graph.Node
	for _, n := range m.Graph.Nodes {
		nodes = append(nodes, s.before[n]...)
		if !s.gone[n] {
			nodes = append(nodes, n)
		}
	}
	m.Graph.SetNodes(nodes)
	return true, sealAll(m.Graph)
}

// sequenceScanner holds the tables that all loops of a graph share.
type sequenceScanner struct {
	g      *graph.Graph
	uses   *graph.Uses
	names  *graph.Names
	gone   map[*graph.Node]bool
	begun  map[*graph.Node]int           // by SequenceEmpty: its readers that are rewritten
	before map[*graph.Node][]*graph.Node // by node: new ones that come before it
}

// scan makes the k-th carried value of a loop a scan output, if it can.
func (s *sequenceScanner) scan(loop *graph.Node, k int) (done bool, err error) {
	body, out := loop.GraphAttr("body"), loop.Output(k)
	empty := s.emptyFor(loop, k)
	insert := insertedAtEnd(body, k)
	if empty == nil || insert == nil || out == graph.NoValue || s.returned(out) {
		return false, nil
	}
	slice := insert.Input(1)
	dims := body.Values[slice].Type.Shape.Dims
	if !body.Values[slice].Type.Shape.Ranked {
		return false, nil
	}
	uses := s.uses.Of(out)
	for _, u := range uses {
		if n := s.g.Nodes[u.Node]; n.Kind != ConcatFromSequence || u.Slot != 0 || !s.joinable(n, dims) {
			return false, nil
		}
	}
	all := s.g.Value(s.names.Value(s.g.ValueName(out) + "_slices"))
	for _, u := range uses {
		if err := s.join(s.g.Nodes[u.Node], all, dims); err != nil {
			return true, err
		}
	}
	loop.Inputs = slices.Delete(slices.Clone(loop.Inputs), k+2, k+3)
	loop.Outputs = append(slices.Delete(slices.Clone(loop.Outputs), k, k+1), all)
	s.bodyOf(body, k, insert, slice)
	s.begun[empty]++
	s.gone[empty] = s.begun[empty] == len(s.uses.Of(empty.Output(0)))
	return true, nil
}

// bodyOf rewrites the body of a loop: the slice takes the place of the sequence, as its last output.
func (s *sequenceScanner) bodyOf(body *graph.Graph, k int, insert *graph.Node, slice graph.ValueID) {
	nodes := slices.DeleteFunc(slices.Clone(body.Nodes), func(n *graph.Node) bool { return n == insert })
	kind := body.Values[slice].Type
	body.Inputs = slices.Delete(slices.Clone(body.Inputs), k+2, k+3)
	body.Outputs = slices.Delete(slices.Clone(body.Outputs), k+1, k+2)
	isOutput := func(d graph.Decl) bool { return d.Value == slice }
	if body.Values[slice].Def == graph.NoNode || slices.ContainsFunc(body.Outputs, isOutput) {
		copied := body.Value(s.names.Value(body.ValueName(slice) + "_slice"))
		nodes = append(nodes, &graph.Node{Op: "Identity", Kind: Identity, Inputs: []graph.ValueID{slice},
			Outputs: []graph.ValueID{copied}})
		slice = copied
	}
	body.Values[slice].Output, body.Values[slice].Type = true, kind
	body.Outputs = append(body.Outputs, graph.Decl{Value: slice, Type: kind})
	body.SetNodes(nodes)
}

// emptyFor is the SequenceEmpty that a carried value begins with; nil where it begins otherwise.
func (s *sequenceScanner) emptyFor(loop *graph.Node, k int) *graph.Node {
	first := loop.Input(k + 2)
	if first == graph.NoValue || s.returned(first) {
		return nil
	}
	if def := s.g.Values[first].Def; def != graph.NoNode && s.g.Nodes[def].Kind == SequenceEmpty {
		return s.g.Nodes[def]
	}
	return nil
}

func (s *sequenceScanner) returned(v graph.ValueID) bool {
	return slices.ContainsFunc(s.g.Outputs, func(d graph.Decl) bool { return d.Value == v })
}

// insertedAtEnd is the node of a body that puts a tensor behind the sequence which is the k-th carried
// value that has no other reader; nil where it has one.
func insertedAtEnd(body *graph.Graph, k int) *graph.Node {
	uses := graph.NewUses(body)
	in, next := body.Inputs[k+2].Value, body.Outputs[k+1].Value
	read := uses.Of(in)
	if len(read) != 1 || read[0].Slot != 0 || len(uses.Of(next)) > 0 {
		return nil
	}
	n := body.Nodes[read[0].Node]
	outputs := 0
	for _, d := range body.Outputs {
		if d.Value == in {
			return nil
		}
		if d.Value == next {
			outputs++
		}
	}
	if n.Kind != SequenceInsert || n.Input(2) != graph.NoValue || n.Output(0) != next || outputs != 1 {
		return nil
	}
	return n
}

// varies reports whether a dim may differ between iterations: it is no number, and depends on more than the
// symbols of the graph's inputs.
func (s *sequenceScanner) varies(dim symbolic.Expr) bool {
	if !dim.IsKnown() {
		return true
	}
	return slices.ContainsFunc(dim.Symbols(), func(symbol string) bool {
		named := func(x symbolic.Expr) bool { return x.Equal(symbolic.Sym(symbol)) }
		return !slices.ContainsFunc(s.g.Inputs, func(d graph.Decl) bool {
			return slices.ContainsFunc(d.Type.Shape.Dims, named)
		})
	})
}

// joinAxis is the axis of a ConcatFromSequence, counted from 0, and whether it is a new one.
func joinAxis(n *graph.Node, rank int) (axis int, added bool) {
	added = n.Int("new_axis", 0) != 0
	if added {
		rank++
	}
	if axis = int(n.Int("axis", 0)); axis < 0 {
		axis += rank
	}
	return axis, added
}

// joinable reports whether slices of some dims can be joined: those of a scan output have one length.
func (s *sequenceScanner) joinable(n *graph.Node, dims []symbolic.Expr) bool {
	axis, added := joinAxis(n, len(dims))
	if added {
		return axis >= 0 && axis <= len(dims)
	}
	return axis >= 0 && axis < len(dims) && !s.varies(dims[axis])
}

// join makes a node read the slices, which have a leading axis, in place of the sequence.
func (s *sequenceScanner) join(n *graph.Node, all graph.ValueID, dims []symbolic.Expr) error {
	axis, added := joinAxis(n, len(dims))
	perm := make([]int64, 0, len(dims)+1)
	for i := range dims {
		if i == axis {
			perm = append(perm, 0)
		}
		perm = append(perm, int64(i)+1)
	}
	if axis == len(dims) {
		perm = append(perm, 0)
	}
	transpose := []graph.Attr{{Name: "perm", Value: perm}}
	if added {
		n.Op, n.Kind, n.Inputs, n.Attrs = "Transpose", Transpose, []graph.ValueID{all}, transpose
		return nil
	}
	if axis > 0 {
		all = s.add(n, "Transpose", Transpose, "_moved", transpose, all)
	}
	shape, err := s.shapeOf(n, all, axis, dims)
	if err != nil {
		return err
	}
	n.Op, n.Kind, n.Inputs, n.Attrs = "Reshape", Reshape, []graph.ValueID{all, shape}, nil
	return nil
}

// shapeOf is the shape of slices whose leading axis stands before the axis that it is to be one with, as
// Reshape takes it: 0 is a dim as it is, -1 the remaining elements.
func (s *sequenceScanner) shapeOf(
	n *graph.Node, all graph.ValueID, axis int, dims []symbolic.Expr,
) (graph.ValueID, error) {
	head := make([]int64, axis+1)
	head[axis] = -1
	var tail []int64
	for _, d := range dims[axis+1:] {
		if size, known := d.Const(); known && size > 0 {
			tail = append(tail, size)
		}
	}
	if len(tail) == len(dims)-axis-1 {
		return s.list(all, "_shape", append(head, tail...)...)
	}
	var ids [4]graph.ValueID
	for i, c := range []struct {
		suffix string
		list   []int64
	}{
		{"_head", head}, {"_from", []int64{int64(axis) + 2}}, {"_to", []int64{int64(len(dims)) + 1}},
		{"_axis", []int64{0}},
	} {
		var err error
		if ids[i], err = s.list(all, c.suffix, c.list...); err != nil {
			return graph.NoValue, err
		}
	}
	whole := s.add(n, "Shape", Shape, "_dims", nil, all)
	rest := s.add(n, "Slice", Slice, "_tail", nil, whole, ids[1], ids[2], ids[3])
	return s.add(n, "Concat", Concat, "_shape", []graph.Attr{{Name: "axis", Value: int64(0)}}, ids[0], rest), nil
}

// list adds a constant whose name begins with that of a value.
func (s *sequenceScanner) list(of graph.ValueID, suffix string, elems ...int64) (graph.ValueID, error) {
	name := s.names.Value(s.g.ValueName(of) + suffix)
	return s.g.AddInitializer(graph.Int64Tensor(name, []int64{int64(len(elems))}, elems...))
}

// add puts a node before another one and returns its result, whose name begins with that of the first
// operand.
func (s *sequenceScanner) add(
	before *graph.Node, name string, kind graph.Kind, suffix string, attrs []graph.Attr, in ...graph.ValueID,
) graph.ValueID {
	out := s.g.Value(s.names.Value(s.g.ValueName(in[0]) + suffix))
	s.before[before] = append(s.before[before], &graph.Node{Op: name, Kind: kind, Inputs: in,
		Outputs: []graph.ValueID{out}, Attrs: attrs})
	return out
}
