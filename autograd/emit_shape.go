package autograd

import (
	"fmt"
	"math"

	"memopt/graph"
	"memopt/symbolic"
)

// extent is one dim of a wanted shape: the length of an axis of a value, or a number.
type extent struct {
	length symbolic.Expr
	of     Value // the value that has the axis; None for a number
	axis   int64
}

func number(n int64) extent { return extent{length: symbolic.Const(n), of: None} }

// extentOf is the length of an axis.
func (e *emitter) extentOf(v Value, axis int64) extent {
	if dims, ok := e.Dims(v); ok {
		return extent{dims[axis], v, axis}
	}
	return extent{symbolic.Unknown(), v, axis}
}

// extentsOf are the lengths of the axes of a value from one on.
func (e *emitter) extentsOf(v Value, from int) []extent {
	dims, ok := e.Dims(v)
	if !ok {
		e.must(fmt.Errorf("the rank of %q is unknown", e.j.g.ValueName(v)))
	}
	var out []extent
	for axis := from; axis < len(dims); axis++ {
		out = append(out, e.extentOf(v, int64(axis)))
	}
	return out
}

// vector returns extents as an int64 vector: a constant where all are numbers.
func (e *emitter) vector(list []extent) Value {
	ints, known := make([]int64, len(list)), true
	for i, x := range list {
		var ok bool
		ints[i], ok = x.length.Const()
		known = known && ok
	}
	if known {
		return e.Vector(ints...)
	}
	parts := make([]Value, len(list))
	for i, x := range list {
		if n, ok := x.length.Const(); ok {
			parts[i] = e.Vector(n)
		} else {
			parts[i] = e.Dim(x.of, x.axis)
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return e.Concat(0, parts...)
}

// intsOf is Ints, also for constants that have been made since the last node and for None.
func (e *emitter) intsOf(v Value) ([]int64, bool) {
	if v == None {
		return nil, false
	}
	if ints, ok := e.Ints(v); ok {
		return ints, true
	}
	if x := &e.j.g.Values[v]; x.IsConstant() && x.Data != nil {
		ints, err := x.Data.Int64s()
		return ints, err == nil
	}
	return nil, false
}

// joined is a shape that begins with the elements of an int64 vector.
func (e *emitter) joined(lead Value, rest []extent) Value {
	if ints, ok := e.intsOf(lead); ok {
		var all []extent
		for _, n := range ints {
			all = append(all, number(n))
		}
		return e.vector(append(all, rest...))
	}
	if len(rest) == 0 {
		return lead
	}
	return e.Concat(0, lead, e.vector(rest))
}

// reshapeTo gives v a shape. Where numbers, dims that stay in their place (0) and one dim that is
// left over (-1) say it, the shape is a constant and keeps no value alive.
func (e *emitter) reshapeTo(v Value, want []extent) Value {
	if shape, ok := e.impliedShape(v, want); ok {
		return e.Reshape(v, e.Vector(shape...))
	}
	return e.Reshape(v, e.vector(want))
}

func (e *emitter) impliedShape(v Value, want []extent) ([]int64, bool) {
	have, _ := e.Dims(v)
	shape, free := make([]int64, len(want)), 0
	for i, x := range want {
		n, isConst := x.length.Const()
		switch {
		case isConst && n == 0:
			return nil, false // in a shape it would mean to copy a dim
		case isConst:
			shape[i] = n
		case i < len(have) && x.length.Equal(have[i]):
			shape[i] = 0
		default:
			shape[i] = -1
			free++
		}
	}
	return shape, free <= 1
}

// reshapeBack undoes an operator that only changed the shape of like.
func (e *emitter) reshapeBack(g, like Value) Value {
	want, ok := e.Dims(like)
	if !ok {
		return e.Reshape(g, e.Shape(like))
	}
	have, ok := e.Dims(g)
	same := ok && len(have) == len(want)
	for i, d := range want {
		if d.IsConst(0) {
			return e.zerosOf(e.ShapeOf(like), g)
		}
		same = same && have[i].Equal(d)
	}
	if same {
		return g
	}
	if shape, ok := e.impliedShape(g, e.extentsOf(like, 0)); ok {
		return e.Reshape(g, e.Vector(shape...))
	}
	return e.Reshape(g, e.Shape(like))
}

// zerosOf is a tensor of zeros of a shape and of the element type of like.
func (e *emitter) zerosOf(shape, like Value) Value { return e.filled(0, shape, like) }

// filled is a tensor of a shape, all of whose elements are x.
func (e *emitter) filled(x float64, shape, like Value) Value {
	if e.DType(like) == graph.BFloat16 { // ConstantOfShape makes it from operator set 20 on
		return e.Op("Expand", nil, e.Scalar(x, like), shape)
	}
	raw, err := scalarBytes(e.DType(like), x)
	e.must(err)
	t := &graph.TensorData{DType: e.DType(like), Dims: []int64{1}, Source: graph.Raw(raw)}
	return e.Op("ConstantOfShape", Attrs{A("value", t)}, shape)
}

// lastIndex, as the end of a Slice, means the end of the axis.
const lastIndex = math.MaxInt64

// The first operator sets that give the operators their present inputs.
const (
	sliceInputs   = 10 // Slice
	scatterFirst  = 11 // ScatterND, ScatterElements, Range and the inputs of Pad
	intExtrema    = 12 // Min and Max of integers
	scatterReduce = 16 // attribute reduction of the scatters
)

// sliceAxis takes start..end-1 of one axis.
func (e *emitter) sliceAxis(v Value, axis, start, end int64) Value {
	if e.j.opset() < sliceInputs {
		return e.Op("Slice", Attrs{A("axes", []int64{axis}), A("starts", []int64{start}), A("ends", []int64{end})}, v)
	}
	return e.Slice(v, e.Vector(start), e.Vector(end), e.Vector(axis))
}

// padZeros puts zeros around v: the numbers before each axis, then those behind; negative ones cut.
func (e *emitter) padZeros(v Value, pads []int64) Value {
	none := true
	for _, p := range pads {
		none = none && p == 0
	}
	switch {
	case none:
		return v
	case e.j.opset() < scatterFirst:
		return e.Op("Pad", Attrs{A("pads", pads)}, v)
	}
	return e.Op("Pad", nil, v, e.Vector(pads...))
}

// iota is 0, 1, … up to n-1, for a vector n of one element.
func (e *emitter) iota(n Value) Value {
	e.need(scatterFirst)
	if ints, ok := e.intsOf(n); ok && len(ints) == 1 {
		return e.Op("Range", nil, e.Int(0), e.Int(ints[0]), e.Int(1))
	}
	return e.Op("Range", nil, e.Int(0), e.Squeeze(n, 0), e.Int(1))
}

// scatterND puts updates at tuples of indices into data: in place of the elements there, or added
// to them.
func (e *emitter) scatterND(data, indices, updates Value, add bool) Value {
	if !add {
		e.need(scatterFirst)
		return e.Op("ScatterND", nil, data, indices, updates)
	}
	e.need(scatterReduce)
	return e.Op("ScatterND", Attrs{A("reduction", "add")}, data, indices, updates)
}

// scatterAlong is zeros with the slices of g added, or put, at places along an axis: the axes
// axis..axis+q-1 of g, where q is the rank of the indices, become one axis of the given length, a
// vector of one element. The scatter runs along the leading axis, so that there is one index per
// slice.
func (c *Ctx) scatterAlong(g, indices Value, axis int64, length Value, add bool) Value {
	q := int64(c.Rank(indices))
	rank := int64(c.Rank(g)) - q + 1
	if axis > 0 && q > 0 {
		g = c.Transpose(g, movedAxes(axis, q, rank+q-1)...)
	} else if axis > 0 {
		g = c.Unsqueeze(g, 0) // an index without axes: its slice is the only one
		indices = c.Unsqueeze(indices, 0)
		q = 1
	}
	zeros := c.zerosOf(c.joined(length, c.extentsOf(g, int(q))), g)
	out := c.scatterND(zeros, c.Unsqueeze(c.Cast(indices, graph.Int64), q), g, add)
	if axis == 0 {
		return out
	}
	return c.Transpose(out, backAxes(axis, rank)...)
}

// movedAxes is the permutation that moves the axes axis..axis+q-1 to the front.
func movedAxes(axis, q, rank int64) []int64 {
	perm := make([]int64, 0, rank)
	for i := range q {
		perm = append(perm, axis+i)
	}
	for i := range rank {
		if i < axis || i >= axis+q {
			perm = append(perm, i)
		}
	}
	return perm
}

// backAxes moves the first axis to a place behind others.
func backAxes(axis, rank int64) []int64 {
	perm := make([]int64, 0, rank)
	for i := range rank {
		switch {
		case i < axis:
			perm = append(perm, i+1)
		case i == axis:
			perm = append(perm, 0)
		default:
			perm = append(perm, i)
		}
	}
	return perm
}
