package autograd

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
	"memopt/symbolic"
)

// emitter adds nodes to the graph. Every method returns the value that the new node makes, with its
// type inferred.
type emitter struct{ j *joint }

// Attrs are the attributes of an emitted node, in order.
type Attrs []graph.Attr

// A makes an attribute.
func A(name string, value any) graph.Attr { return graph.Attr{Name: name, Value: value} }

// Op emits a node of ONNX's own domain with one output.
func (e *emitter) Op(name string, attrs Attrs, in ...Value) Value {
	return e.Ops(name, 1, attrs, in...)[0]
}

// Ops emits a node with several outputs.
func (e *emitter) Ops(name string, outputs int, attrs Attrs, in ...Value) []Value {
	return e.node("", name, outputs, attrs, in)
}

// node emits a node of a domain.
func (e *emitter) node(domain, name string, outputs int, attrs Attrs, in []Value) []Value {
	n := &graph.Node{Name: e.j.nodeName(name), Op: name, Domain: domain, Attrs: attrs,
		Inputs: append([]Value(nil), in...)}
	n.Outputs = make([]Value, 0, outputs)
	for i := range outputs {
		n.Outputs = append(n.Outputs, e.j.newValue(n.Name+"_output_"+itoa(i)))
	}
	e.emit(n)
	return n.Outputs
}

// Own emits a node of memopt's own domain. Its output has a name, or with "" one made up.
func (e *emitter) Own(name, output string, attrs Attrs, in ...Value) Value {
	n := &graph.Node{Name: e.j.nodeName(name), Op: name, Domain: op.DomainMemopt, Attrs: attrs,
		Inputs: append([]Value(nil), in...)}
	if output == "" {
		output = n.Name + "_output_0"
	}
	n.Outputs = []Value{e.j.newValue(output)}
	e.emit(n)
	return n.Outputs[0]
}

// Owns emits a node of memopt's own domain with several outputs.
func (e *emitter) Owns(name string, outputs int, attrs Attrs, in ...Value) []Value {
	return e.node(op.DomainMemopt, name, outputs, attrs, in)
}

// emit adds a node to the graph.
func (e *emitter) emit(n *graph.Node) {
	e.must(e.j.g.AddNode(n))
	e.j.annotate(n)
	e.must(e.j.types.Node(n))
	e.needSchema(n)
	e.j.note(n)
}

// Add, Sub, Mul and Div are elementwise, with broadcasting.
func (e *emitter) Add(a, b Value) Value { return e.Op("Add", nil, a, b) }

// Sub returns a - b.
func (e *emitter) Sub(a, b Value) Value { return e.Op("Sub", nil, a, b) }

// Mul returns a * b.
func (e *emitter) Mul(a, b Value) Value { return e.Op("Mul", nil, a, b) }

// Div returns a / b.
func (e *emitter) Div(a, b Value) Value { return e.Op("Div", nil, a, b) }

// Neg returns -a.
func (e *emitter) Neg(a Value) Value { return e.Op("Neg", nil, a) }

// MatMul returns the product of two matrices or stacks of matrices.
func (e *emitter) MatMul(a, b Value) Value { return e.Op("MatMul", nil, a, b) }

// Where returns a where cond holds, else b.
func (e *emitter) Where(cond, a, b Value) Value { return e.Op("Where", nil, cond, a, b) }

// Cast converts the element type; it returns v itself where v has it already.
func (e *emitter) Cast(v Value, d graph.DType) Value {
	if e.DType(v) == d {
		return v
	}
	return e.Op("Cast", Attrs{A("to", int64(d))}, v)
}

// Transpose permutes the axes.
func (e *emitter) Transpose(v Value, perm ...int64) Value {
	return e.Op("Transpose", Attrs{A("perm", perm)}, v)
}

// Shape returns the shape of v as an int64 vector.
func (e *emitter) Shape(v Value) Value { return e.Op("Shape", nil, v) }

// Reshape gives v the shape in an int64 vector.
func (e *emitter) Reshape(v, shape Value) Value { return e.Op("Reshape", nil, v, shape) }

// ShapeOf returns the shape of v as an int64 vector: a constant where it is known in numbers.
func (e *emitter) ShapeOf(v Value) Value {
	if dims, ok := e.constDims(v); ok {
		return e.Vector(dims...)
	}
	return e.Shape(v)
}

func (e *emitter) constDims(v Value) ([]int64, bool) {
	dims, ok := e.Dims(v)
	if !ok {
		return nil, false
	}
	ints := make([]int64, len(dims))
	for i, d := range dims {
		if ints[i], ok = d.Const(); !ok {
			return nil, false
		}
	}
	return ints, true
}

// Vector is a constant int64 vector.
func (e *emitter) Vector(v ...int64) Value {
	return e.j.constant(graph.Int64Tensor("", []int64{int64(len(v))}, v...))
}

// Int is a constant int64 scalar.
func (e *emitter) Int(v int64) Value { return e.j.constant(graph.Int64Tensor("", []int64{}, v)) }

// Scalar is a constant scalar of the element type of like.
func (e *emitter) Scalar(x float64, like Value) Value {
	d := e.DType(like)
	raw, err := scalarBytes(d, x)
	e.must(err)
	return e.j.constant(&graph.TensorData{DType: d, Dims: []int64{}, Source: graph.Raw(raw)})
}

func scalarBytes(d graph.DType, x float64) ([]byte, error) {
	switch d {
	case graph.Float32:
		return binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(x))), nil
	case graph.Float64:
		return binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)), nil
	case graph.Float16:
		return binary.LittleEndian.AppendUint16(nil, uint16(half.Float16From(float32(x)))), nil
	case graph.BFloat16:
		return binary.LittleEndian.AppendUint16(nil, uint16(half.BFloat16From(float32(x)))), nil
	case graph.Int64:
		return binary.LittleEndian.AppendUint64(nil, uint64(int64(x))), nil
	case graph.Int32:
		return binary.LittleEndian.AppendUint32(nil, uint32(int32(x))), nil
	}
	return nil, fmt.Errorf("autograd: no constant of type %v", d)
}

// Zeros is a tensor of zeros in the shape and type of like.
func (e *emitter) Zeros(like Value) Value {
	return e.filled(0, e.ShapeOf(like), like)
}

// axesInput is the first operator set that makes the axes of ReduceSum, Squeeze and Unsqueeze an
// input.
const axesInput = 13

// Reduce emits a reduction (ReduceSum, ReduceMean, …) over axes in [0, rank). Without axes it returns v itself.
func (e *emitter) Reduce(name string, v Value, keep bool, axes ...int64) Value {
	if len(axes) == 0 {
		return v
	}
	keepdims := int64(0)
	if keep {
		keepdims = 1
	}
	if e.j.opset() >= int64(op.Of(op.Lookup("", name)).InputSince("axes")) {
		return e.Op(name, Attrs{A("keepdims", keepdims)}, v, e.Vector(axes...))
	}
	return e.Op(name, Attrs{A("axes", axes), A("keepdims", keepdims)}, v)
}

// ReduceSum sums over axes in [0, rank). Without axes it returns v itself.
func (e *emitter) ReduceSum(v Value, keep bool, axes ...int64) Value {
	return e.Reduce("ReduceSum", v, keep, axes...)
}

// Unsqueeze inserts dims of 1 at the given axes of the result.
func (e *emitter) Unsqueeze(v Value, axes ...int64) Value { return e.withAxes("Unsqueeze", v, axes) }

// Squeeze removes the given axes, whose dims are 1.
func (e *emitter) Squeeze(v Value, axes ...int64) Value { return e.withAxes("Squeeze", v, axes) }

func (e *emitter) withAxes(name string, v Value, axes []int64) Value {
	if len(axes) == 0 {
		return v
	}
	if e.j.opset() >= axesInput {
		return e.Op(name, nil, v, e.Vector(axes...))
	}
	return e.Op(name, Attrs{A("axes", axes)}, v)
}

// ExpandLike broadcasts v to the shape of like.
func (e *emitter) ExpandLike(v, like Value) Value { return e.Op("Expand", nil, v, e.ShapeOf(like)) }

// Concat joins values along an axis.
func (e *emitter) Concat(axis int64, v ...Value) Value {
	return e.Op("Concat", Attrs{A("axis", axis)}, v...)
}

// Slice takes starts..ends along axes; the bounds are int64 vectors.
func (e *emitter) Slice(v, starts, ends, axes Value) Value {
	return e.Op("Slice", nil, v, starts, ends, axes)
}

// Dim returns one dim of v as an int64 vector of one element.
func (e *emitter) Dim(v Value, axis int64) Value {
	if _, ok := e.Dims(v); ok {
		if n, ok := e.Ranked(v, int(axis)+1)[axis].Const(); ok {
			return e.Vector(n)
		}
	}
	return e.Op("Gather", nil, e.Shape(v), e.Vector(axis))
}

// SumTo sums a gradient over the broadcast axes, so that it gets the shape of like: that of a bias
// of 8 elements added to 32 rows, for example, over axis 0. If the dims do not determine them, the
// axes are found at run time.
func (e *emitter) SumTo(g, like Value) Value {
	have, ok := e.Dims(g)
	want, ok2 := e.Dims(like)
	if !ok || !ok2 {
		return e.sumAtRunTime(g, like)
	}
	extra := len(have) - len(want)
	if extra < 0 {
		e.j.unsupported("a gradient of rank %d is to have the shape of %q, whose rank is %d",
			len(have), e.j.g.Values[like].Name, len(want))
	}
	var lead, kept []int64
	for i := range extra {
		lead = append(lead, int64(i))
	}
	same := true
	for i, w := range want {
		h := have[extra+i]
		switch {
		case w.Equal(h):
		case w.IsConst(1):
			kept = append(kept, int64(extra+i))
		case neverStretched(w, h):
			same = false
		default:
			if _, known := w.Const(); !known { // a number other than 1 is not stretched
				return e.sumAtRunTime(g, like)
			}
		}
	}
	// The kept axes first: with the leading ones gone their numbers would shift.
	g = e.ReduceSum(g, true, kept...)
	g = e.ReduceSum(g, false, lead...)
	if !same {
		g = e.Reshape(g, e.Shape(like))
	}
	return g
}

// neverStretched reports whether broadcasting to a dim cannot have stretched another one, so that they are
// equal: where that is 1, the dim is 1 as well. It is so of Min(64, seq), the rows that are taken of a table
// of 64 positions, beside seq.
func neverStretched(dim, to symbolic.Expr) bool {
	bounds := symbolic.Bounds{}
	for _, symbol := range slices.Concat(dim.Symbols(), to.Symbols()) {
		bounds[symbol] = symbolic.Range{Lo: 0, Hi: math.MaxInt64} // a dim of 0 is stretched to as well
	}
	return symbolic.AtMost(dim, to, bounds) && symbolic.AtMost(symbolic.Min(to, symbolic.Const(2)), dim, bounds)
}

// sumAtRunTime sums over the axes along which like, with leading dims of 1, has 1: if g has 1 as
// well, the sum is an identity.
func (e *emitter) sumAtRunTime(g, like Value) Value {
	e.need(axesInput)
	shape := e.Shape(like)
	axes := e.Squeeze(e.Op("NonZero", nil, e.Op("Equal", nil, e.padded(shape, g, like), e.Int(1))), 0)
	sum := e.Op("ReduceSum", Attrs{A("keepdims", int64(1)), A("noop_with_empty_axes", int64(1))}, g, axes)
	return e.Reshape(sum, shape)
}

// padded is the shape of like with leading dims of 1, as many as g has axes more.
func (e *emitter) padded(shape, g, like Value) Value {
	have, ok := e.Dims(g)
	want, ok2 := e.Dims(like)
	if ok && ok2 {
		if len(have) == len(want) {
			return shape
		}
		return e.Concat(0, e.Vector(slices.Repeat([]int64{1}, len(have)-len(want))...), shape)
	}
	rank, likeRank := e.Op("Size", nil, e.Shape(g)), e.Op("Size", nil, shape)
	one := &graph.TensorData{DType: graph.Int64, Dims: []int64{1}, Source: graph.Raw{1, 0, 0, 0, 0, 0, 0, 0}}
	return e.Concat(0, e.Op("ConstantOfShape", Attrs{A("value", one)}, e.Unsqueeze(e.Sub(rank, likeRank), 0)), shape)
}

// needSchema makes sure that the model imports an operator set that has the operator of an emitted
// node, for the types at hand: bfloat16 came to most operators with set 13, and to some later.
func (e *emitter) needSchema(n *graph.Node) {
	if n.Domain != "" {
		return
	}
	e.need(int64(op.Of(n.Kind).Since[0]))
	for _, list := range [][]Value{n.Inputs, n.Outputs} {
		for _, v := range list {
			if v != None && e.DType(v) == graph.BFloat16 {
				e.need(op.BFloat16Since(n.Kind))
			}
		}
	}
}

// need is Ctx.Need.
func (e *emitter) need(version int64) {
	if e.j.opset() < version {
		panic(raise{version})
	}
}
