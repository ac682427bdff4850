package live

import (
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/op"
)

// Roles says which values of a training graph hold gradients of parameters and which the state of an
// optimizer, and which nodes update. They follow from states, operators and names; other values have
// no role.
//
// A state whose old value the forward half reads is a weight; the others, such as moments, are the
// optimizer's. An update is a backward node that reads these, or combines a weight elementwise with
// another operand into the weight's next value, and each dependent of such a node. The other
// operands of updates, and backward nodes made in the form of the result, are gradients. An output
// NAME_grad of the form of the persistent value NAME is one as well.
type Roles struct {
	State    []bool // by value: it is an input that holds state of the optimizer
	Gradient []bool // by value: it is, or accumulates, the gradient of a parameter
	Update   []bool // by node
}

// gradientSuffix ends the name of a parameter's gradient: that of w is w_grad.
const gradientSuffix = "_grad"

// roleFinder finds roles.
type roleFinder struct {
	g        *graph.Graph
	backward []bool
	order    graph.Order
	weights  []graph.ValueID // by value: the weight whose next value it leads to alone
	source   []graph.ValueID // by value: the value that it shows
	old      []bool          // by value: it is the old value of a weight
	tainted  []bool          // by node: it depends on old values as updates do
	roles    *Roles
}

// many marks values that lead to the next values of several weights.
const many graph.ValueID = -2

// FindRoles finds the roles in a graph. backward marks its backward nodes (Split), and order is one
// of its orders.
func FindRoles(g *graph.Graph, states []State, backward []bool, order graph.Order) *Roles {
	n := len(g.Values)
	f := &roleFinder{g: g, backward: backward, order: order,
		weights: make([]graph.ValueID, n), source: make([]graph.ValueID, n),
		old: make([]bool, n), tainted: make([]bool, len(g.Nodes)),
		roles: &Roles{make([]bool, n), make([]bool, n), make([]bool, len(g.Nodes))}}
	f.findSources()
	f.sortStates(states)
	f.taint()
	f.markGradients()
	f.markNamed()
	f.markUpdates()
	return f.roles
}

// findSources follows views, forward.
func (f *roleFinder) findSources() {
	for v := range f.source {
		f.source[v] = graph.ValueID(v)
	}
	for _, id := range f.order {
		n := f.g.Nodes[id]
		if out, in := n.Output(0), n.Input(0); op.Of(n.Kind).View && out != graph.NoValue && in != graph.NoValue {
			f.source[out] = f.source[in]
		}
	}
}

// sortStates tells weights from the optimizer's states, and finds the weights whose next values
// depend on each value. If the backward half updates no weight, states are accumulated gradients: the
// next running statistics of a norm come from the forward half.
func (f *roleFinder) sortStates(states []State) {
	for v := range f.weights {
		f.weights[v] = graph.NoValue
	}
	uses, updated := graph.NewUses(f.g), false
	for _, s := range states {
		forward := func(u graph.Use) bool { return !f.backward[u.Node] }
		if slices.ContainsFunc(uses.Of(s.In), forward) {
			f.old[s.In], f.weights[s.Out] = true, s.In
			updated = updated || f.makesBackward(s.Out)
		} else {
			f.roles.State[s.In] = true
		}
	}
	if !updated {
		f.roles.State, f.roles.Gradient = f.roles.Gradient, f.roles.State
	}
	for _, id := range slices.Backward(f.order) {
		n := f.g.Nodes[id]
		to := graph.NoValue
		for _, v := range n.Outputs {
			if v != graph.NoValue && !f.single(v) {
				to = joined(to, f.weights[v])
			}
		}
		for _, list := range [...][]graph.ValueID{n.Inputs, n.Captures()} {
			for _, v := range list {
				if v != graph.NoValue {
					f.weights[v] = joined(f.weights[v], to)
				}
			}
		}
	}
}

// makesBackward reports whether a node of the backward half makes a value.
func (f *roleFinder) makesBackward(v graph.ValueID) bool {
	def := f.g.Values[v].Def
	return def != graph.NoNode && f.backward[def]
}

// joined is where something leads that leads to a and to b.
func joined(a, b graph.ValueID) graph.ValueID {
	switch {
	case a == graph.NoValue || a == b:
		return b
	case b == graph.NoValue:
		return a
	}
	return many
}

// single reports whether a value has one element: such values, a norm or a factor, join all updates.
func (f *roleFinder) single(v graph.ValueID) bool {
	n, ok := f.g.Values[v].Type.Shape.Elements().Const()
	return ok && n == 1
}

// taint marks the nodes that depend on old values as updates do.
func (f *roleFinder) taint() {
	for _, id := range f.order {
		if f.backward[id] {
			f.tainted[id] = slices.ContainsFunc(f.g.Nodes[id].Inputs, func(v graph.ValueID) bool {
				return v != graph.NoValue && (f.holdsState(v) || f.fromUpdate(v) || f.updatesWeight(id, v))
			})
		}
	}
}

// holdsState reports whether a value shows the old value of a state that is no weight.
func (f *roleFinder) holdsState(v graph.ValueID) bool {
	s := f.source[v]
	return f.g.Values[s].Def == graph.NoNode && (f.roles.State[s] || f.roles.Gradient[s])
}

// fromUpdate reports whether a tainted node makes a value.
func (f *roleFinder) fromUpdate(v graph.ValueID) bool {
	def := f.g.Values[v].Def
	return def != graph.NoNode && f.tainted[def]
}

// updatesWeight reports whether a node joins the weight that a value shows with something for the
// weight's next value.
func (f *roleFinder) updatesWeight(id graph.NodeID, v graph.ValueID) bool {
	n, w := f.g.Nodes[id], f.source[v]
	if !f.old[w] {
		return false
	}
	info, out := op.Of(n.Kind), n.Output(0)
	if len(info.States) > 0 {
		return true
	}
	return len(info.InPlace) > 0 && out != graph.NoValue && f.weights[out] == w && f.alike(out, w)
}

// alike reports whether two values have the same dims.
func (f *roleFinder) alike(v, w graph.ValueID) bool {
	return sameShape(f.g.Values[v].Type.Shape, f.g.Values[w].Type.Shape)
}

// markGradients marks the operands of updates, and the elementwise operands of these: a gradient
// that is scaled is still one.
func (f *roleFinder) markGradients() {
	for _, id := range slices.Backward(f.order) {
		n := f.g.Nodes[id]
		out := n.Output(0)
		switch {
		case out == graph.NoValue:
		case f.tainted[id]:
			for _, v := range n.Inputs {
				if f.mayBeGradient(v) && f.likeAnOutput(v, n) {
					f.roles.Gradient[v] = true
				}
			}
		case f.roles.Gradient[out]:
			f.markOperands(n)
		}
	}
}

// mayBeGradient reports whether a backward node that is no update makes a value of floats.
func (f *roleFinder) mayBeGradient(v graph.ValueID) bool {
	if v == graph.NoValue || f.g.Values[v].Def == graph.NoNode || !f.g.Values[v].Type.DType.IsFloat() {
		return false
	}
	def := f.g.Values[v].Def
	return f.backward[def] && !f.tainted[def] && !f.single(v) && !Persistent(f.g, v)
}

// likeAnOutput reports whether a node has an output of a value's dims.
func (f *roleFinder) likeAnOutput(v graph.ValueID, n *graph.Node) bool {
	return slices.ContainsFunc(n.Outputs, func(out graph.ValueID) bool {
		return out != graph.NoValue && f.alike(v, out)
	})
}

// markOperands marks the operands that a gradient is a view, a cast, a multiple or a sum of: parts
// of the gradient of one weight are gradients as well.
func (f *roleFinder) markOperands(n *graph.Node) {
	info, alone := op.Of(n.Kind), f.operands(n) == 1
	for i, v := range n.Inputs {
		switch {
		case !f.mayBeGradient(v):
		case info.View && i == 0, alone && info.Has(op.CastRole),
			slices.Contains(info.InPlace, i) && f.alike(v, n.Output(0)) && (alone || f.weights[v] >= 0):
			f.roles.Gradient[v] = true
		}
	}
}

// operands counts the inputs of a node that have more than one element.
func (f *roleFinder) operands(n *graph.Node) (count int) {
	for _, v := range n.Inputs {
		if v != graph.NoValue && !f.single(v) {
			count++
		}
	}
	return count
}

// markNamed marks outputs that are called the gradients of persistent values.
func (f *roleFinder) markNamed() {
	for _, d := range f.g.Outputs {
		name, ok := strings.CutSuffix(f.g.ValueName(d.Value), gradientSuffix)
		if !ok {
			continue
		}
		p, ok := f.g.Lookup(name)
		if ok && Persistent(f.g, p) && f.alike(p, d.Value) && !Persistent(f.g, d.Value) {
			f.roles.Gradient[d.Value] = true
		}
	}
}

// markUpdates marks the dependents of old values as updates, and the values that readers make of a
// complete gradient: its norm, for example.
func (f *roleFinder) markUpdates() {
	update := f.roles.Update
	for _, id := range f.order {
		if !f.backward[id] {
			continue
		}
		n := f.g.Nodes[id]
		part := slices.ContainsFunc(n.Outputs, func(v graph.ValueID) bool {
			return v != graph.NoValue && f.roles.Gradient[v]
		})
		update[id] = f.tainted[id] || slices.ContainsFunc(n.Inputs, func(v graph.ValueID) bool {
			if v == graph.NoValue {
				return false
			}
			def := f.g.Values[v].Def
			return def != graph.NoNode && update[def] || f.roles.Gradient[v] && f.weights[v] >= 0 && !part
		})
	}
}
