package op

import (
	littleendian "encoding/binary"
	"math"
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// Failure says whether the run of a node may end with an error because of the data of a step.
type Failure uint8

const (
	// NeverFails: it cannot fail once all nodes before it have run.
	NeverFails Failure = iota
	// FailsOnce: it may fail, but not when it is recomputed from the same inputs: it checks
	// elements (Checks) whose values are unknown before the run.
	FailsOnce
	// FailsAnytime: it makes values whose size depends on data, so memory for them may be short, or
	// nodes in its subgraphs may fail. A size that depends on shapes alone is the same in every step:
	// there was memory for it in the first one.
	FailsAnytime
)

// Failures tells which nodes, in an order, may fail by data. A node without a row is reported as one
// that does not fail: no executor of memopt's runs it.
//
// Elements are right where the file has them, where they depend on shapes alone, which are the same
// in every step, or where an earlier node has looked at them with the same bounds: the gradient of a
// Gather reads the indices that the Gather has read.
func Failures(g *graph.Graph, r *Result, order graph.Order, env symbolic.Env) []Failure {
	return failuresAsking(g, r, order, env, nil)
}

// Asked answers whether x ≤ y, which holds, or does not, at the bindings of a question.
type Asked func(x, y symbolic.Expr, holds bool) bool

// failuresAsking is Failures with answers to the comparisons that its result depends on; ask may be
// nil.
func failuresAsking(g *graph.Graph, r *Result, order graph.Order, env symbolic.Env, ask Asked) []Failure {
	b := newBounder(g, r, env)
	b.ask = ask
	failures := make([]Failure, len(g.Nodes))
	for _, id := range order {
		failures[id] = b.step(g.Nodes[id])
	}
	return failures
}

// newBounder makes a bounder that has seen no node.
func newBounder(g *graph.Graph, r *Result, env symbolic.Env) *bounder {
	b := &bounder{g: g, r: r, env: env, source: make([]graph.ValueID, len(g.Values)),
		fixed: make([]bool, len(g.Values)), steady: make([]bool, len(g.Values)),
		known: make([]elementBounds, len(g.Values)), accepted: make([]graph.Kind, len(g.Values))}
	for v := range g.Values {
		b.source[v] = graph.ValueID(v)
		b.fixed[v] = Contents(g, graph.ValueID(v)) != nil
		b.steady[v] = b.sized(graph.ValueID(v))
	}
	return b
}

// step goes over the next node and says whether it may fail by data.
func (b *bounder) step(n *graph.Node) Failure {
	b.measure(n)
	failure := b.fails(n)
	b.learn(n)
	b.follow(n)
	return failure
}

// bounder follows the known bounds of the elements of values, node by node.
type bounder struct {
	g      *graph.Graph
	r      *Result
	env    symbolic.Env
	source []graph.ValueID // by value: a value of the same elements, in other places or of a wider type
	fixed  []bool          // by value: its elements depend on the file and on shapes alone
	steady []bool          // by value: so does its size, known or not: it is the same in every step
	known  []elementBounds // by value that is its own source
	// accepted has the kind of the last node that has looked at the elements and found them right, by
	// value that is its own source.
	accepted []graph.Kind
	ask      Asked // answers comparisons; nil: the bindings do
}

// shape evaluates a value's shape; nil where it is not known.
func (b *bounder) shape(v graph.ValueID) []end {
	if v == graph.NoValue || !b.g.Values[v].Type.Shape.Ranked {
		return nil
	}
	dims := b.g.Values[v].Type.Shape.Dims
	shape := make([]end, len(dims))
	for i, d := range dims {
		n, err := d.Eval(b.env)
		if err != nil {
			return nil
		}
		shape[i] = end{n, d}
	}
	return shape
}

// sized reports whether the size of a value is known before a step.
func (b *bounder) sized(v graph.ValueID) bool { return b.shape(v) != nil }

// fails says whether a node may fail by data.
func (b *bounder) fails(n *graph.Node) Failure {
	switch {
	case n.Kind == Unknown:
		return NeverFails
	case Of(n.Kind).Control != NoControl && b.bodiesFail(n):
		return FailsAnytime
	}
	for _, v := range n.Outputs {
		if v != graph.NoValue && !b.steady[v] {
			return FailsAnytime
		}
	}
	for i := range checks[n.Kind] {
		if !b.right(n, &checks[n.Kind][i]) {
			return FailsOnce
		}
	}
	return NeverFails
}

// bodiesFail reports whether a node in one of the subgraphs of a node may fail by data.
func (b *bounder) bodiesFail(n *graph.Node) bool {
	found := 0
	for _, body := range b.r.Bodies {
		if body.Node != n.ID {
			continue
		}
		g := n.GraphAttr(body.Attr)
		order, err := graph.Topological(g)
		if err != nil {
			return true
		}
		for _, f := range failuresAsking(g, body.Result, order, b.env, b.ask) {
			if f != NeverFails {
				return true
			}
		}
		found++
	}
	return found == 0
}

// right reports whether it is known that elements are as a check wants them.
func (b *bounder) right(n *graph.Node, c *Check) bool {
	v := n.Input(c.In)
	if v == graph.NoValue {
		return true
	}
	switch t := b.g.Values[v].Type.DType; {
	case !c.Floats && t.IsFloat() || c.AnyInteger && t.IsInteger():
		return true
	case c.Within != nil:
		return b.within(b.of(v), c.Within(b, n))
	case c.By != Unknown:
		def := b.g.Values[b.source[v]].Def
		return def != graph.NoNode && b.g.Nodes[def].Kind == c.By
	}
	_, inferred := b.r.Contents(v)
	return b.fixed[v] || inferred || b.accepted[b.source[v]] == n.Kind
}

// of returns the bounds of a value's elements.
func (b *bounder) of(v graph.ValueID) elementBounds {
	if e := b.known[b.source[v]]; e.known {
		return e
	}
	if data := Contents(b.g, v); data != nil && data.DType == graph.Int64 && data.Source != nil {
		return contentBounds(data)
	}
	list, ok := b.r.Contents(v)
	if !ok || len(list) == 0 {
		return elementBounds{}
	}
	var e elementBounds
	for i, x := range list {
		n, err := x.Eval(b.env)
		if err != nil {
			return elementBounds{}
		}
		one := elementBounds{known: true, low: end{n, x}, high: end{n, x}}
		if e = b.joined(e, one); i == 0 {
			e = one
		}
	}
	return e
}

// contentBounds reads the bounds of contents in the file.
func contentBounds(data *graph.TensorData) elementBounds {
	raw, err := data.Source.Bytes()
	if err != nil || len(raw) < 8 || len(raw)%8 != 0 {
		return elementBounds{}
	}
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for i := 0; i < len(raw); i += 8 {
		n := int64(littleendian.LittleEndian.Uint64(raw[i:]))
		low, high = min(low, n), max(high, n)
	}
	return elementBounds{known: true, low: endAt(low), high: endAt(high)}
}

// learn notes that a node has run and thus found the elements that it checks right.
func (b *bounder) learn(n *graph.Node) {
	for i := range checks[n.Kind] {
		c := &checks[n.Kind][i]
		v := n.Input(c.In)
		switch {
		case v == graph.NoValue:
		case c.Within == nil:
			b.accepted[b.source[v]] = n.Kind
		default:
			want := c.Within(b, n)
			if now := &b.known[b.source[v]]; want.known && !b.within(*now, want) {
				*now = want
			}
		}
	}
}

// follow notes the bounds of a node's outputs.
func (b *bounder) follow(n *graph.Node) {
	out := n.Output(0)
	if out == graph.NoValue {
		return
	}
	b.fixed[out] = b.dependsOnShapes(n)
	if rule := follows[n.Kind]; rule != nil {
		rule(b, n)
	} else if Of(n.Kind).View && n.Input(0) != graph.NoValue {
		b.source[out] = b.source[n.Input(0)]
	}
}

// measure notes which outputs of a node have the same size in every step: all of them, if the sizes
// of its inputs are the same and so are their elements, except floats that no size depends on.
func (b *bounder) measure(n *graph.Node) {
	steady := n.Kind != Unknown && Of(n.Kind).Control == NoControl && len(n.Inputs) > 0
	for slot, v := range n.Inputs {
		steady = steady && (v == graph.NoValue || b.steady[v] && (b.fixed[v] || b.onlyElements(n, slot)))
	}
	for _, v := range n.Outputs {
		if v != graph.NoValue && steady {
			b.steady[v] = true
		}
	}
}

// onlyElements reports whether the elements of an input are floats that no size depends on.
func (b *bounder) onlyElements(n *graph.Node, slot int) bool {
	if !b.g.Values[n.Input(slot)].Type.DType.IsFloat() || sizedByElements[n.Kind] {
		return false
	}
	return !slices.ContainsFunc(checks[n.Kind], func(c Check) bool { return c.In == slot && c.Floats })
}

// sizedByElements has the operators whose output sizes depend on float elements, and the operators
// that call foreign code.
var sizedByElements = [NumKinds]bool{NonZero: true, Unique: true, Compress: true, NonMaxSuppression: true,
	ATen: true, PythonOp: true, PythonOpGrad: true}

// dependsOnShapes reports whether a node's outputs are the same in every step: it reads only shapes
// known before the run, and values that are the same in every step.
func (b *bounder) dependsOnShapes(n *graph.Node) bool {
	info := Of(n.Kind)
	switch {
	case info.Has(ConstantRole):
		return true
	case n.Kind == Unknown || info.Random || info.Control != NoControl || len(n.Inputs) == 0:
		return false
	}
	for _, v := range n.Inputs {
		switch {
		case v == graph.NoValue:
		case info.Has(ShapeOf) && b.steady[v]:
		case !b.fixed[v]:
			return false
		}
	}
	return true
}

// follows has the operators that move elements, or make elements within bounds.
var follows = [NumKinds]func(b *bounder, n *graph.Node){
	Transpose: sameElements, Offload: sameElements, Reload: sameElements, Expand: someElements, Slice: someElements,
	Cast: widened, Where: oneOf, ArgMax: placesAlong, ArgMin: placesAlong, TopK: placesOfTop, MaxPool: placesOfPool,
}

// sameElements: all elements of the input, in other places.
func sameElements(b *bounder, n *graph.Node) {
	if in := n.Input(0); in != graph.NoValue {
		b.source[n.Output(0)] = b.source[in]
	}
}

// someElements: no elements but those of the input.
func someElements(b *bounder, n *graph.Node) {
	if in := n.Input(0); in != graph.NoValue {
		b.known[n.Output(0)] = b.of(in)
	}
}

// widened: the elements of the input where the type holds all of them.
func widened(b *bounder, n *graph.Node) {
	in := n.Input(0)
	if in == graph.NoValue {
		return
	}
	from, to := b.g.Values[in].Type.DType, b.g.Values[n.Output(0)].Type.DType
	if to == graph.Int64 && (from == graph.Int64 || from == graph.Int32) {
		b.source[n.Output(0)] = b.source[in]
	}
}

// oneOf: elements of either branch. Where(x == c, y, x) has no c of x.
func oneOf(b *bounder, n *graph.Node) {
	cond, yes, no := n.Input(0), n.Input(1), n.Input(2)
	if cond == graph.NoValue || yes == graph.NoValue || no == graph.NoValue {
		return
	}
	rest := b.of(no)
	if def := b.g.Values[cond].Def; def != graph.NoNode && rest.orExists {
		eq := b.g.Nodes[def]
		if eq.Kind == Equal && eq.Input(0) != graph.NoValue && eq.Input(1) != graph.NoValue &&
			eq.Input(0) == no {
			c := b.of(eq.Input(1))
			rest.orExists = !(c.known && b.equal(c.low, rest.or) && b.equal(c.high, rest.or))
		}
	}
	b.known[n.Output(0)] = b.joined(b.of(yes), rest)
}

// placesAlong are those along an axis of the input.
func placesAlong(b *bounder, n *graph.Node) {
	b.known[n.Output(0)] = fromStart(indexOf(inputShape, 0, 0)(b, n))
}

// placesOfTop are those along the axis, which is the last one where no attribute names one.
func placesOfTop(b *bounder, n *graph.Node) {
	if out := n.Output(1); out != graph.NoValue {
		b.known[out] = fromStart(indexOf(inputShape, 0, -1)(b, n))
	}
}

// placesOfPool are those among all elements of the input.
func placesOfPool(b *bounder, n *graph.Node) {
	out, shape := n.Output(1), b.shape(n.Input(0))
	if out == graph.NoValue || shape == nil {
		return
	}
	count := endAt(1)
	for _, d := range shape {
		if d.n > 0 && count.n > (1<<62)/d.n {
			return
		}
		count = end{count.n * d.n, count.e.Mul(d.e)}
	}
	b.known[out] = elementBounds{known: true, high: count.plus(-1)}
}

// fromStart are bounds without places from the end.
func fromStart(e elementBounds) elementBounds {
	e.low = end{}
	return e
}
