package optimize

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/pattern"
	"memopt/inference/edit"
)

// version is the schema version of a node's operator.
func version(m *graph.Model, n *graph.Node) int {
	info := op.Of(n.Kind)
	return info.VersionOf(n, m.OpsetVersion(info.Domain))
}

// inTraining reports whether a node is in training mode: it takes the statistics of its batch, or
// draws where it would not in evaluation.
func inTraining(m *graph.Model, n *graph.Node) bool {
	info := op.Of(n.Kind)
	return info.Trains != nil && info.Trains(n, version(m, n)) || info.Training > 0 && draws(m, n)
}

// draws reports whether a random node draws. The ratio is not looked at.
func draws(m *graph.Model, n *graph.Node) bool {
	info := op.Of(n.Kind)
	switch {
	case !info.Random:
		return false
	case info.Training == 0:
		return true
	case version(m, n) < info.TrainingSince:
		return n.Int("is_test", 0) == 0
	case n.Input(info.Training) == graph.NoValue:
		return false
	}
	on, known := pattern.Number(m.Graph, n.Input(info.Training))
	return !known || on != 0
}

// known reports whether a node is of the operator of its kind.
func known(n *graph.Node) bool {
	return n.Kind != op.Unknown && n.Fault() == nil && n.Clash() == nil
}

// typeOf is the type of a value.
func (s *site) typeOf(v graph.ValueID) graph.Type {
	if v == graph.NoValue {
		return graph.Type{}
	}
	return s.G.Values[v].Type
}

// dims are the dims of a value where all of them are numbers.
func (s *site) dims(v graph.ValueID) ([]int64, bool) {
	shape := s.typeOf(v).Shape
	dims := make([]int64, len(shape.Dims))
	for i, d := range shape.Dims {
		n, ok := d.Const()
		if !ok || n < 0 {
			return nil, false
		}
		dims[i] = n
	}
	return dims, shape.Ranked
}

// sameType reports whether two values have one type in every run.
func (s *site) sameType(a, b graph.ValueID) bool {
	x, y := s.typeOf(a), s.typeOf(b)
	return x.Form == graph.FormTensor && y.Form == graph.FormTensor && x.DType == y.DType &&
		x.DType != graph.Undefined && sameShape(x.Shape, y.Shape)
}

// sameShape reports whether two shapes are equal in every run.
func sameShape(a, b graph.Shape) bool {
	if !a.Ranked || !b.Ranked || len(a.Dims) != len(b.Dims) {
		return false
	}
	for i := range a.Dims {
		if !a.Dims[i].Equal(b.Dims[i]) {
			return false
		}
	}
	return true
}

// ints are the elements of an integer operand that are the same in every run.
func (s *site) ints(v graph.ValueID) ([]int64, bool) {
	elems, ok := s.Types.Contents(v)
	if !ok || s.typeOf(v).DType.IsFloat() {
		return nil, false
	}
	list := make([]int64, len(elems))
	for i, e := range elems {
		if list[i], ok = e.Const(); !ok {
			return nil, false
		}
	}
	return list, true
}

// argument is a list of integers that is an attribute, or an input since some schema version. given
// is false where neither is there; ok is false where it is not the same in every run.
func (s *site) argument(n *graph.Node, name string, slot int) (list []int64, given, ok bool) {
	if n.Attr(name) != nil {
		return n.IntList(name, nil), true, true
	}
	v := n.Input(slot)
	if v == graph.NoValue {
		return nil, false, true
	}
	list, ok = s.ints(v)
	return list, true, ok
}

// zeros reports whether a list has only zeros.
func zeros(list []int64) bool {
	return !slices.ContainsFunc(list, func(x int64) bool { return x != 0 })
}

// weight is the file's contents of a value that no input can change, or nil.
func (s *site) weight(v graph.ValueID) *graph.TensorData {
	if v == graph.NoValue || !s.G.Values[v].IsConstant() {
		return nil
	}
	return s.G.Values[v].Data
}

// floats are the elements of a constant of floats.
func (s *site) floats(v graph.ValueID) (dims []int64, elems []float64, ok bool) {
	t := s.weight(v)
	if t == nil || t.DType != graph.Float32 {
		return nil, nil, false
	}
	list, err := edit.Floats(t)
	if err != nil {
		return nil, nil, false
	}
	elems = make([]float64, len(list))
	for i, x := range list {
		elems[i] = float64(x)
	}
	return t.Dims, elems, true
}
