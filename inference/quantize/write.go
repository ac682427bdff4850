package quantize

import (
	"memopt/graph"
)

// dynamic is a value that is quantized in every run.
type dynamic struct{ data, scale, zero graph.ValueID }

// quantized quantizes a value in front of a node, once for all nodes that want it.
func (q *quantizer) quantized(x graph.ValueID, before *graph.Node) (*dynamic, error) {
	if d := q.inputs[x]; d != nil {
		return d, nil
	}
	name := q.G.ValueName(x)
	t := q.typeOf(x)
	d := &dynamic{data: q.NewValue(name+"_quantized", graph.Tensor(graph.Uint8, t.Shape)),
		scale: q.NewValue(name+"_scale", graph.Tensor(graph.Float32, graph.Dims())),
		zero:  q.NewValue(name+"_zero_point", graph.Tensor(graph.Uint8, graph.Dims()))}
	err := q.Add(&graph.Node{Name: name + "_QuantizeLinear", Op: "DynamicQuantizeLinear",
		Inputs: []graph.ValueID{x}, Outputs: []graph.ValueID{d.data, d.scale, d.zero}}, before)
	q.inputs[x] = d
	return d, err
}

// emitter adds nodes in front of one; after an error its methods return at once.
type emitter struct {
	*quantizer
	before *graph.Node
	label  string
	err    error
}

func (q *quantizer) at(n *graph.Node) *emitter {
	return &emitter{quantizer: q, before: n, label: q.G.NodeLabel(n.ID)}
}

// node adds a node of one output, which is out, or a new value of a type.
func (e *emitter) node(name string, t graph.Type, out graph.ValueID, attrs []graph.Attr,
	in ...graph.ValueID) graph.ValueID {
	if e.err != nil {
		return graph.NoValue
	}
	if out == graph.NoValue {
		out = e.NewValue(e.label+"/"+name+"_output_0", t)
	}
	for len(in) > 0 && in[len(in)-1] == graph.NoValue {
		in = in[:len(in)-1]
	}
	e.err = e.Add(&graph.Node{Name: e.label + "/" + name, Op: name, Attrs: attrs, Inputs: in,
		Outputs: []graph.ValueID{out}}, e.before)
	return out
}

// toFloat is a value converted to float32.
func (e *emitter) toFloat(v, out graph.ValueID) graph.ValueID {
	return e.node("Cast", graph.Tensor(graph.Float32, e.typeOf(v).Shape), out,
		[]graph.Attr{{Name: "to", Value: int64(graph.Float32)}}, v)
}

// matrix is the weight as a product reads it: rows are summed over.
func (e *emitter) matrix(u use, w *weight) graph.ValueID {
	if !u.transposed {
		return w.straight
	}
	if w.swapped == graph.NoValue {
		t := e.typeOf(w.straight)
		t.Shape = graph.Dims(t.Shape.Dims[1], t.Shape.Dims[0])
		w.swapped = e.node("Transpose", t, graph.NoValue, []graph.Attr{{Name: "perm", Value: []int64{1, 0}}},
			w.straight)
	}
	return w.swapped
}

// product writes x times the weight: the product of integers, times both scales and a factor.
func (e *emitter) product(u use, w *weight, x, out graph.ValueID, factor float32) graph.ValueID {
	d, err := e.quantized(x, e.before)
	if err != nil {
		e.err = err
		return graph.NoValue
	}
	t := e.typeOf(u.node.Output(0))
	b := e.matrix(u, w)
	sum := e.node("MatMulInteger", graph.Tensor(graph.Int32, t.Shape), graph.NoValue, nil, d.data, b, d.zero, w.zero)
	scale := e.node("Mul", e.typeOf(w.scale), graph.NoValue, nil, d.scale, e.scaled(w, factor))
	return e.node("Mul", t, out, nil, e.toFloat(sum, graph.NoValue), scale)
}

// scaled are the scales of a weight times a factor.
func (e *emitter) scaled(w *weight, factor float32) graph.ValueID {
	if factor == 1 || e.err != nil {
		return w.scale
	}
	list := make([]float32, len(w.scales))
	for i, x := range w.scales {
		list[i] = x * factor
	}
	v, err := e.Constant(&graph.TensorData{Name: w.name + "_scale", DType: graph.Float32,
		Dims: e.G.Values[w.scale].Data.Dims, Source: graph.Raw(floatBytes(list))}, graph.NoValue)
	e.err = err
	return v
}

// writeMatMul writes a MatMul.
func writeMatMul(q *quantizer, u use, w *weight) error {
	n, out := u.node, u.node.Output(0)
	q.Remove(n)
	e := q.at(n)
	e.product(u, w, n.Input(0), out, 1)
	return e.err
}

// writeGemm writes a Gemm: alpha goes into the scale, and the bias, times beta, is added.
func writeGemm(q *quantizer, u use, w *weight) error {
	n, out := u.node, u.node.Output(0)
	q.Remove(n)
	e := q.at(n)
	x := n.Input(0)
	if n.Int("transA", 0) != 0 {
		t := q.typeOf(x)
		if len(t.Shape.Dims) == 2 {
			t.Shape = graph.Dims(t.Shape.Dims[1], t.Shape.Dims[0])
		}
		x = e.node("Transpose", t, graph.NoValue, []graph.Attr{{Name: "perm", Value: []int64{1, 0}}}, x)
	}
	bias, beta := n.Input(2), n.Float("beta", 1)
	if bias == graph.NoValue || beta == 0 {
		e.product(u, w, x, out, n.Float("alpha", 1))
		return e.err
	}
	y := e.product(u, w, x, graph.NoValue, n.Float("alpha", 1))
	if beta != 1 && e.err == nil {
		var factor graph.ValueID
		factor, e.err = e.Constant(graph.Float32Tensor(e.label+"/beta", nil, beta), graph.NoValue)
		bias = e.node("Mul", q.typeOf(bias), graph.NoValue, nil, bias, factor)
	}
	e.node("Add", q.typeOf(out), out, nil, y, bias)
	return e.err
}

// unsqueezeInput is the first operator set with the axes of Unsqueeze as an input.
const unsqueezeInput = 13

// writeGather writes a Gather: of the integers, which become floats behind it.
func writeGather(q *quantizer, u use, w *weight) error {
	n, out := u.node, u.node.Output(0)
	q.Remove(n)
	e := q.at(n)
	shape, index := q.typeOf(out).Shape, n.Input(1)
	axis := []graph.Attr{{Name: "axis", Value: n.Int("axis", 0)}}
	taken := func(v graph.ValueID, t graph.Type, attrs []graph.Attr) graph.ValueID {
		return e.node("Gather", t, graph.NoValue, attrs, v, index)
	}
	integers := taken(w.straight, graph.Tensor(q.typeOf(w.straight).DType, shape), axis)
	if !w.perChannel() {
		e.node("DequantizeLinear", q.typeOf(out), out, nil, integers, w.scale, w.zero)
		return e.err
	}
	rows := graph.Shape{} // of a value per row
	if shape.Ranked {
		rows = graph.Dims(shape.Dims[:len(shape.Dims)-1]...)
	}
	first := []graph.Attr{{Name: "axis", Value: int64(0)}}
	floats := e.toFloat(integers, graph.NoValue)
	if !q.o.Signed { // else they are 0
		zeros := taken(w.zero, graph.Tensor(q.typeOf(w.zero).DType, rows), first)
		floats = e.node("Sub", q.typeOf(out), graph.NoValue, nil, floats, e.column(e.toFloat(zeros, graph.NoValue)))
	}
	scales := taken(w.scale, graph.Tensor(graph.Float32, rows), first)
	e.node("Mul", q.typeOf(out), out, nil, floats, e.column(scales))
	return e.err
}

// column adds an axis of one element at the end.
func (e *emitter) column(v graph.ValueID) graph.ValueID {
	if e.err != nil {
		return graph.NoValue
	}
	t := graph.Tensor(graph.Float32, graph.Shape{})
	if e.m.OpsetVersion("") < unsqueezeInput {
		return e.node("Unsqueeze", t, graph.NoValue, []graph.Attr{{Name: "axes", Value: []int64{-1}}}, v)
	}
	axes, err := e.Constant(graph.Int64Tensor(e.label+"/axes", []int64{1}, -1), graph.NoValue)
	if e.err = err; err != nil {
		return graph.NoValue
	}
	return e.node("Unsqueeze", t, graph.NoValue, nil, v, axes)
}
