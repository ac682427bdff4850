package autograd

import (
	"fmt"

	"memopt/graph"
	"memopt/symbolic"
)

// Value is a value of the graph; None stands for a missing one.
type Value = graph.ValueID

// None stands for a missing value: an input left out, an output without a gradient.
const None = graph.NoValue

// Rule emits the gradients of a node's inputs: for every i with Wants(i) it calls Set. At least one
// output has a gradient. A rule reports an unsupported case with Errorf.
type Rule func(c *Ctx)

// Ctx is a forward node as its rule sees it.
type Ctx struct {
	Node    *graph.Node
	Version int // schema version of its operator
	cut     *cut
	account account
	emitter
}

// In returns input i, or None if it is left out. If the value is equal to an earlier one, element
// by element, it returns that one, so that the backward half keeps one and not both. A value that
// is cheap to make from one that is kept anyway is recomputed.
func (c *Ctx) In(i int) Value {
	v := c.remade(c.j.source(c.Node.Input(i)))
	if c.cut != nil {
		return c.slice(i, v)
	}
	return v
}

// Has reports whether input i is given.
func (c *Ctx) Has(i int) bool { return c.Node.Input(i) != None }

// Out returns output i of the forward node; one that was left out is added to it.
func (c *Ctx) Out(i int) Value {
	for len(c.Node.Outputs) <= i {
		c.Node.Outputs = append(c.Node.Outputs, None)
	}
	if c.Node.Outputs[i] == None {
		c.Node.Outputs[i] = c.j.newValue(fmt.Sprintf("%s_output_%d", c.j.labelOf(c.Node), i))
		v := &c.j.g.Values[c.Node.Outputs[i]]
		v.Def, v.DefSlot = c.Node.ID, int32(i)
		c.must(c.j.types.Node(c.Node))
	}
	return c.Node.Outputs[i]
}

// Grad returns the gradient of output i, or None if no loss depends on the output.
func (c *Ctx) Grad(i int) Value {
	c.account.read = append(c.account.read, i)
	v := c.Node.Output(i)
	switch {
	case v == None:
		return None
	case c.cut != nil:
		return c.cut.g
	}
	return c.j.gradOf(v)
}

// Wants reports whether the gradient of input i is wanted.
func (c *Ctx) Wants(i int) bool {
	v := c.Node.Input(i)
	return v != None && c.j.requires[v] && c.j.differentiable(c.Node, i)
}

// Set gives input i a gradient, on top of those that it has from other readers; None says that it is
// zero. Its shape must be the input's.
func (c *Ctx) Set(i int, g Value) {
	c.account.given = append(c.account.given, i)
	if g == None || !c.Wants(i) {
		return
	}
	if c.cut != nil && c.cut.axes[i] >= 0 {
		c.setCut(i, g)
		return
	}
	x, want := c.Node.Input(i), c.j.g.Values[c.Node.Input(i)].Type
	if got := c.Type(g); got.DType != want.DType && !c.j.isQuantized(x) ||
		got.Shape.Ranked && want.Shape.Ranked && !compatible(got.Shape, want.Shape) {
		c.Errorf("the gradient of input %d (%q) is %v, wanted %v", i, c.j.g.Values[x].Name, got, want)
	}
	c.j.shardGradient(c.Node, i, g)
	c.j.accumulate(c, x, g)
}

// Sum returns the gradient that input i has from other readers so far, for a rule that adds to it by
// an operator of its own and gives the result to SetSum: that saves zeros in the input's shape, and
// a copy. It is None if there is no gradient yet, or it is not wanted.
func (c *Ctx) Sum(i int) Value {
	if !c.Wants(i) {
		return None
	}
	sum := c.j.gradOf(c.Node.Input(i))
	if sum == None || c.DType(sum) != c.DType(c.Node.Input(i)) { // a sum in float of 16 bits each
		return None
	}
	return sum
}

// SetSum sets the gradient of input i to a rule's result from Sum, or from zeros if Sum was None.
func (c *Ctx) SetSum(i int, g Value) {
	c.account.given = append(c.account.given, i)
	x := c.Node.Input(i)
	if old := c.j.grads[x]; old != None && c.DType(old) != c.DType(g) {
		c.j.addGrad(x, g)
		return
	}
	c.j.grads[x] = g
}

// compatible reports whether two shapes may be equal.
func compatible(a, b graph.Shape) bool {
	if len(a.Dims) != len(b.Dims) {
		return false
	}
	for i := range a.Dims {
		x, ok := a.Dims[i].Const()
		y, ok2 := b.Dims[i].Const()
		if ok && ok2 && x != y {
			return false
		}
	}
	return true
}

// failure carries an error out of a rule.
type failure struct{ err error }

// raise asks for a newer operator set.
type raise struct{ version int64 }

// Errorf ends the rule with an error that names the node.
func (c *Ctx) Errorf(format string, args ...any) {
	panic(failure{fmt.Errorf("node %q (%s): %w", c.j.labelOf(c.Node), c.Node.Op, fmt.Errorf(format, args...))})
}

// Unsupported ends the rule: the node is valid, but has no gradient rule for this case.
func (c *Ctx) Unsupported(format string, args ...any) {
	c.j.unsupportedAt(c.Node, fmt.Sprintf(format, args...))
}

func (j *joint) unsupportedAt(n *graph.Node, why string) {
	panic(failure{&NoRule{Node: j.labelOf(n), Op: n.Op, Value: j.firstWanted(n), Why: why}})
}

// unsupported is Unsupported for emitters on behalf of a rule.
func (j *joint) unsupported(format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	if j.node == nil {
		panic(failure{fmt.Errorf("%s%s", j.prefix, why)})
	}
	j.unsupportedAt(j.node, why)
}

// NoRule names a node that has no gradient rule.
type NoRule struct {
	Node, Op string
	Value    string // whose gradient is wanted
	Operand  string // the number of the node's input that Value is; "" where it is not about one input
	Why      string
}

// Error names the operator, the node and the value.
func (e *NoRule) Error() string {
	text := fmt.Sprintf("node %q (%s): no gradient rule", e.Node, e.Op)
	if e.Value != "" {
		text += "; the gradient of "
		if e.Operand != "" {
			text += fmt.Sprintf("input %s, ", e.Operand)
		}
		text += fmt.Sprintf("%q is wanted", e.Value)
	}
	if e.Why != "" {
		text += ": " + e.Why
	}
	return text
}

// Need makes sure that the model imports at least the given version of ONNX's operators: if it
// imports an older one, the model is converted to it and differentiated anew.
func (c *Ctx) Need(version int64) {
	if c.j.opset() < version {
		panic(raise{version})
	}
}

func (c *emitter) must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Type returns the type of a value.
func (c *emitter) Type(v Value) graph.Type { return c.j.g.Values[v].Type }

// DType returns the element type of a value.
func (c *emitter) DType(v Value) graph.DType { return c.Type(v).DType }

// Dims returns the dims of a value; ok is false where not even the rank is known.
func (c *emitter) Dims(v Value) (dims []symbolic.Expr, ok bool) {
	s := c.Type(v).Shape
	return s.Dims, s.Ranked
}

// Rank returns the rank of a value; if it is unknown, the rule ends with an error.
func (c *Ctx) Rank(v Value) int { return len(c.Ranked(v, 0)) }

// Ranked returns the dims of a value, at least as many as least says: if there are fewer, or the
// rank is unknown, the rule ends with an error.
func (e *emitter) Ranked(v Value, least int) []symbolic.Expr {
	dims, ok := e.Dims(v)
	switch name := e.j.g.Values[v].Name; {
	case !ok:
		e.j.unsupported("the rank of %q is unknown", name)
	case len(dims) < least:
		e.j.unsupported("%q has rank %d, wanted %d or more", name, len(dims), least)
	}
	return dims
}

// Ints returns the elements of an integer value that inference knows as numbers.
func (c *emitter) Ints(v Value) (ints []int64, ok bool) {
	elems, ok := c.j.types.Result().Contents(v)
	if !ok {
		return nil, false
	}
	for _, e := range elems {
		n, ok := e.Const()
		if !ok {
			return nil, false
		}
		ints = append(ints, n)
	}
	return ints, true
}

// Axis maps an axis to [0, rank).
func (c *Ctx) Axis(axis int64, rank int) int64 {
	if axis < 0 {
		axis += int64(rank)
	}
	if axis < 0 || axis >= max(int64(rank), 1) {
		c.Errorf("axis %d; the rank is %d", axis, rank)
	}
	return axis
}
