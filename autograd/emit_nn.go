package autograd

import (
	"memopt/graph"
	"memopt/symbolic"
)

// axesFrom lists the axes from..to-1.
func axesFrom(from, to int64) []int64 {
	var axes []int64
	for a := from; a < to; a++ {
		axes = append(axes, a)
	}
	return axes
}

// Times returns v times a number; v itself for 1.
func (e *emitter) Times(v Value, x float64) Value {
	if x == 1 {
		return v
	}
	return e.Mul(v, e.Scalar(x, v))
}

// Mean averages over axes in [0, rank), keeping them.
func (e *emitter) Mean(v Value, axes ...int64) Value { return e.Reduce("ReduceMean", v, true, axes...) }

// InverseDeviation returns 1/√(variance + epsilon).
func (e *emitter) InverseDeviation(variance Value, epsilon float64) Value {
	return e.Op("Reciprocal", nil, e.Op("Sqrt", nil, e.Add(variance, e.Scalar(epsilon, variance))))
}

// Wider returns the type in which gradients of a norm are computed: float32 for 16-bit types.
func (e *emitter) Wider(v Value) graph.DType {
	if d := e.DType(v); d != graph.Float16 && d != graph.BFloat16 {
		return d
	}
	return graph.Float32
}

// CountOver returns how many elements of v one element of its reduction over axes stands for, as a scalar
// in the type of like: a constant where the dims are numbers.
func (e *emitter) CountOver(v Value, like Value, axes ...int64) Value {
	if n, ok := e.constCount(v, axes); ok {
		return e.Scalar(float64(n), like)
	}
	count := e.Op("ReduceProd", Attrs{A("keepdims", int64(0))}, e.Op("Gather", nil, e.Shape(v), e.Vector(axes...)))
	return e.Cast(count, e.DType(like))
}

// DivideByCount divides g by CountOver.
func (e *emitter) DivideByCount(g, v Value, axes ...int64) Value {
	if n, ok := e.constCount(v, axes); ok {
		return e.Times(g, 1/float64(n))
	}
	return e.Div(g, e.CountOver(v, g, axes...))
}

func (e *emitter) constCount(v Value, axes []int64) (int64, bool) {
	dims, ok := e.Dims(v)
	if !ok {
		return 0, false
	}
	n := symbolic.Const(1)
	for _, a := range axes {
		n = n.Mul(dims[a])
	}
	return n.Const()
}

// KnownFloat returns the one element of a value that is an initializer or a Constant.
func (e *emitter) KnownFloat(v Value) (float64, bool) {
	data := e.j.g.Values[v].Data
	if def := e.j.g.Values[v].Def; def != graph.NoNode && e.j.g.Nodes[def].Op == "Constant" {
		data = e.j.g.Nodes[def].TensorAttr("value")
	}
	if data == nil || e.j.g.Values[v].Input {
		return 0, false
	}
	list, err := data.Float64s()
	if err != nil || len(list) != 1 {
		return 0, false
	}
	return list[0], true
}

// KnownBool returns the one element of a bool value that is known.
func (e *emitter) KnownBool(v Value) (b, ok bool) {
	ints, ok := e.Ints(v)
	if !ok || len(ints) != 1 {
		return false, false
	}
	return ints[0] != 0, true
}

// Spatial reshapes a vector over the channels so that it lies along axis 1 of a value of the given rank.
func (e *emitter) Spatial(v Value, rank int) Value {
	return e.Unsqueeze(v, axesFrom(1, int64(rank-1))...)
}

// Filled is a tensor of the given shape, of one number in the type of like.
func (e *emitter) Filled(x float64, like, shape Value) Value {
	raw, err := scalarBytes(e.DType(like), x)
	e.must(err)
	one := &graph.TensorData{DType: e.DType(like), Dims: []int64{1}, Source: graph.Raw(raw)}
	return e.Op("ConstantOfShape", Attrs{A("value", one)}, shape)
}
