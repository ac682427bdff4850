package torch

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/modules"
	"memopt/graph/op"
	"memopt/graph/pattern"
	"memopt/symbolic"
)

// Options says how a model is run.
type Options struct {
	Dims symbolic.Env
	Tree *modules.Tree
	// Wrt names the parameters: the inputs and initializers whose gradients are wanted.
	Wrt []string
	// Loss names the scalar that is differentiated.
	Loss string
	// Keep names the values that the program itself keeps to the end of the step, such as logits.
	Keep []string
	// Seconds are the times of nodes, by NodeID; nil means that no times are known.
	Seconds []float64
}

// NoRow is the error for an operator whose counterpart in PyTorch is unknown.
type NoRow struct{ Node, Op string }

func (e *NoRow) Error() string {
	return fmt.Sprintf("node %q: memopt does not know which tensors PyTorch saves for %s, so the peak is unknown",
		e.Node, e.Op)
}

// builder runs a graph on a machine.
type builder struct {
	machine
	g     *graph.Graph
	types *op.Result
	o     Options
	vals  []tensor // by ValueID
	reads []int32  // by ValueID: how many nodes read it
	opset int64
	lifts []lift // by NodeID: the operator that its nodes form together; the zero lift for the node itself
	ofWrt []bool // by ValueID: it is computed of a parameter; nil: not asked yet
	err   error
}

// kernel is an operator while it is run: a node, or an operator formed by several nodes.
type kernel struct {
	*builder
	n     *graph.Node
	match *pattern.Match // nil: the node alone
	call  int32
}

// Build runs the forward half of a model and its backward, and returns the program of both. The graph
// is in the order of its file, which is that of the program that was exported. The error is a *NoRow,
// or names a value of unknown size.
func Build(m *graph.Model, types *op.Result, o Options) (*Program, error) {
	b := &builder{g: m.Graph, types: types, o: o, vals: make([]tensor, len(m.Graph.Values)), opset: m.OpsetVersion(""),
		machine: machine{p: &Program{Tree: o.Tree, Stacked: stacked(o.Tree.Torch), Early: stacked(o.Tree.Torch)}},
		reads:   make([]int32, len(m.Graph.Values))}
	for _, n := range b.g.Nodes {
		for _, v := range n.Inputs {
			if v != graph.NoValue {
				b.reads[v]++
			}
		}
	}
	if err := b.hold(); err != nil {
		return nil, err
	}
	b.lift()
	for id, n := range b.g.Nodes {
		if err := b.run(graph.NodeID(id), n); err != nil {
			return nil, err
		}
	}
	loss, ok := b.g.Lookup(o.Loss)
	if !ok || !b.vals[loss].there() {
		return nil, fmt.Errorf("the loss %q is no tensor that the forward half makes", o.Loss)
	}
	for _, name := range o.Keep {
		if v, ok := b.g.Lookup(name); ok && b.vals[v].there() && !b.p.Storages[b.vals[v].storage].Held {
			b.p.Storages[b.vals[v].storage].Kept = true
		}
	}
	b.backward(b.vals[loss])
	return b.p, nil
}

// hold gives parameters, buffers and inputs their storages.
func (b *builder) hold() error {
	for i := range b.g.Values {
		v := &b.g.Values[i]
		if !v.Input && !v.IsInitializer() {
			continue
		}
		t, err := b.sized(graph.ValueID(i))
		if err != nil {
			return err
		}
		if b.host(graph.ValueID(i), t) && !v.Input && !slices.Contains(b.o.Wrt, v.Name) {
			continue
		}
		t.storage = b.storage(t.bytes())
		b.p.Storages[t.storage].Held = true
		b.p.Held += t.bytes()
		b.vals[i] = t
	}
	for _, name := range b.o.Wrt {
		v, ok := b.g.Lookup(name)
		if !ok || !b.vals[v].there() {
			return fmt.Errorf("the parameter %q is no input or initializer of the model", name)
		}
		b.vals[v].grad = b.variable()
		b.leaf[b.vals[v].grad] = true
	}
	return nil
}

// sized is a contiguous tensor of a value's type, without a storage.
func (b *builder) sized(id graph.ValueID) (tensor, error) {
	v := &b.g.Values[id]
	t := tensor{storage: none, grad: noGrad, dims: make([]int64, len(v.Type.Shape.Dims)),
		elem: int64(max(v.Type.DType.Bits(), 8) / 8)}
	if !v.Type.Shape.Ranked {
		return t, fmt.Errorf("value %q: its rank is not known, so the peak in PyTorch cannot be told", v.Name)
	}
	for i, d := range v.Type.Shape.Dims {
		n, err := d.Eval(b.o.Dims)
		if err != nil {
			return t, fmt.Errorf("value %q: dim %d: %w", v.Name, i, err)
		}
		if d.IsUnknown() || n < 0 {
			return t, fmt.Errorf("value %q: dim %d of %v is not known, so the peak in PyTorch cannot be told; export "+
				"with static sizes, or bind its symbols", v.Name, i, v.Type)
		}
		t.dims[i] = n
	}
	t.strides = rowMajor(t.dims)
	return t, nil
}

// hostElements is the most elements of a value that a program computes without tensors: sizes and
// numbers, which exporters write as nodes.
const hostElements = 64

// host reports whether a value is such numbers: few integers of rank 1 at most, or one constant number.
func (b *builder) host(id graph.ValueID, t tensor) bool {
	v := &b.g.Values[id]
	if elements(t.dims) == 1 && len(t.dims) <= 1 {
		if _, fixed := pattern.Number(b.g, id); fixed {
			return true
		}
	}
	return !v.Type.DType.IsFloat() && len(t.dims) <= 1 && elements(t.dims) <= hostElements &&
		(v.Def != graph.NoNode || v.IsInitializer())
}

// run runs a node, unless it is part of another node's operator.
func (b *builder) run(id graph.NodeID, n *graph.Node) error {
	l := &b.lifts[id]
	if l.inside {
		return nil
	}
	k := &kernel{builder: b, n: n, match: l.match, call: b.o.Tree.Of[id]}
	r := tableOf[n.Kind]
	if l.row != nil {
		r = l.row.row
	}
	all := true // outputs are numbers of the host
	for _, v := range n.Outputs {
		if v == graph.NoValue {
			continue
		}
		t, err := b.sized(v)
		if err != nil {
			if b.reads[v] == 0 {
				continue
			}
			return err
		}
		all = all && b.host(v, t)
	}
	if all {
		return nil
	}
	if r.run == nil {
		return &NoRow{b.g.NodeLabel(id), n.Op}
	}
	first := len(b.p.Steps)
	r.run(k, &r)
	if b.err != nil {
		return fmt.Errorf("node %q (%s): %w", b.g.NodeLabel(id), n.Op, b.err)
	}
	if first < len(b.p.Steps) {
		b.p.Steps[len(b.p.Steps)-1].Seconds = k.seconds()
		b.p.Seconds += k.seconds()
	}
	return nil
}

// seconds is the time of the longest of the nodes: the others are part of the same kernel.
func (k *kernel) seconds() float64 {
	if k.o.Seconds == nil {
		return 0
	}
	s := k.o.Seconds[k.n.ID]
	if k.match != nil {
		for _, n := range k.match.Nodes {
			s = max(s, k.o.Seconds[n.ID])
		}
	}
	return s
}

// in is input i as a tensor; the zero tensor if it is left out or a number of the host.
func (k *kernel) in(i int) tensor {
	v := k.n.Input(i)
	if v == graph.NoValue {
		return tensor{storage: none, grad: noGrad}
	}
	return k.value(v)
}

// value is the tensor of a value.
func (k *kernel) value(v graph.ValueID) tensor {
	if k.vals[v].dims != nil {
		return k.vals[v]
	}
	t := tensor{storage: none, grad: noGrad}
	if s, err := k.sized(v); err == nil {
		t = s
	}
	return t
}

// outDims are the dims of an output.
func (k *kernel) outDims(i int) []int64 {
	t, err := k.sized(k.n.Outputs[i])
	if err != nil && k.err == nil {
		k.err = err
	}
	return t.dims
}

// elem is the bytes of an element of output 0.
func (k *kernel) elem() int64 { return int64(max(k.g.Values[k.n.Outputs[0]].Type.DType.Bits(), 8) / 8) }

// set makes a tensor the value of an output.
func (k *kernel) set(i int, t tensor) {
	if i < len(k.n.Outputs) && k.n.Outputs[i] != graph.NoValue {
		k.vals[k.n.Outputs[i]] = t
	}
}

// inPlace reports whether the operator's module writes its result over its input, as the exporter noted.
func (k *kernel) inPlace() bool {
	if k.call < 0 {
		return false
	}
	yes, _ := k.o.Tree.Modules[k.o.Tree.Calls[k.call].Module].Attributes["inplace"].(bool)
	return yes
}

// start opens the step of an operator that reads tensors.
func (k *kernel) start(op string, reads ...tensor) {
	k.begin(op, k.n.ID, k.call)
	k.read(reads...)
}

// record puts an operator on the tape, unless no gradient of its operands is wanted, and returns its
// outputs with variables. saved are the tensors that its backward reads.
func (k *kernel) record(op string, outs, of, saved []tensor, run func(b *back)) []tensor {
	if !wanted(of...) {
		return outs
	}
	r := record{op: op, node: k.n.ID, call: k.call, of: int32(len(k.p.Steps) - 1), backOf: run}
	for i := range outs {
		outs[i].grad = k.variable()
		r.out = append(r.out, outs[i].grad)
	}
	for _, t := range saved {
		if !t.there() {
			continue
		}
		r.reads = append(r.reads, t.storage)
		r.saves = true
		keeps := KeepsInputs
		if slices.Contains(k.step.Makes, t.storage) {
			keeps = KeepsResults
		}
		k.step.Keeps = max(k.step.Keeps, keeps)
	}
	k.tape = append(k.tape, r)
	return outs
}

// one is record for one output, which it makes the value of output 0.
func (k *kernel) one(op string, out tensor, of, saved []tensor, run func(b *back)) tensor {
	t := k.record(op, []tensor{out}, of, saved, run)[0]
	k.set(0, t)
	return t
}

// some lists tensors.
func some(ts ...tensor) []tensor { return ts }
