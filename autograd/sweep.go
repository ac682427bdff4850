package autograd

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"

	"memopt/graph"
)

// opset is the version of ONNX's own operators that the graph imports.
func (j *joint) opset() int64 { return graph.OpsetVersion(j.m.Opsets, "") }

func (j *joint) labelOf(n *graph.Node) string { return j.g.NodeLabel(n.ID) }

// nodeName names an emitted node after the forward node at hand.
func (j *joint) nodeName(op string) string { return j.taken.Node(j.prefix + op) }

// newValue makes a value with a name that no other has, in no graph of the model.
func (j *joint) newValue(name string) Value {
	for {
		unique := j.taken.Value(name)
		if _, dead := j.g.Lookup(unique); !dead { // one that is no longer made
			return j.g.Value(unique)
		}
	}
}

// constant returns an initializer with the tensor's contents; equal constants share one.
func (j *joint) constant(t *graph.TensorData) Value {
	raw, err := t.Source.Bytes()
	if err != nil {
		panic(failure{err})
	}
	key := fmt.Sprint(t.DType, t.Dims, hex.EncodeToString(raw))
	if v, ok := j.constants[key]; ok {
		return v
	}
	v := j.newValue(fmt.Sprintf("%sgrad_constant_%d", j.base, len(j.constants)))
	t.Name = j.g.ValueName(v)
	if _, err := j.g.AddInitializer(t); err != nil {
		panic(failure{err})
	}
	j.constants[key] = v
	return v
}

// grow makes the side tables as long as the list of values.
func (j *joint) grow() {
	for len(j.grads) < len(j.g.Values) {
		j.grads = append(j.grads, None)
	}
	for len(j.requires) < len(j.g.Values) {
		j.requires = append(j.requires, false)
	}
	for len(j.reaches) < len(j.g.Values) {
		j.reaches = append(j.reaches, false)
	}
}

// gradOf returns the gradient of a whole value, or None.
func (j *joint) gradOf(v Value) Value {
	j.joinParts(v)
	j.grow()
	return j.grads[v]
}

// source follows a value through nodes that give their input as it is.
func (j *joint) source(v Value) Value {
	for v != None {
		def := j.g.Values[v].Def
		if def == graph.NoNode || j.g.Values[v].DefSlot != 0 {
			return v
		}
		n := j.g.Nodes[def]
		same := Of(n.Kind).Same
		if same == nil || !same(j.ctx(n)) {
			return v
		}
		v = n.Input(0)
	}
	return v
}

// accumulate adds a gradient to the one that a value already has.
func (j *joint) accumulate(c *Ctx, v, g Value) { j.addGrad(v, g) }

func (j *joint) addGrad(v, g Value) {
	j.grow()
	if j.grads[v] != None {
		j.joinParts(v) // before a second term, so that each element's terms are added as they come
	}
	if old := j.grads[v]; old != None {
		e := &emitter{j}
		g = e.Add(old, e.Cast(g, e.DType(old)))
		j.grow()
	}
	j.grads[v] = g
}

// expand replaces nodes that are defined by simpler ones and returns the new order.
func (j *joint) expand(order graph.Order) (graph.Order, error) {
	var out graph.Order
	for _, id := range order {
		n := j.g.Nodes[id]
		expand := Of(n.Kind).Expand
		if expand == nil {
			out = append(out, id)
			continue
		}
		first := len(j.g.Nodes)
		j.prefix = graph.Nested(j.base, j.labelOf(n)+"/")
		c := j.ctx(n)
		outs := expand(c)
		if outs == nil {
			out = append(out, id)
			continue
		}
		for slot, v := range n.Outputs {
			if v == None {
				continue
			}
			if slot >= len(outs) || outs[slot] == None {
				return nil, &NoRule{
					Node: j.labelOf(n), Op: n.Op, Value: j.g.ValueName(v),
					Why: "this output of the function body is not made",
				}
			}
			j.g.Values[v].Def = graph.NoNode
			same := &graph.Node{Name: j.nodeName("Identity"), Op: "Identity", Inputs: []Value{outs[slot]},
				Outputs: []Value{v}}
			if err := j.g.AddNode(same); err != nil {
				return nil, err
			}
			if err := j.types.Node(same); err != nil {
				return nil, err
			}
		}
		j.out.Changes = append(j.out.Changes,
			fmt.Sprintf("node %q (%s) is replaced by the %d nodes that define it",
				j.labelOf(n), n.Op, len(j.g.Nodes)-first))
		for i := first; i < len(j.g.Nodes); i++ {
			j.g.Nodes[i].InheritStages(n)
			out = append(out, graph.NodeID(i))
		}
		for i := range n.Outputs {
			n.Outputs[i] = None // the node is dropped when the graph is arranged
		}
	}
	j.node = nil
	if len(j.out.Changes) > 0 {
		out = j.dropSequences(out)
	}
	return out, nil
}

func (j *joint) ctx(n *graph.Node) *Ctx {
	info := opInfo(n)
	j.node = n
	return &Ctx{Node: n, Version: info.VersionOf(n, graph.OpsetVersion(j.m.Opsets, info.Domain)), emitter: emitter{j}}
}

// seed gives the losses their gradients: their weight, or a graph input, times the scale.
func (j *joint) seed(losses []lossValue, scaleName string) error {
	j.prefix = "/grad/"
	e := &emitter{j}
	scale := None
	if scaleName != "" {
		if !j.taken.TakeValue(scaleName) {
			return fmt.Errorf("the graph has a value %q already, the name for the loss scale", scaleName)
		}
		scale = j.g.Value(scaleName)
		if err := j.g.AddInput(graph.Decl{Value: scale, Type: graph.Tensor(graph.Float32, graph.Dims())}); err != nil {
			return err
		}
		j.out.LossScale = scaleName
	}
	for _, l := range losses {
		j.grow()
		j.owner = j.g.Nodes[j.g.Values[l.value].Def]
		var g Value
		switch w := l.Weight; {
		case l.Seed:
			g = j.newValue(l.Name + SeedSuffix)
			if err := j.g.AddInput(graph.Decl{Value: g, Type: e.Type(l.value)}); err != nil {
				return err
			}
			if len(losses) == 1 {
				j.out.LossGrad = j.g.ValueName(g)
			}
			if w != 0 && w != 1 {
				g = e.Mul(g, e.Scalar(w, g))
			}
		default:
			if w == 0 {
				w = 1
			}
			g = e.Scalar(w, l.value)
			if dims, _ := e.Dims(l.value); len(dims) > 0 {
				g = e.Reshape(g, e.ShapeOf(l.value))
			}
		}
		if scale != None {
			g = e.Mul(g, e.Cast(scale, e.DType(g)))
		}
		if j.weighed {
			g, j.out.seeded = e.Mul(g, e.Cast(j.weight, e.DType(g))), true
		}
		j.addGrad(l.value, g)
	}
	j.owner = nil
	return nil
}

// sweep runs the rules from the last node to the first.
func (j *joint) sweep(order graph.Order) error {
	if err := j.refuseUnknown(order); err != nil {
		return err
	}
	fused := j.fuse(order)
	for _, id := range slices.Backward(order) {
		n := j.g.Nodes[id]
		wanted := None
		for _, v := range n.Outputs {
			if v != None && j.hasGrad(v) && j.requires[v] {
				wanted = v
			}
		}
		if wanted == None {
			continue
		}
		if f := fused[id]; f != nil {
			j.prefix, j.node = graph.Nested(j.base, j.labelOf(n)+"_grad/"), n
			j.addGrad(f.Input(), f.row.rule(f))
			continue
		}
		row := Of(n.Kind)
		if row.Rule == nil {
			why := row.Why
			if fault := n.Fault(); fault != nil {
				why = fault.Error()
			}
			return &NoRule{Node: j.labelOf(n), Op: n.Op, Value: j.firstWanted(n), Why: why}
		}
		j.prefix = graph.Nested(j.base, j.labelOf(n)+"_grad/")
		c := j.cutNode(n)
		if c == nil {
			c = j.ctx(n)
		}
		j.refuseMissing(c)
		row.Rule(c)
		j.refuseGaps(c)
	}
	return nil
}

// refuseUnknown returns a *NoRule for the first node of an unknown operator on the way of a wanted
// gradient. Without it the rule of a reader would be blamed for the unknown type of its operand.
func (j *joint) refuseUnknown(order graph.Order) error {
	for _, id := range order {
		n := j.g.Nodes[id]
		wanted := func(v Value) bool { return v != None && j.requires[v] }
		if n.Kind != 0 || n.Fault() != nil || !slices.ContainsFunc(n.Outputs, wanted) {
			continue
		}
		return &NoRule{Node: j.labelOf(n), Op: n.Op, Value: j.firstWanted(n),
			Why: fmt.Sprintf("memopt knows no operator %q of domain %q", n.Op, cmp.Or(n.Domain, "ai.onnx"))}
	}
	return nil
}

// firstWanted names an input whose gradient is wanted; "" before that is known.
func (j *joint) firstWanted(n *graph.Node) string {
	for slot, v := range n.Inputs {
		if j.differentiable(n, slot) && int(v) < len(j.requires) && j.requires[v] {
			return j.g.ValueName(v)
		}
	}
	return ""
}

// finish makes the gradients outputs, under their names.
func (j *joint) finish(wrt []Value) error {
	j.node = nil
	j.prefix = "/grad/"
	e := &emitter{j}
	for _, v := range wrt {
		name := j.g.ValueName(v)
		g := j.gradOf(v)
		if g == None {
			j.out.Unreached = append(j.out.Unreached, name)
			g = e.Zeros(v)
		}
		j.out.Wrt = append(j.out.Wrt, name)
		what := fmt.Sprintf("the gradient of %q", name)
		if err := j.addOutput(name+GradSuffix, g, what); err != nil {
			return err
		}
	}
	return nil
}
