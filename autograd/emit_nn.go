package autograd

import (
	"memopt/graph"
	"memopt/graph/op"
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

// meanOver averages over axes in [0, rank), keeping them.
func (e *emitter) meanOver(v Value, axes ...int64) Value {
	return e.Reduce("ReduceMean", v, true, axes...)
}

// inverseDeviation returns 1/√(variance + epsilon).
func (e *emitter) inverseDeviation(variance Value, epsilon float64) Value {
	return e.Op("Reciprocal", nil, e.Op("Sqrt", nil, e.Add(variance, e.Scalar(epsilon, variance))))
}

// normType returns the type of the computation of a norm's gradients: float32 for 16-bit types.
func (e *emitter) normType(v Value) graph.DType {
	if d := e.DType(v); d != graph.Float16 && d != graph.BFloat16 {
		return d
	}
	return graph.Float32
}

// countOver returns how many elements of v one element of its reduction over axes stands for, as a
// scalar in the type of like: a constant where the dims are numbers.
func (e *emitter) countOver(v Value, like Value, axes ...int64) Value {
	if n, ok := e.constCount(v, axes); ok {
		return e.Scalar(float64(n), like)
	}
	count := e.Op("ReduceProd", Attrs{A("keepdims", int64(0))}, e.Op("Gather", nil, e.Shape(v), e.Vector(axes...)))
	return e.Cast(count, e.DType(like))
}

// overCount divides g by countOver, 16-bit values as float32, because float16 ends at 65504.
func (e *emitter) overCount(g, v Value, axes ...int64) Value {
	d := e.DType(g)
	g = e.Cast(g, e.normType(g))
	if n, ok := e.constCount(v, axes); ok {
		return e.Cast(e.mathScale(g, 1/float64(n)), d)
	}
	return e.Cast(e.Div(g, e.countOver(v, g, axes...)), d)
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

// knownFloats returns the elements of a float value that is an initializer or a Constant, or nil.
func (e *emitter) knownFloats(v Value) []float64 {
	if v == None {
		return nil
	}
	value := &e.j.g.Values[v]
	data := value.Data
	if value.Def != graph.NoNode && opInfo(e.j.g.Nodes[value.Def]).Has(op.ConstantRole) {
		n := e.j.g.Nodes[value.Def]
		if list := n.FloatList("value_floats", nil); list != nil {
			data = graph.Float32Tensor("", []int64{int64(len(list))}, list...)
		} else {
			data = n.TensorAttr("value")
		}
	}
	if data == nil || value.Input {
		return nil
	}
	list, err := data.Float64s()
	if err != nil {
		return nil
	}
	return list
}

// knownBool returns the one element of a bool value that is known.
func (e *emitter) knownBool(v Value) (b, ok bool) {
	ints, ok := e.Ints(v)
	if !ok || len(ints) != 1 {
		return false, false
	}
	return ints[0] != 0, true
}

// alongChannels reshapes a vector over the channels so that it lies along axis 1 of a value of the
// given rank.
func (e *emitter) alongChannels(v Value, rank int) Value {
	return e.Unsqueeze(v, axesFrom(1, int64(rank-1))...)
}
