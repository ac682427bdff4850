package op

import (
	"fmt"

	"memopt/graph"
	"memopt/symbolic"
)

// Body is what inference found inside a subgraph.
type Body struct {
	Node   graph.NodeID // that holds it
	Attr   string       // under which name
	Result *Result      // its IDs are the subgraph's own
}

// body is a subgraph on its way through inference.
type body struct {
	c     *Ctx
	attr  string
	g     *graph.Graph
	order graph.Order
	inf   *inference // of the latest run
}

// body returns the subgraph attribute, with an Errorf where it is missing or has no order.
func (c *Ctx) body(attr string) *body {
	g := c.Node.GraphAttr(attr)
	if g == nil {
		c.Errorf("lacks the attribute %q, a graph", attr)
		return nil
	}
	order, err := graph.Topological(g)
	if err != nil {
		c.Errorf("%s: %v", attr, err)
		return nil
	}
	return &body{c: c, attr: attr, g: g, order: order}
}

// wantCounts checks the numbers of the body's inputs and outputs.
func (b *body) wantCounts(inputs, outputs int) bool {
	if len(b.g.Inputs) != inputs {
		b.c.Errorf("%s has %d inputs, wanted %d", b.attr, len(b.g.Inputs), inputs)
	} else if len(b.g.Outputs) != outputs {
		b.c.Errorf("%s has %d outputs, wanted %d", b.attr, len(b.g.Outputs), outputs)
	}
	return !b.c.Failed()
}

// run infers the body with the given types and contents of its inputs. The error is that of the
// node inside which the types contradict.
func (b *body) run(inputs []graph.Type, contents [][]symbolic.Expr) error {
	b.inf = newInference(b.g, b.c.inf.opsets, b.c.inf)
	// The body's inputs are named by its own file text; only symbols that come
	// from outside mean anything there.
	b.inf.inputs = b.c.inf.inputs
	for i, d := range b.g.Inputs {
		v := &b.g.Values[d.Value]
		v.Type, _ = b.inf.merge(inputs[i], b.foreign(d.Type))
		if i < len(contents) && v.Type.Form == graph.FormTensor {
			b.inf.res.contents[d.Value] = contents[i]
		}
	}
	return b.inf.run(b.order)
}

// foreign returns a type that the body's text states without the symbols that mean nothing
// outside of it.
func (b *body) foreign(t graph.Type) graph.Type {
	return withoutSymbols(t, b.c.inf.inputs)
}

// withoutSymbols makes dims unknown that mention symbols other than the allowed ones.
func withoutSymbols(t graph.Type, allowed map[string]bool) graph.Type {
	if t.Elem != nil {
		elem := withoutSymbols(*t.Elem, allowed)
		t.Elem = &elem
	}
	if !t.Shape.Ranked {
		return t
	}
	t.Shape = graph.Dims(append([]symbolic.Expr(nil), t.Shape.Dims...)...)
	for i, d := range t.Shape.Dims {
		for _, s := range d.Symbols() {
			if !allowed[s] {
				t.Shape.Dims[i] = symbolic.Unknown()
				break
			}
		}
	}
	return t
}

// outer collects the symbols that may leave the body: the caller's, and those that came in by
// captured values and inputs.
func (b *body) outer() map[string]bool {
	allowed := make(map[string]bool, len(b.c.inf.inputs))
	for s := range b.c.inf.inputs {
		allowed[s] = true
	}
	for i := range b.g.Values {
		v := &b.g.Values[i]
		if v.Outer == graph.NoValue && !v.Input {
			continue
		}
		for _, d := range v.Type.Shape.Dims {
			for _, s := range d.Symbols() {
				allowed[s] = true
			}
		}
		for _, e := range b.inf.res.contents[i] {
			for _, s := range e.Symbols() {
				allowed[s] = true
			}
		}
	}
	return allowed
}

// outputs returns the types and contents of the body's outputs, fit for use outside.
func (b *body) outputs() (types []graph.Type, contents [][]symbolic.Expr) {
	allowed := b.outer()
	for _, d := range b.g.Outputs {
		types = append(types, withoutSymbols(b.g.Values[d.Value].Type, allowed))
		contents = append(contents, b.inf.res.contents[d.Value])
	}
	return types, contents
}

// keep records what the latest run found. A body with unknown operators makes the node that
// holds it one whose outputs may be unknown.
func (b *body) keep() {
	res := b.c.inf.res
	res.Bodies = append(res.Bodies, Body{b.c.Node.ID, b.attr, b.inf.res})
	if n := len(res.NoRow); len(b.inf.res.NoRow) > 0 && (n == 0 || res.NoRow[n-1] != b.c.Node.ID) {
		res.NoRow = append(res.NoRow, b.c.Node.ID)
	}
}

// truth returns the value of bool value id where it is the same in every run.
func (inf *inference) truth(id graph.ValueID) (value, known bool) {
	if id == graph.NoValue {
		return false, false
	}
	if e := inf.res.contents[id]; len(e) == 1 {
		if n, ok := e[0].Const(); ok {
			return n != 0, true
		}
	}
	return false, false
}

// ifRule takes the branch that the condition picks, or, where it may be either, what both have in
// common. A branch that contradicts the shapes at hand is one that this model does not take:
// exporters write If(dim == 1, Squeeze, Identity); only two such branches are an error.
func ifRule(c *Ctx) {
	if !c.rankIn(0, 0, 1) || !c.want(0, bools) {
		return
	}
	branches := []*body{c.body("then_branch"), c.body("else_branch")}
	for _, b := range branches {
		if b == nil || !b.wantCounts(0, len(c.Node.Outputs)) {
			return
		}
	}
	first, last := 0, 1
	if taken, known := c.inf.truth(c.Node.Inputs[0]); known {
		if first = 1; taken {
			first = 0
		}
		last = first
	}
	var errs []error
	var taken []*body
	for _, b := range branches[first : last+1] {
		if err := b.run(nil, nil); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", b.attr, err))
			continue
		}
		b.keep()
		taken = append(taken, b)
	}
	if len(taken) == 0 {
		c.Errorf("%v", errs[0])
		return
	}
	c.joinBranches(taken)
}

func (c *Ctx) joinBranches(taken []*body) {
	types, contents := taken[0].outputs()
	if len(taken) > 1 {
		others, otherContents := taken[1].outputs()
		for k := range types {
			types[k] = joinTypes(types[k], others[k])
			contents[k] = joinContents(contents[k], otherContents[k])
		}
	}
	for k, t := range types {
		c.Out(k, t)
		if t.DType.IsInteger() || t.DType == graph.Bool {
			c.SetContents(k, contents[k])
		}
	}
}

// joinContents keeps the elements that are equal.
func joinContents(a, b []symbolic.Expr) []symbolic.Expr {
	if a == nil || len(a) != len(b) {
		return nil
	}
	out := make([]symbolic.Expr, len(a))
	for i := range a {
		if out[i] = a[i]; !a[i].Equal(b[i]) {
			out[i] = symbolic.Unknown()
		}
	}
	return out
}

// steady runs a body until the types of its carried values no longer change: what differs from one
// iteration to the next is unknown. fixed are the types of the other inputs, in front (before) and
// behind the carried ones; from is the body's first carried output.
//
// Each round makes at least one thing unknown that was known: a dim, a rank, a type. So the
// sum of ranks, and one round for each value's rank and type, bound the rounds.
func (b *body) steady(before, carried, behind []graph.Type, from int) ([]graph.Type, bool) {
	rounds := 2
	for _, t := range carried {
		rounds += len(t.Shape.Dims) + 4
	}
	for range rounds {
		in := append(append(append([]graph.Type(nil), before...), carried...), behind...)
		if err := b.run(in, nil); err != nil {
			b.c.Errorf("%s: %v", b.attr, err)
			return nil, false
		}
		out, _ := b.outputs()
		changed := false
		for k := range carried {
			t := joinTypes(carried[k], out[from+k])
			if !sameType(t, carried[k]) {
				carried[k], changed = t, true
			}
		}
		if !changed {
			b.keep()
			return out, true
		}
	}
	b.c.Errorf("%s: the types of the carried values did not settle after %d iterations", b.attr, rounds)
	return nil, false
}

// loopRule: inputs are the trip count, the condition and the carried values; the body's inputs the
// iteration number, the condition and the carried values; the body's outputs the condition, the
// carried values and the scan outputs, which the node stacks along a new first axis.
func loopRule(c *Ctx) {
	b := c.body("body")
	if b == nil || !c.rankIn(0, 0, 1) || !c.rankIn(1, 0, 1) {
		return
	}
	n := len(c.Node.Inputs) - 2
	if n < 0 {
		n = 0
	}
	scans := len(b.g.Outputs) - 1 - n
	if !b.wantCounts(2+n, 1+n+max(scans, 0)) {
		return
	}
	if len(c.Node.Outputs) != n+scans {
		c.Errorf("has %d outputs, wanted %d: %d carried values and %d scan outputs", len(c.Node.Outputs), n+scans, n, scans)
		return
	}
	carried := make([]graph.Type, n)
	for k := range carried {
		carried[k] = c.In(2 + k)
	}
	scalar := []graph.Type{graph.Tensor(graph.Int64, graph.Dims()), graph.Tensor(graph.Bool, graph.Dims())}
	for i := range scalar {
		// The file may also say [1]; both are one element.
		if t := b.g.Values[b.g.Inputs[i].Value].Type; t.Shape.Rank() == 1 {
			scalar[i].Shape = graph.Ints(1)
		}
	}
	out, ok := b.steady(scalar, carried, nil, 1)
	if !ok {
		return
	}
	for k, t := range carried {
		c.Out(k, t)
	}
	trips := b.trips()
	for k := n; k < n+scans; k++ {
		t := out[1+k]
		if t.Shape.Ranked {
			t.Shape = inserted(t.Shape, 0, trips)
		}
		c.Out(k, t)
	}
}

// trips returns the number of iterations of a Loop: the trip count, if no condition ends it before.
func (b *body) trips() symbolic.Expr {
	c := b.c
	count, ok := c.Contents(0)
	if !ok || len(count) != 1 || !b.alwaysGoesOn() {
		return symbolic.Unknown()
	}
	if n, isConst := count[0].Const(); isConst {
		return symbolic.Const(max(0, n))
	}
	return count[0]
}

// alwaysGoesOn reports whether the condition is true in every iteration: true or absent at first,
// and the body's condition true or passed on.
func (b *body) alwaysGoesOn() bool {
	c := b.c
	if c.Has(1) {
		if v, known := c.inf.truth(c.Node.Inputs[1]); !known || !v {
			return false
		}
	}
	out := b.g.Outputs[0].Value
	for out != graph.NoValue {
		if out == b.g.Inputs[1].Value {
			return true
		}
		if v, known := b.inf.truth(out); known {
			return v
		}
		def := b.g.Values[out].Def
		if def == graph.NoNode || b.g.Nodes[def].Kind != Identity {
			return false
		}
		out = b.g.Nodes[def].Input(0)
	}
	return false
}

// scan is what the attributes of a Scan say.
type scan struct {
	states, inputs, outputs int
	first                   int // node input that is the first state
	inAxes, outAxes         []int64
}

// scanRule: inputs are states and then tensors that are cut into slices, outputs the final states
// and then stacked slices. Version 8 has a batch axis in front of everything and an input with lengths.
func scanRule(c *Ctx) {
	b := c.body("body")
	if b == nil {
		return
	}
	s, ok := c.scan(b)
	if !ok {
		return
	}
	old := c.Version < 9
	carried, slices := make([]graph.Type, s.states), make([]graph.Type, s.inputs)
	batch, steps := symbolic.Unknown(), symbolic.Unknown()
	for k := range carried {
		t := c.In(s.first + k)
		if old {
			t.Shape, batch = c.cut(t.Shape, 0, batch)
		}
		carried[k] = t
	}
	for k := range slices {
		t := c.In(s.first + s.states + k)
		if old {
			t.Shape, batch = c.cut(t.Shape, 0, batch)
		}
		t.Shape, steps = c.cut(t.Shape, s.inAxes[k], steps)
		slices[k] = t
	}
	if c.Failed() {
		return
	}
	out, ok := b.steady(nil, carried, slices, 0)
	if !ok {
		return
	}
	for k := range out {
		t := out[k]
		if k < s.states {
			t = carried[k]
		} else {
			t.Shape = c.stack(t.Shape, s.outAxes[k-s.states], steps)
		}
		if old {
			t.Shape = c.stack(t.Shape, 0, batch)
		}
		c.Out(k, t)
	}
}

// scan reads and checks the attributes and counts.
func (c *Ctx) scan(b *body) (s scan, ok bool) {
	if c.Version < 9 {
		s.first = 1
	}
	given := len(c.Node.Inputs) - s.first
	n := c.NeedInt("num_scan_inputs")
	if c.Failed() {
		return s, false
	}
	if n < 1 || n > int64(given) {
		c.Errorf("attribute num_scan_inputs is %d, wanted at least 1 and at most the %d inputs", n, given)
		return s, false
	}
	s.inputs, s.states = int(n), given-int(n)
	s.outputs = len(b.g.Outputs) - s.states
	if !b.wantCounts(given, s.states+max(s.outputs, 0)) {
		return s, false
	}
	if len(c.Node.Outputs) != len(b.g.Outputs) {
		c.Errorf("has %d outputs, wanted %d, as many as its body", len(c.Node.Outputs), len(b.g.Outputs))
		return s, false
	}
	in, out := "scan_input_directions", "scan_output_directions"
	if c.Version < 9 {
		in = "directions"
	}
	c.directions(in, s.inputs)
	c.directions(out, s.outputs)
	s.inAxes = c.scanAxes("scan_input_axes", s.inputs)
	s.outAxes = c.scanAxes("scan_output_axes", s.outputs)
	return s, !c.Failed()
}

func (c *Ctx) scanAxes(name string, n int) []int64 {
	axes := c.listAttr(name)
	if axes == nil {
		return make([]int64, n)
	}
	if len(axes) != n {
		c.Errorf("attribute %s has %d entries, wanted %d", name, len(axes), n)
	}
	return axes
}

func (c *Ctx) directions(name string, n int) {
	list := c.listAttr(name)
	if list != nil && len(list) != n {
		c.Errorf("attribute %s has %d entries, wanted %d", name, len(list), n)
	}
	for _, d := range list {
		if d != 0 && d != 1 {
			c.Errorf("attribute %s is %v; a direction is 0 or 1", name, list)
		}
	}
}

// cut removes an axis from a shape and unifies its dim with what other shapes said of it.
func (c *Ctx) cut(s graph.Shape, axis int64, dim symbolic.Expr) (graph.Shape, symbolic.Expr) {
	if !s.Ranked {
		return s, dim
	}
	at, ok := c.Axis("the axis to cut", axis, len(s.Dims))
	if !ok {
		return graph.Shape{}, dim
	}
	return without(s, at), c.Unify("the length of the scanned inputs", dim, s.Dims[at])
}

// stack is the inverse of cut.
func (c *Ctx) stack(s graph.Shape, axis int64, dim symbolic.Expr) graph.Shape {
	if !s.Ranked {
		return s
	}
	at, ok := c.Axis("the axis to stack along", axis, len(s.Dims)+1)
	if !ok {
		return graph.Shape{}
	}
	return inserted(s, at, dim)
}

// bodyFLOPs returns the operations of one run of a subgraph.
func (c *Ctx) bodyFLOPs(attr string) symbolic.Expr {
	total := symbolic.Const(0)
	for _, b := range c.inf.res.Bodies {
		if b.Node != c.Node.ID || b.Attr != attr {
			continue
		}
		for _, n := range FLOPs(c.Node.GraphAttr(attr), c.inf.opsets, b.Result) {
			total = total.Add(n)
		}
	}
	return total
}

// ifFLOPs is the dearer branch.
func ifFLOPs(c *Ctx) symbolic.Expr {
	return symbolic.Max(c.bodyFLOPs("then_branch"), c.bodyFLOPs("else_branch"))
}

// loopFLOPs is the body's cost times the trip count, unknown where a condition may end the loop
// before it.
func loopFLOPs(c *Ctx) symbolic.Expr {
	count, ok := c.Contents(0)
	if !ok || len(count) != 1 {
		return symbolic.Unknown()
	}
	return count[0].Mul(c.bodyFLOPs("body"))
}

// scanFLOPs is the body's cost times the number of slices.
func scanFLOPs(c *Ctx) symbolic.Expr {
	first := len(c.Node.Inputs) - int(c.Int("num_scan_inputs", 1))
	s := c.Shape(first)
	axis := int64(0)
	if axes := c.listAttr("scan_input_axes"); len(axes) > 0 {
		axis = axes[0]
	}
	if c.Version < 9 {
		return mul(dimAt(s, 0), dimAt(s, 1), c.bodyFLOPs("body"))
	}
	return dimAt(s, int(axis)).Mul(c.bodyFLOPs("body"))
}
