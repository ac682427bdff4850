package examples

import (
	"fmt"

	"memopt/graph"
)

// value is a value of the forward half with the data for its backward half.
type value struct {
	id      graph.ValueID
	name    string
	dtype   graph.DType
	tracked bool // a weight reaches it, so it has a gradient

	readers int             // gradient contributions that the tape will make
	parts   []graph.ValueID // those made so far
	grad    graph.ValueID   // their sum, once asked for
}

// tape records the forward half and then plays its gradients backwards.
type tape struct {
	*builder
	weights []*value
	back    []func()
}

func newTape(b *builder) *tape { return &tape{builder: b} }

// data declares a graph input that has no gradient.
func (t *tape) data(name string, d graph.DType, s graph.Shape) *value {
	return &value{id: t.input(name, graph.Tensor(d, s)), name: name, dtype: d, grad: graph.NoValue}
}

// weight declares a trainable graph input.
func (t *tape) weight(name string, d graph.DType, s ...int) *value {
	list := make([]any, len(s))
	for i, x := range s {
		list[i] = x
	}
	w := t.data(name, d, dims(list...))
	w.tracked = true
	t.weights = append(t.weights, w)
	return w
}

// wrap makes a value of a constant or of a node's output that needs no gradient.
func (t *tape) wrap(id graph.ValueID, d graph.DType) *value {
	return &value{id: id, name: t.g.ValueName(id), dtype: d, grad: graph.NoValue}
}

func valueIDs(list []*value) []graph.ValueID {
	out := make([]graph.ValueID, len(list))
	for i, v := range list {
		out[i] = v.id
	}
	return out
}

// forward adds a node with n outputs of the given type; they are tracked when an input is.
func (t *tape) forward(domain, op, name string, n int, d graph.DType, in []*value, attrs ...graph.Attr) []*value {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s_output_%d", name, i)
	}
	out := make([]*value, n)
	for i, id := range t.node(domain, op, name, valueIDs(in), names, attrs...) {
		out[i] = t.wrap(id, d)
		for _, x := range in {
			out[i].tracked = out[i].tracked || x.tracked
		}
	}
	return out
}

// apply is forward for a node with one output of the type of its first input.
func (t *tape) apply(domain, op, name string, in []*value, attrs ...graph.Attr) *value {
	return t.forward(domain, op, name, 1, in[0].dtype, in, attrs...)[0]
}

// push records the gradient of the operator called name, which contributes to the gradient of
// each tracked one of the listed inputs exactly once per listing.
func (t *tape) push(name string, inputs []*value, f func(*gradient)) {
	any := false
	for _, x := range inputs {
		if x.tracked {
			x.readers++
			any = true
		}
	}
	if any {
		t.back = append(t.back, func() { f(&gradient{tape: t, name: name + "_Grad"}) })
	}
}

// backward starts from the gradient of the loss and plays the tape. Every weight's gradient becomes
// a graph output.
func (t *tape) backward(loss *value, grad graph.ValueID) {
	loss.parts = append(loss.parts, grad)
	loss.readers++
	for i := len(t.back) - 1; i >= 0; i-- {
		t.back[i]()
	}
	for _, w := range t.weights {
		t.output(t.gradientOf(w), t.g.Values[w.id].Type)
	}
}

// gradientOf returns the gradient of a value: the sum of its contributions, which must all have
// been made.
func (t *tape) gradientOf(v *value) graph.ValueID {
	if v.grad != graph.NoValue {
		return v.grad
	}
	if len(v.parts) != v.readers || v.readers == 0 {
		t.check(fmt.Errorf("value %q: %d of %d gradient contributions were made; every recorded reader must make one",
			v.name, len(v.parts), v.readers))
		return graph.NoValue
	}
	v.grad = v.parts[0]
	if v.readers > 1 {
		name := v.name + "_grad"
		v.grad = t.node(onnxDomain, "Sum", "AccumulateGrad_"+name, v.parts, []string{name})[0]
	}
	return v.grad
}

// gradient is one operator's turn in the backward half.
type gradient struct {
	*tape
	name  string // prefix of the names of its nodes and of values of its own
	nodes int
}

// to returns the name of the next contribution to the gradient of x, which the caller must make
// with the next node; empty where x has no gradient.
func (g *gradient) to(x *value) string {
	if !x.tracked {
		return ""
	}
	name := x.name + "_grad"
	if x.readers > 1 {
		name = fmt.Sprintf("%s_%d", name, len(x.parts))
	}
	x.parts = append(x.parts, g.g.Value(name))
	return name
}

// temp returns the name of a value of the gradient's own.
func (g *gradient) temp(name string) string { return g.name + "/" + name }

// emit adds a node with one output, unless that is a contribution to a gradient that is not needed
// (see to).
func (g *gradient) emit(domain, op, out string, in []graph.ValueID, attrs ...graph.Attr) graph.ValueID {
	if out == "" {
		return graph.NoValue
	}
	return g.emitAll(domain, op, []string{out}, in, attrs...)[0]
}

// emitAll adds a node with several outputs.
func (g *gradient) emitAll(domain, op string, out []string, in []graph.ValueID, attrs ...graph.Attr) []graph.ValueID {
	name := fmt.Sprintf("%s/%s_%d", g.name, op, g.nodes)
	g.nodes++
	return g.node(domain, op, name, in, out, attrs...)
}

// ids lists operands.
func ids(list ...graph.ValueID) []graph.ValueID { return list }
