package autograd

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// The gradients of Scan and Loop: a Scan that runs the iterations from the last to the first. Each
// makes the body's forward values once more, as far as the gradients need them, from the slices and
// the states that it read; the states are stashed as further outputs of the forward node, one row
// for each iteration. Carried along are the gradients of the states, and sums of those of the
// captured values.

// repeated is a Scan or Loop as its rule sees it, or an iteration of it. Slots are those of the
// node and of the body.
type repeated struct {
	*Ctx
	body   *graph.Graph // the forward one
	states []repeatedState
	slices []repeatedSlice // of Scan
	stacks []repeatedStack
	counts []int // body inputs of Loop: the iteration's number and the condition
}

type repeatedState struct {
	nodeIn, nodeOut, bodyIn, bodyOut int
}

type repeatedSlice struct {
	nodeIn, bodyIn int
	axis           int64
	back           bool
}

type repeatedStack struct {
	nodeOut, bodyOut int
	axis             int64
	back             bool
}

// scanRule: see above. Stashes the scanned inputs, the captures of the body, and the states.
func scanRule(c *Ctx) {
	if c.Version < 9 {
		c.Unsupported("before operator set 9, Scan has a batch of sequences")
	}
	n := c.Node
	p := &repeated{Ctx: c, body: n.GraphAttr("body")}
	scanned := int(n.Int("num_scan_inputs", 0))
	states := len(n.Inputs) - scanned
	for i := range states {
		p.states = append(p.states, repeatedState{i, i, i, i})
	}
	entry := func(attr string, i int) int64 {
		if list := n.IntList(attr, nil); i < len(list) {
			return list[i]
		}
		return 0
	}
	for i := range scanned {
		p.slices = append(p.slices,
			repeatedSlice{states + i, states + i, entry("scan_input_axes", i), entry("scan_input_directions", i) == 1})
	}
	for i := range len(p.body.Outputs) - states {
		p.stacks = append(p.stacks,
			repeatedStack{states + i, states + i, entry("scan_output_axes", i),
				entry("scan_output_directions", i) == 1})
	}
	p.reverse()
}

// loopRule: see above. However a Loop ends, it has as many iterations as rows that it stacked.
// Stashes the captures of the body, the states and the iterations' numbers, as far as they are
// needed.
func loopRule(c *Ctx) {
	n := c.Node
	p := &repeated{Ctx: c, body: n.GraphAttr("body"), counts: []int{0, 1}}
	states := len(n.Inputs) - 2
	for i := range states {
		p.states = append(p.states, repeatedState{2 + i, i, 2 + i, 1 + i})
	}
	for i := range len(p.body.Outputs) - 1 - states {
		p.stacks = append(p.stacks, repeatedStack{states + i, 1 + states + i, 0, false})
	}
	p.reverse()
}

// backward is the body of the Scan in the making.
type backward struct {
	*repeated
	*nestedJoint
	ins      []Value       // the body's inputs, by slot
	rows     map[int]Value // by place in stacks: the gradient of a row
	carried  map[int]Value // by place in states: the gradient of the state behind the iteration
	captured []Value
	sums     map[Value]Value // by captured value: the gradients of later iterations
}

// reverse emits the node.
func (p *repeated) reverse() {
	r, err := p.nested(p.body, "body")
	p.must(err)
	b := &backward{repeated: p, nestedJoint: r,
		rows: map[int]Value{}, carried: map[int]Value{}, sums: map[Value]Value{}}
	for _, d := range r.g.Inputs {
		b.ins = append(b.ins, d.Value)
	}
	r.g.Inputs = nil
	b.mark()
	s := &scan{emitter: emitter{r.joint}, around: &p.emitter}
	p.Need(scanVersion)
	b.seed(s)
	p.must(r.sweep(r.order))
	r.prefix = r.base
	b.finish(s)
}

// isFloat reports whether a value of the body can have a gradient.
func (b *backward) isFloat(v Value) bool { return carriesFloat(b.nestedJoint.g.Values[v].Type) }

// mark finds the values of the body that gradients flow through: a state counts if gradients flow
// through the next iteration's results from it.
func (b *backward) mark() {
	b.captured = b.nestedJoint.captured(b.Ctx.j)
	from, to := slices.Clone(b.captured), []Value{}
	for _, s := range b.repeated.slices {
		if b.Wants(s.nodeIn) {
			from = append(from, b.ins[s.bodyIn])
		}
	}
	for _, s := range b.stacks {
		if b.Grad(s.nodeOut) != None {
			to = append(to, b.outputs[s.bodyOut])
		}
	}
	for _, s := range b.states {
		if b.Wants(s.nodeIn) {
			from = append(from, b.ins[s.bodyIn])
		}
		if b.Grad(s.nodeOut) != None && b.isFloat(b.outputs[s.bodyOut]) {
			to = append(to, b.outputs[s.bodyOut])
		}
	}
	for changed := true; changed; {
		b.flow(from, to)
		changed = false
		for _, s := range b.states {
			in, out := b.ins[s.bodyIn], b.outputs[s.bodyOut]
			if !b.isFloat(in) {
				continue
			}
			if b.reaches[in] && !b.reaches[out] {
				to, changed = append(to, out), true
			}
			if b.requires[out] && !b.requires[in] {
				from, changed = append(from, in), true
			}
		}
	}
}

// seed gives the results of the iteration their gradients.
func (b *backward) seed(s *scan) {
	for i, st := range b.states {
		in, out := b.ins[st.bodyIn], b.outputs[st.bodyOut]
		if !b.isFloat(in) || !b.requires[in] || !b.reaches[out] {
			continue
		}
		b.refuseChanges(st)
		init := b.Grad(st.nodeOut)
		if init == None {
			init = b.Zeros(b.In(st.nodeIn))
		}
		b.carried[i] = s.State(init)
		b.addGrad(out, b.carried[i])
	}
	for i, st := range b.stacks {
		if g := b.Grad(st.nodeOut); g != None && b.requires[b.outputs[st.bodyOut]] {
			b.refuseRank(st, g)
			b.rows[i] = s.Slice(g, st.axis, !st.back)
			b.addGrad(b.outputs[st.bodyOut], b.rows[i])
		}
	}
	b.j().grow()
}

func (b *backward) j() *joint { return b.nestedJoint.joint }

// refuseRank ends the rule if a scan output has no axis to be cut along: a file may state such a
// type where the iteration's is unknown.
func (b *backward) refuseRank(st repeatedStack, g Value) {
	shape := b.Type(g).Shape
	if !shape.Ranked {
		return
	}
	if rank := int64(len(shape.Dims)); st.axis >= rank || st.axis < -rank {
		b.Unsupported("scan output %d has rank %d, and its rows lie along axis %d", st.nodeOut, rank, st.axis)
	}
}

// refuseChanges ends the rule if iterations change the shape of a state, because rows of different
// shapes cannot be stacked.
func (b *backward) refuseChanges(st repeatedState) {
	if b.Type(b.In(st.nodeIn)).Form != graph.FormTensor {
		b.Unsupported("state %d is not a tensor", st.nodeOut)
	}
	in := b.Type(b.In(st.nodeIn)).Shape
	inside := b.nestedJoint.g.Values[b.ins[st.bodyIn]].Type.Shape
	if !in.Ranked {
		return
	}
	if inside.Ranked && len(inside.Dims) != len(in.Dims) {
		b.Unsupported("state %d has rank %d, and rank %d in the iterations", st.nodeOut, len(in.Dims), len(inside.Dims))
	}
	for axis, d := range in.Dims {
		if d.IsKnown() && (!inside.Ranked || !inside.Dims[axis].IsKnown()) {
			b.Unsupported("the iterations may change the shape of state %d", st.nodeOut)
		}
	}
}

// finish drops the parts that the gradients do not need, and emits the Scan.
func (b *backward) finish(s *scan) {
	var owners []func(Value) // receivers of the node's outputs
	e := &emitter{b.j()}
	b.eachState(func(i int, st repeatedState) {
		g := b.gradOf(b.ins[st.bodyIn])
		if g == None {
			g = e.Zeros(b.carried[i])
		}
		s.Next(g)
		owners = append(owners, func(v Value) { b.Set(st.nodeIn, v) })
	})
	for _, v := range b.captured {
		g := b.gradOf(v)
		if g == None {
			continue
		}
		outer := b.nestedJoint.g.Values[v].Outer
		s.Next(s.Add(s.State(b.Zeros(outer)), g))
		owners = append(owners, func(v Value) { b.Ctx.j.accumulate(b.Ctx, outer, v) })
	}
	for _, sl := range b.repeated.slices {
		g := b.gradOf(b.ins[sl.bodyIn])
		if g == None || !b.Wants(sl.nodeIn) {
			continue
		}
		s.Stack(g, sl.axis, !sl.back)
		owners = append(owners, func(v Value) { b.Set(sl.nodeIn, v) })
	}
	if len(owners) == 0 {
		return
	}
	b.feed(s, b.prune(b.Ctx, append(slices.Clone(s.next), s.rows...)))
	states, stacks := s.Emit()
	for i, v := range append(slices.Clone(states), stacks...) {
		owners[i](v)
	}
}

func (b *backward) eachState(f func(int, repeatedState)) {
	for i, st := range b.states {
		if _, ok := b.carried[i]; ok {
			f(i, st)
		}
	}
}

// feed gives the iteration those inputs of the forward body that it reads.
func (b *backward) feed(s *scan, read []bool) {
	for _, rec := range b.recorded {
		v := &b.nestedJoint.g.Values[rec.value]
		shape := v.Type.Shape
		if !shape.Ranked || slices.ContainsFunc(shape.Dims, func(d symbolic.Expr) bool { return !d.IsKnown() }) {
			b.Unsupported("the iterations may change the shape of %q, which is random", v.Name)
		}
		v.Input = true
		s.adopt(rec.value, b.recordRow(rec), 0, true)
	}
	for _, sl := range b.repeated.slices {
		if b.take(b.ins[sl.bodyIn], read) {
			s.adopt(b.ins[sl.bodyIn], b.In(sl.nodeIn), sl.axis, !sl.back)
		}
	}
	for _, st := range b.states {
		if b.take(b.ins[st.bodyIn], read) {
			b.refuseChanges(st)
			s.adopt(b.ins[st.bodyIn], b.stash(st.bodyIn), 0, true)
		}
	}
	if b.counts == nil {
		if len(s.slices) == 0 { // it must have one, for the number of iterations
			sl := b.repeated.slices[0]
			s.Slice(b.In(sl.nodeIn), sl.axis, !sl.back)
		}
		return
	}
	number, cond := b.ins[0], b.ins[1]
	if b.take(cond, read) {
		b.always(cond)
	}
	if b.take(number, read) {
		s.adopt(number, b.stash(0), 0, true)
	} else if len(s.slices) == 0 {
		s.Slice(b.stash(0), 0, true)
	}
}

// take reports whether an input of the forward body is read; one that is not read is removed from
// the inputs.
func (b *backward) take(v Value, read []bool) bool {
	b.nestedJoint.g.Values[v].Input = read[v]
	return read[v]
}

// always makes a value of the body the constant true, which the condition is in every iteration
// that runs.
func (b *backward) always(cond Value) {
	v := &b.nestedJoint.g.Values[cond]
	v.Input = false
	dims := make([]int64, len(v.Type.Shape.Dims))
	for i := range dims {
		dims[i] = 1
	}
	_, err := b.nestedJoint.g.AddInitializer(&graph.TensorData{Name: v.Name, DType: graph.Bool, Dims: dims,
		Source: graph.Raw{1}})
	b.must(err)
}

// stash makes an input of the forward body a further output of the forward node, stacked in the
// order of the iterations.
func (b *backward) stash(input int) Value {
	return b.stack("stash_"+itoa(input), func(*joint) Value { return b.body.Inputs[input].Value })
}

// recordRow does so with the result of a random node of the body.
func (b *backward) recordRow(rec recorded) Value {
	return b.stack("record_"+itoa(int(rec.node))+"_"+itoa(rec.slot), func(f *joint) Value { return b.source(f, rec) })
}

// stack makes a value of the forward body, which of returns, a further output of the forward node, under
// a new name.
func (b *backward) stack(name string, of func(f *joint) Value) Value {
	n, j := b.Node, b.Ctx.j
	f, err := j.inside(b.body, "stash")
	b.must(err)
	(&emitter{f}).output(of(f))
	attrs := Attrs{A("body", b.body)}
	for _, attr := range []string{"scan_output_axes", "scan_output_directions"} {
		if list := n.IntList(attr, nil); list != nil {
			attrs = append(attrs, A(attr, append(slices.Clone(list), 0)))
		}
	}
	return b.extend(j.g.ValueName(j.newValue(j.prefix+name)), attrs)
}
