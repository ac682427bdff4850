package autograd

import (
	"encoding/hex"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

func opInfo(n *graph.Node) *op.Info { return op.Of(n.Kind) }

// Convert takes models from oldestSet up to newestSet, the last set whose changes are known.
const (
	oldestSet = 7
	newestSet = 26
)

// Convert raises the version of ONNX's own operators that a model imports, and rewrites the nodes
// whose operators have changed in between, in subgraphs too, so that their meaning stays the same:
// the axes of a Squeeze, for example, become an input at 13. It returns a readable list of the
// changes. The functions of the model must have been inlined.
func Convert(m *graph.Model, version int64) ([]string, error) {
	from := graph.OpsetVersion(m.Opsets, "")
	switch {
	case from == 0:
		return nil, fmt.Errorf("the model imports no version of ONNX's operators")
	case version < from:
		return nil, fmt.Errorf("operator set %d cannot be lowered to %d", from, version)
	case version == from:
		return nil, nil
	case from < oldestSet || version > newestSet:
		return nil, fmt.Errorf(
			"operator set %d cannot be raised to %d: it must be %d or newer, and the other %d or older",
			from, version, oldestSet, newestSet)
	case len(m.Functions) > 0:
		return nil, fmt.Errorf("function %q: its calls must be inlined before the operator set is raised",
			m.Functions[0].Name)
	}
	if _, err := op.InferAsIs(m); err != nil { // some changes depend on types
		return nil, err
	}
	c := &converter{names: graph.NewNames(m), counts: map[string]int{}, grows: map[*graph.Node]bool{}}
	for at := from + 1; at <= version; at++ {
		if err := c.graph(m.Graph, at); err != nil {
			return nil, err
		}
	}
	for i := range m.Opsets {
		if graph.CanonicalDomain(m.Opsets[i].Domain) == "" {
			m.Opsets[i].Version = version
		}
	}
	m.IRVersion = max(m.IRVersion, irVersion(version))
	return append([]string{fmt.Sprintf("the operator set is raised from %d to %d", from, version)}, c.report()...), nil
}

// irVersion is the version of the file format that came with an operator set.
func irVersion(opset int64) int64 {
	for _, p := range [][2]int64{{23, 11}, {21, 10}, {19, 9}, {15, 8}, {12, 7}, {11, 6}, {10, 5}, {9, 4}} {
		if opset >= p[0] {
			return p[1]
		}
	}
	return 3
}

// converter walks the graphs of a model, once for every operator set on the way.
type converter struct {
	names  *graph.Names
	counts map[string]int
	order  []string             // the keys of counts as they came
	grows  map[*graph.Node]bool // the Resize nodes that were Upsample
}

func (c *converter) report() []string {
	var list []string
	for _, what := range c.order {
		if n := c.counts[what]; n == 1 {
			list = append(list, "1 node "+what)
		} else {
			list = append(list, fmt.Sprintf("%d nodes %s", n, what))
		}
	}
	return list
}

// graph makes the changes of one operator set.
func (c *converter) graph(g *graph.Graph, version int64) (err error) {
	var nodes []*graph.Node
	constants := map[string]Value{}
	for _, n := range slices.Clone(g.Nodes) {
		n.Subgraphs(func(_ string, sub *graph.Graph) {
			if err == nil {
				err = c.graph(sub, version)
			}
		})
		if err != nil {
			return err
		}
		change := changeOf(n, version)
		if change == nil {
			nodes = append(nodes, n)
			continue
		}
		x := &conversion{converter: c, g: g, n: n, label: g.NodeLabel(n.ID), was: n.Op, constants: constants}
		what, err := change(x)
		if err != nil {
			return fmt.Errorf("node %q (%s) cannot be raised to operator set %d: %w", x.label, n.Op, version, err)
		}
		if what != "" {
			what = x.was + ": " + what
			if c.counts[what]++; c.counts[what] == 1 {
				c.order = append(c.order, what)
			}
		}
		for _, added := range slices.Concat(x.before, x.after) {
			added.InheritStages(n)
		}
		nodes = append(append(append(nodes, x.before...), n), x.after...)
	}
	g.SetNodes(nodes)
	return nil
}

// changeOf returns a node's change at the step to an operator set, or nil.
func changeOf(n *graph.Node, version int64) change {
	if graph.CanonicalDomain(n.Domain) != "" || n.Kind == op.Unknown {
		return nil
	}
	return changes[kindSince{n.Kind, version}]
}

// conversion is a node being converted: its change edits it and may put other nodes before and
// behind it, in the current operator set.
type conversion struct {
	*converter
	g             *graph.Graph
	n             *graph.Node
	label         string
	was           string // the operator before the change, for the report
	before, after []*graph.Node
	constants     map[string]Value
}

// value makes a value with a name that no other has.
func (x *conversion) value(base string) Value { return x.g.Value(x.names.Value(base)) }

// node makes a node with one output.
func (x *conversion) node(name string, attrs Attrs, out Value, in ...Value) *graph.Node {
	return &graph.Node{Name: x.names.Node(x.label + "/" + name), Op: name, Kind: op.Lookup("", name), Attrs: attrs,
		Inputs: in, Outputs: []Value{out}}
}

// first puts a node before the one at hand, and returns its output.
func (x *conversion) first(name string, attrs Attrs, in ...Value) Value {
	out := x.value(x.label + "/" + name + "_output_0")
	x.before = append(x.before, x.node(name, attrs, out, in...))
	return out
}

// then lets a node behind the one at hand make its i-th output, from that node's own outputs.
func (x *conversion) then(i int, name string, attrs Attrs, in ...Value) {
	out := x.n.Outputs[i]
	x.n.Outputs[i] = x.value(x.g.ValueName(out) + "_before_" + name)
	x.after = append(x.after, x.node(name, attrs, out, append([]Value{x.n.Outputs[i]}, in...)...))
}

// constant returns an initializer of the current graph; equal constants of one step share one.
func (x *conversion) constant(t *graph.TensorData) (Value, error) {
	raw, err := t.Source.Bytes()
	if err != nil {
		return None, err
	}
	key := fmt.Sprint(t.DType, t.Dims, hex.EncodeToString(raw))
	if v, ok := x.constants[key]; ok {
		return v, nil
	}
	v := x.value("converted_constant")
	t.Name = x.g.ValueName(v)
	_, err = x.g.AddInitializer(t)
	x.constants[key] = v
	return v, err
}

func (x *conversion) vector(ints ...int64) (Value, error) {
	return x.constant(graph.Int64Tensor("", []int64{int64(len(ints))}, ints...))
}

// set sets an input; those before it that the node lacks are left out.
func (x *conversion) set(slot int, v Value) {
	for len(x.n.Inputs) <= slot {
		x.n.Inputs = append(x.n.Inputs, None)
	}
	x.n.Inputs[slot] = v
}

// take removes an attribute.
func (x *conversion) take(name string) {
	x.n.Attrs = slices.DeleteFunc(x.n.Attrs, func(a graph.Attr) bool { return a.Name == name })
}

// intsToInput makes an attribute that lists integers, where it is given, an input.
func (x *conversion) intsToInput(name string, slot int) (bool, error) {
	if x.n.Attr(name) == nil {
		return false, nil
	}
	v, err := x.vector(x.n.IntList(name, nil)...)
	if err != nil {
		return false, err
	}
	x.set(slot, v)
	x.take(name)
	return true, nil
}

// typeOf is the type of input i as it was inferred before the conversion.
func (x *conversion) typeOf(i int) graph.Type {
	if v := x.n.Input(i); v != None {
		return x.g.Values[v].Type
	}
	return graph.Type{}
}

// used reports whether a value is read.
func (x *conversion) used(v Value) bool {
	if v == None {
		return false
	}
	reads := func(n *graph.Node) bool { return slices.Contains(n.Inputs, v) || slices.Contains(n.Captures(), v) }
	return x.g.Values[v].Output || slices.ContainsFunc(x.g.Nodes, reads)
}
