package onnxgo

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/owulveryck/onnx-go"
	"gorgonia.org/tensor"

	"memopt"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// usualOpset is the operator set of a model whose options name none.
const usualOpset = 13

// Model returns memopt's model of the graph that onnx-go has decoded into the backend. Symbols that
// Options.Shapes name are unbound; the caller binds them in Dims. The error names the value, the
// attribute or the node that memopt cannot take.
func (b *Backend) Model(decoded *onnx.Model) (*memopt.Model, error) {
	b.Bind(decoded)
	return b.model()
}

func (b *Backend) model() (*memopt.Model, error) {
	opset := b.options.Opset
	if opset == 0 {
		opset = usualOpset
	}
	m := &graph.Model{IRVersion: 8, Graph: graph.New("onnx-go", nil), ProducerName: "onnx-go",
		Opsets: []graph.Opset{{Version: opset}}}
	w := &writer{g: m.Graph, model: m, shapes: b.options.Shapes}
	for _, n := range b.inputs {
		if err := w.input(n); err != nil {
			return nil, err
		}
	}
	var nodes []*graph.Node
	for _, o := range b.operations {
		n, err := w.node(o)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	for _, n := range b.outputs {
		if err := m.Graph.AddOutput(graph.Decl{Value: m.Graph.Value(n.name)}); err != nil {
			return nil, err
		}
	}
	m.Graph.SetNodes(nodes)
	if err := graph.Verify(m); err != nil {
		return nil, err
	}
	return memopt.New(m, memopt.Options{})
}

// writer makes memopt's graph.
type writer struct {
	g      *graph.Graph
	model  *graph.Model
	shapes map[string]string
}

func (w *writer) input(n *Node) error {
	if n.value == nil {
		return fmt.Errorf("input %q has no type: it is no tensor", n.name)
	}
	d, err := typeOf(n.value)
	if err != nil {
		return fmt.Errorf("input %q: %w", n.name, err)
	}
	t := graph.Tensor(d, graph.Ints(dimsOf(n.value)...))
	if text, ok := w.shapes[n.name]; ok {
		t.Shape = graph.Shape{Ranked: true}
		for _, dim := range strings.Split(text, ",") {
			e, err := symbolic.Parse(strings.TrimSpace(dim))
			if err != nil {
				return fmt.Errorf("the shape of input %q: %w", n.name, err)
			}
			t.Shape.Dims = append(t.Shape.Dims, e)
		}
	}
	return w.g.AddInput(graph.Decl{Value: w.g.Value(n.name), Type: t})
}

// node makes a node of an operation. Values without a maker that are no inputs are constants.
func (w *writer) node(o *operation) (*graph.Node, error) {
	label := fmt.Sprintf("the %s that makes %q", o.Name, o.results[0].name)
	n := &graph.Node{Op: o.Name, Name: o.results[0].name}
	if op.Lookup("", o.Name) == op.Unknown && op.Lookup(microsoft, o.Name) != op.Unknown {
		n.Domain = microsoft
		w.imports(microsoft)
	}
	for _, v := range o.results[0].operands {
		id, err := w.operand(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", label, err)
		}
		n.Inputs = append(n.Inputs, id)
	}
	for _, v := range o.results {
		n.Outputs = append(n.Outputs, w.g.Value(v.name))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Attributes)) {
		value, err := attribute(o.Attributes[name])
		if err != nil {
			return nil, fmt.Errorf("%s: attribute %q: %w", label, name, err)
		}
		if value != nil {
			n.SetAttr(name, value)
		}
	}
	if len(n.Inputs) == 1 && n.Inputs[0] == graph.NoValue &&
		strings.HasSuffix(o.results[0].operands[0].name, inputless) {
		n.Inputs = nil
	}
	return n, nil
}

const (
	// microsoft is the domain of ONNX Runtime's own operators.
	microsoft = "com.microsoft"
	// inputless ends the name of the empty operand that onnx-go gives nodes without operands.
	inputless = "/input"
)

// imports adds a domain to those that the model imports.
func (w *writer) imports(domain string) {
	if !slices.ContainsFunc(w.model.Opsets, func(o graph.Opset) bool { return o.Domain == domain }) {
		w.model.Opsets = append(w.model.Opsets, graph.Opset{Domain: domain, Version: 1})
	}
}

// operand returns the value of an operand, which is NoValue where it was left out.
func (w *writer) operand(n *Node) (graph.ValueID, error) {
	if n == nil || n.name == "" || n.value == nil && !n.made {
		return graph.NoValue, nil
	}
	v := w.g.Value(n.name)
	if n.made || w.g.Values[v].Input || w.g.Values[v].Data != nil {
		return v, nil
	}
	data, err := contents(n.value)
	if err != nil {
		return v, fmt.Errorf("constant %q: %w", n.name, err)
	}
	data.Name = n.name
	return w.g.AddInitializer(data)
}

// attribute converts the value of an attribute; nil stands for one without a value.
func attribute(value any) (any, error) {
	switch v := value.(type) {
	case struct{}:
		return nil, nil
	case float32, int64, []float32, []int64, string, []string:
		return v, nil
	case tensor.Tensor:
		return contents(v)
	}
	return nil, fmt.Errorf("memopt takes no %T from onnx-go", value)
}
