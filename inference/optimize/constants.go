package optimize

import (
	"encoding/binary"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/inference/edit"
)

// foldConstants computes values that depend only on constants, or on shapes that are the same in
// every run, and keeps them as initializers. These may not be larger than the constants that the
// file then no longer needs (Options.Growth); outputs of the graph stay with their producers.
func foldConstants(s *site) error {
	f := newFolder(s)
	if len(f.edge) == 0 {
		return nil
	}
	accepted := f.accept()
	if len(accepted) == 0 {
		return nil
	}
	return f.keep(accepted)
}

// folder knows which values are constant.
type folder struct {
	*site
	constant []bool          // by value
	folds    []bool          // by node: its outputs are constant
	edge     []graph.ValueID // constants that a node makes and others than folded ones read
	refused  map[graph.ValueID]bool
}

// newFolder looks for the constants of a graph.
func newFolder(s *site) *folder {
	f := &folder{site: s, constant: make([]bool, len(s.G.Values)), folds: make([]bool, len(s.G.Nodes)),
		refused: map[graph.ValueID]bool{}}
	for v := range s.G.Values {
		t := s.weight(graph.ValueID(v))
		f.constant[v] = t != nil && foldable(t.DType) && t.Source != nil
	}
	s.Nodes(func(n *graph.Node) {
		if f.folds[n.ID] = f.isConstant(n); !f.folds[n.ID] {
			return
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				f.constant[v] = true
			}
		}
	})
	s.Nodes(func(n *graph.Node) {
		if !f.folds[n.ID] {
			return
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue && f.onEdge(v) {
				f.edge = append(f.edge, v)
			}
		}
	})
	return f
}

// foldable reports whether constants of a type can be computed and stored.
func foldable(d graph.DType) bool { return d != graph.String && d.Bits() >= 8 }

// isConstant reports whether all that a node makes is the same in every run, and of a known size.
func (f *folder) isConstant(n *graph.Node) bool {
	if !edit.Pure(n) || len(n.Outputs) == 0 {
		return false
	}
	given, known := true, true
	for _, v := range n.Inputs {
		given = given && (v == graph.NoValue || f.constant[v])
	}
	for _, v := range n.Outputs {
		if v == graph.NoValue {
			continue
		}
		if _, ok := f.dims(v); !ok || f.typeOf(v).Form != graph.FormTensor || !foldable(f.typeOf(v).DType) {
			return false
		}
		_, ok := f.ints(v)
		known = known && ok
	}
	return given || known
}

// onEdge reports whether a constant has a reader other than folded nodes.
func (f *folder) onEdge(v graph.ValueID) bool {
	if f.G.Values[v].Output {
		return false
	}
	return f.Held(v) || slices.ContainsFunc(f.Readers(v), func(n *graph.Node) bool { return !f.folds[n.ID] })
}

// accept returns the constants that are worth keeping: all that hang together, where that makes the
// file no larger, else those of them that are it alone.
func (f *folder) accept() []graph.ValueID {
	var accepted []graph.ValueID
	for _, group := range f.groups() {
		if f.growth(group) <= f.run.o.Growth {
			accepted = append(accepted, group...)
			continue
		}
		for _, v := range group {
			if f.growth([]graph.ValueID{v}) <= f.run.o.Growth {
				accepted = append(accepted, v)
			} else {
				f.refused[v] = true
			}
		}
	}
	for _, v := range f.edge {
		if n := f.Maker(v); f.refused[v] {
			f.leave(n, "%s of constants: the file would grow by %d bytes", n.Op,
				f.growth([]graph.ValueID{v}))
		}
	}
	return accepted
}

// groups divides the edge into groups of values that depend on common constants.
func (f *folder) groups() [][]graph.ValueID {
	parent := make([]graph.ValueID, len(f.G.Values))
	for v := range parent {
		parent[v] = graph.ValueID(v)
	}
	find := func(v graph.ValueID) graph.ValueID {
		for parent[v] != v {
			parent[v] = parent[parent[v]]
			v = parent[v]
		}
		return v
	}
	f.Nodes(func(n *graph.Node) {
		first := graph.NoValue
		for _, v := range slices.Concat(n.Outputs, n.Inputs) {
			switch {
			case !f.folds[n.ID] || v == graph.NoValue || !f.constant[v]:
			case first == graph.NoValue:
				first = v
			default:
				parent[find(v)] = find(first)
			}
		}
	})
	at := map[graph.ValueID]int{}
	var groups [][]graph.ValueID
	for _, v := range f.edge {
		root := find(v)
		i, ok := at[root]
		if !ok {
			i = len(groups)
			at[root], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], v)
	}
	return groups
}

// most is the number of nodes that growth visits, at most; constants behind them count as still
// needed.
const most = 10_000

// growth is a bound of the file's growth if values are kept: their bytes, less those of nodes and
// constants without other readers.
func (f *folder) growth(values []graph.ValueID) int64 {
	sum := int64(0)
	reads := map[graph.ValueID]int{} // readers that are gone
	gone := map[*graph.Node]bool{}
	kept := map[graph.ValueID]bool{}
	for _, v := range values {
		kept[v] = true
		sum += f.initializerBytes(v)
	}
	var free func(v graph.ValueID)
	drop := func(n *graph.Node) {
		if gone[n] || len(gone) >= most {
			return
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue && !kept[v] && (f.Held(v) || reads[v] < len(f.Readers(v))) {
				return
			}
		}
		gone[n] = true
		sum -= nodeBytes(f.G, n)
		seen := map[graph.ValueID]bool{}
		for _, v := range n.Inputs {
			if v != graph.NoValue && !seen[v] {
				seen[v] = true
				reads[v]++
				free(v)
			}
		}
	}
	free = func(v graph.ValueID) {
		if f.Held(v) || reads[v] < len(f.Readers(v)) {
			return
		}
		if n := f.Maker(v); n != nil {
			drop(n)
		} else if t := f.weight(v); t != nil {
			n, _ := t.Bytes()
			sum -= field(tensorBytes(t.Name, t.Dims, n))
		}
	}
	for _, v := range values {
		if n := f.Maker(v); n != nil {
			drop(n)
		}
	}
	return sum
}

// initializerBytes is how much a value takes in the file as an initializer.
func (f *folder) initializerBytes(v graph.ValueID) int64 {
	t := f.typeOf(v)
	n, _ := t.Bytes().Const()
	dims, _ := f.dims(v)
	return field(tensorBytes(f.G.ValueName(v), dims, n))
}

// keep computes constants and lets the file hold them in place of the nodes that made them.
func (f *folder) keep(values []graph.ValueID) error {
	tensors, err := f.compute(values)
	if err != nil {
		return err
	}
	for i, v := range values {
		if tensors[i] == nil {
			continue
		}
		n := f.Maker(v)
		name, out := n.Op, f.G.Values[v].DefSlot
		n.Outputs[out] = f.NewValue(f.G.ValueName(v)+"_unused", f.typeOf(v))
		f.G.Values[n.Outputs[out]].Def, f.G.Values[n.Outputs[out]].DefSlot = n.ID, out
		f.G.Values[v].Def, f.G.Values[v].DefSlot = graph.NoNode, 0
		if _, err := f.Constant(tensors[i], v); err != nil {
			return err
		}
		f.did(name)
	}
	return nil
}

// compute returns the contents of constants; nil for those that cannot be computed.
func (f *folder) compute(values []graph.ValueID) ([]*graph.TensorData, error) {
	tensors := make([]*graph.TensorData, len(values))
	var places []int
	for i, v := range values {
		if tensors[i] = f.written(v); tensors[i] == nil {
			places = append(places, i)
		}
	}
	return tensors, f.evaluate(values, places, tensors)
}

// written is a constant that needs no computation: a node's attribute has it, or inference.
func (f *folder) written(v graph.ValueID) *graph.TensorData {
	n := f.Maker(v)
	if op.IsConstant(f.G, n.ID) {
		if t := n.TensorAttr("value"); t != nil && t.Source != nil {
			data := *t
			return &data
		}
	}
	elems, ok := f.ints(v)
	if !ok {
		return nil
	}
	dims, _ := f.dims(v)
	d := f.typeOf(v).DType
	raw := make([]byte, 0, len(elems)*d.Bits()/8)
	for _, x := range elems {
		wide := binary.LittleEndian.AppendUint64(nil, uint64(x))
		raw = append(raw, wide[:d.Bits()/8]...)
	}
	return &graph.TensorData{DType: d, Dims: dims, Source: graph.Raw(raw)}
}
