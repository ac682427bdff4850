package memopt_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/symbolic"
)

// wholes are graphs of what samples of kernels do not have: subgraphs, sequences, optionals, local
// functions, constants, and outputs that no node makes.
var wholes = map[string]string{
	"if": `(bool c, float[3, 4] x) => (float[3, 4] y, float[n, 4] z) {
		y, z = If<then_branch = t () => (float[3, 4] p, float[3, 4] q) { p = Relu(x)  q = Mul(p, x) }, else_branch = e () => (float[3, 4] r, float[3, 4] s) { r = Tanh(x)  s = Identity(x) }>(c) }`,
	"if with constants": `(float[1, 4] x) => (y) <int64[1] a = {0}> { d = Shape(x)  k = Gather(d, a)  one = Constant<value_ints = [1]>()  c = Equal(k, one)
		y = If<then_branch = t () => (p) { p = Squeeze(x, a) }, else_branch = e () => (r) { r = Tanh(x) }>(c) }`,
	"loop": `(int64 n, bool c, float[3] x, float[3] w) => (float[3] y, float[k, 3] rows) <int64 three = {3}> {
		y, rows = Loop<body = b (int64 i, bool more, float[3] s) => (bool again, float[3] u, float[3] row) { again = Identity(more)  p = Mul(s, w)  u = Tanh(p)  row = Exp(u) }>(three, c, x) }`,
	"loop of two": `(float[3] x) => (y, z) <int64 three = {3}, bool yes = {1}> {
		y, z = Loop<body = b (int64 i, bool more, float[3] s, float[3] t) => (bool again, float[3] v, float[3] u) { again = Identity(more)  u = Add(s, t)  v = Sub(s, t) }>(three, yes, x, x) }`,
	"scan": `(float[3] s, float[5, 3] x) => (float[3] y, float[5, 3] rows) {
		y, rows = Scan<num_scan_inputs = 1, body = b (float[3] state, float[3] row) => (float[3] next, float[3] out) { next = Add(state, row)  out = Mul(next, row) }>(s, x) }`,
	"nested": `(bool c, float[3] x) => (y) <int64 three = {3}> {
		y = If<then_branch = t () => (p) { p = Loop<body = b (int64 i, bool more, float[3] s) => (bool again, float[3] u) { again = Identity(more)  u = Mul(s, x) }>(three, , x) }, else_branch = e () => (r) { r = Tanh(x) }>(c) }`,
	"sequence": `(float[2, 3] x, float[2, 3] y, int64 i) => (z, l, w) { s = SequenceConstruct(x, y)  t = SequenceInsert(s, x, i)  u = SequenceErase(t, i)  z = SequenceAt(u, i)
		l = SequenceLength(t)  w = ConcatFromSequence<axis = 0>(t) }`,
	"split sequence": `(float[6, 3] x) => (z, y) <int64[2] k = {2, 4}, int64 i = {1}> { s = SplitToSequence<axis = 0>(x, k)  z = SequenceAt(s, i)  y = ConcatFromSequence<axis = 1, new_axis = 1>(s) }`,
	"optional":       `(float[2] x) => (y, h) { o = Optional(x)  y = OptionalGetElement(o)  h = OptionalHasElement(o) }`,
	"function": `(float[2, 3] x, float[3] w) => (y) { h = local.Scaled<k = 2.0>(x, w)  y = Relu(h) }
		<domain: "local", opset_import: ["" : 17]> Scaled<k>(a, b) => (c) { m = Mul(a, b)  c = LeakyRelu<alpha: float = @k>(m) }`,
	"constants": `(float[2, 3] x) => (y) <float[2, 3] w = {1, 2, 3, 4, 5, 6}, int64[2] s = {3, 2}> { v = Constant<value_floats = [1.0, 2.0]>()  m = Mul(x, w)  r = Reshape(m, s)  y = Add(r, v) }`,
	"passed on": `(float[2] x, float z) => (float[2] x2, z, w) <float w = {1}> { x2 = Relu(x) }`,
	"training": `(float[4, 3] x, float[3, 2] w, int64[4] t) => (loss, g) { h = MatMul(x, w)  r = Relu(h)  loss, p = SoftmaxCrossEntropyLoss(r, t)  one = Constant<value_float = 1.0>()
		d = com.microsoft.SoftmaxCrossEntropyLossGrad<reduction = "mean">(one, p, t)  e = com.microsoft.ReluGrad(d, r)  xt = Transpose<perm = [1, 0]>(x)  g = MatMul(xt, e) }`,
}

// TestHostileModels bends what wholes have in every way that a file can, in subgraphs and functions
// too, and demands what TestHostileNodes does.
func TestHostileModels(t *testing.T) {
	nth := everyNth()
	h := hostile{t: t, found: map[string]int{}}
	for _, name := range slices.Sorted(maps.Keys(wholes)) {
		text := wholes[name]
		original := parseWhole(t, text)
		for k := range 1 + len(bendsOf(original)) {
			if k > 0 && hashOf(fmt.Sprint(name, k))%nth != 0 {
				continue
			}
			label, m := name, parseWhole(t, text)
			if k > 0 {
				b := bendsOf(m)[k-1]
				b.apply()
				label += ": " + b.what
			}
			if m = throughFile(m); m != nil {
				h.nodes++
				h.all(label, m)
			}
		}
	}
	t.Logf("%d models", h.nodes)
}

func parseWhole(t *testing.T, text string) *graph.Model {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "local" : 1]> g `+text, "whole")
	require.NoError(t, err)
	return m
}

// bend is a way to bend a model.
type bend struct {
	what  string
	apply func()
}

// bendsOf lists all ways.
func bendsOf(m *graph.Model) (list []bend) {
	bendModel(m, func(what string, apply func()) { list = append(list, bend{what, apply}) })
	return list
}

// throughFile writes and reads a model; it returns nil for a model that no file can hold.
func throughFile(m *graph.Model) *graph.Model {
	data, err := onnx.Encode(m)
	if err != nil {
		return nil
	}
	m, err = onnx.Decode(data, "whole.onnx")
	if err != nil {
		return nil
	}
	if _, err := op.InlineFunctions(m); err != nil {
		return nil
	}
	return m
}

// bendModel gives f every way to bend a model.
func bendModel(m *graph.Model, f func(what string, bend func())) {
	bendGraph("g", m.Graph, f)
	for _, fn := range m.Functions {
		bendGraph(fn.Name, fn.Body, f)
		f("function without inputs", func() { fn.Body.Inputs = nil })
		f("function without outputs", func() { fn.Body.Outputs = nil })
	}
}

// bentTypes are what declarations are given.
func bentTypes() []graph.Type {
	f, i := graph.Tensor(graph.Float32, graph.Ints(3)), graph.Tensor(graph.Int64, graph.Ints())
	types := []graph.Type{{}, graph.Tensor(graph.Undefined, graph.Shape{}), i,
		graph.Tensor(graph.Float32, graph.Ints()), graph.Tensor(graph.Float32, graph.Ints(0)),
		graph.Tensor(graph.Float32, graph.Ints(2, 3, 4, 5)),
		graph.Tensor(graph.Float32, graph.Dims(symbolic.Sym("n"), symbolic.Unknown())),
		graph.Tensor(graph.Float32, graph.Ints(1<<62, 1<<62)),
		{Form: graph.FormSequence, Elem: &f}, {Form: graph.FormOptional, Elem: &f}, {Form: graph.FormSequence},
		{Form: graph.FormOptional, Elem: &graph.Type{Form: graph.FormSequence, Elem: &i}}}
	for _, d := range dtypes {
		types = append(types, graph.Tensor(d, graph.Shape{}))
	}
	return types
}

func bendGraph(where string, g *graph.Graph, f func(what string, bend func())) {
	bendDecls(where+" inputs", &g.Inputs, f)
	bendDecls(where+" outputs", &g.Outputs, f)
	for i := range g.Values {
		v := &g.Values[i]
		if v.Def != graph.NoNode {
			for _, t := range bentTypes() {
				f(fmt.Sprintf("%s %q stated to be %v", where, v.Name, t), func() {
					g.ValueInfo = append(g.ValueInfo, graph.Decl{Value: graph.ValueID(i), Type: t})
				})
			}
		}
		if v.Data != nil {
			bendWeight(where, v.Data, f)
		}
	}
	for _, n := range g.Nodes {
		bendNode(fmt.Sprintf("%s %s%v", where, n.Op, n.ID), g, n, f)
		n.Subgraphs(func(attr string, sub *graph.Graph) { bendGraph(where+"."+attr, sub, f) })
	}
}

func bendDecls(where string, list *[]graph.Decl, f func(what string, bend func())) {
	for i := range *list {
		for _, t := range bentTypes() {
			f(fmt.Sprintf("%s: %d is %v", where, i, t), func() { (*list)[i].Type, (*list)[i].Wire = t, nil })
		}
		f(fmt.Sprintf("%s: no %d", where, i), func() { *list = slices.Delete(*list, i, i+1) })
		f(fmt.Sprintf("%s: %d twice", where, i), func() { *list = append(*list, (*list)[i]) })
		f(fmt.Sprintf("%s: %d first", where, i), func() { (*list)[0], (*list)[i] = (*list)[i], (*list)[0] })
	}
}

func bendWeight(where string, w *graph.TensorData, f func(what string, bend func())) {
	for _, dims := range [][]int64{nil, {0}, {1}, {7}, {2, 2}, {-1}, {1 << 40}, {1 << 62, 1 << 62}, {1, 1, 1, 1}} {
		f(fmt.Sprintf("%s weight %q with dims %v", where, w.Name, dims), func() { w.Dims, w.Wire = dims, nil })
	}
	for _, d := range dtypes {
		f(fmt.Sprintf("%s weight %q of %v", where, w.Name, d), func() { w.DType, w.Wire = d, nil })
	}
	for _, n := range []int{0, 1, 3, 64} {
		f(fmt.Sprintf("%s weight %q of %d bytes", where, w.Name, n), func() {
			w.Source, w.Wire = graph.Raw(make([]byte, n)), nil
		})
	}
}

func bendNode(where string, g *graph.Graph, n *graph.Node, f func(what string, bend func())) {
	for i := range n.Inputs {
		f(fmt.Sprintf("%s: input %d left out", where, i), func() { n.Inputs[i] = graph.NoValue })
		f(fmt.Sprintf("%s: input %d removed", where, i), func() { n.Inputs = slices.Delete(n.Inputs, i, i+1) })
		for v := range g.Values {
			if v < 12 && graph.ValueID(v) != n.Inputs[i] {
				f(fmt.Sprintf("%s: input %d is %q", where, i, g.Values[v].Name),
					func() { n.Inputs[i] = graph.ValueID(v) })
			}
		}
	}
	f(where+": first input once more", func() { n.Inputs = append(n.Inputs, n.Input(0)) })
	f(where+": empty input more", func() { n.Inputs = append(n.Inputs, graph.NoValue, graph.NoValue) })
	f(where+": output more", func() { n.Outputs = append(n.Outputs, g.Value(where+"/more")) })
	for i := range n.Outputs {
		f(fmt.Sprintf("%s: output %d left out", where, i), func() { n.Outputs[i] = graph.NoValue })
		f(fmt.Sprintf("%s: output %d removed", where, i), func() { n.Outputs = slices.Delete(n.Outputs, i, i+1) })
	}
	for i := range n.Attrs {
		a := &n.Attrs[i]
		f(fmt.Sprintf("%s: no %s", where, a.Name), func() { n.Attrs = slices.Delete(n.Attrs, i, i+1) })
		for _, v := range attrValues {
			f(fmt.Sprintf("%s: %s = %T %v", where, a.Name, v, v), func() { a.Value, a.Wire, a.Ref = v, nil, "" })
		}
		for j := range n.Attrs {
			f(fmt.Sprintf("%s: %s is %s", where, a.Name, n.Attrs[j].Name), func() {
				a.Value, a.Wire = n.Attrs[j].Value, nil
			})
		}
	}
	for _, other := range []string{"Identity", "Add", "If", "Loop", "Scan", "SequenceAt", "Constant", "Shape", "Concat",
		"Relu", "Split", "OptionalGetElement", "Cast", "Mystery"} {
		f(where+": is "+other, func() { n.Op, n.Domain = other, "" })
	}
}
