package jax

import "slices"

// Decision is the fate of the values of a name.
type Decision uint8

// The decisions.
const (
	Again   Decision = iota // made anew in the backward half
	Keep                    // kept on the device
	Offload                 // copied to the host, and back where the backward half would make it anew
)

// Policy has the decisions by name; a name that it lacks is Again.
type Policy map[string]Decision

// Saved is a step with a policy.
type Saved struct {
	Body *Body
	// Bytes by name that are kept or moved for the backward half; a named value that the backward half does not
	// read is not.
	Bytes map[string]int64
	Moved int64 // of those, bytes that are moved
}

// With returns the step with a policy: the backward half reads kept values where it would have made them anew, and no
// equation is left whose results are not read.
func (p *Program) With(policy Policy) *Saved {
	w := &rewriter{policy: policy, first: map[int32]*place{}, saved: &Saved{Bytes: map[string]int64{}}}
	root := w.copy(p.Nothing)
	w.visit(root)
	root.live(nil)
	root.sweep()
	w.count()
	w.saved.Body = root.body()
	return w.saved
}

// draft is a body that can be changed.
type draft struct {
	bytes   []int64
	inputs  []int32
	outputs []int32
	steps   []*draftStep
	outer   *draft
	in      *draftStep // the loop whose body it is
	dead    []bool     // by value
}

type draftStep struct {
	Step
	bodies []*draft
}

// place is a named value.
type place struct {
	body  *draft
	value int32
}

type rewriter struct {
	policy Policy
	first  map[int32]*place // by Step.Of: where the value is made in the forward half
	saved  *Saved
	reads  []handed
}

// handed is a value that the backward half reads from a policy's store, and its reader there.
type handed struct {
	name  string
	body  *draft
	value int32
	bytes int64
	moved bool
}

func (w *rewriter) copy(b *Body) *draft {
	d := &draft{bytes: slices.Clone(b.Bytes), inputs: slices.Clone(b.Inputs), outputs: slices.Clone(b.Outputs)}
	for i := range b.Steps {
		s := &draftStep{Step: b.Steps[i]}
		s.In, s.Out = slices.Clone(s.In), slices.Clone(s.Out)
		for _, x := range s.Bodies {
			inner := w.copy(x)
			inner.outer, inner.in = d, s
			s.bodies = append(s.bodies, inner)
		}
		d.steps = append(d.steps, s)
	}
	return d
}

// visit finds the first making of each named value, in the order of execution, and makes later ones reads of it.
func (w *rewriter) visit(d *draft) {
	for i := 0; i < len(d.steps); i++ {
		s := d.steps[i]
		for _, x := range s.bodies {
			w.visit(x)
		}
		if s.Primitive != "name" || w.policy[s.Name] == Again {
			continue
		}
		switch f := w.first[s.Of]; {
		case f == nil:
			w.first[s.Of] = &place{d, s.Out[0]}
		case s.Region != nil:
			w.hand(f, d, s)
		}
	}
}

// hand makes a named value's second making a read of the first: of the same value in the same body, else of a slice of
// a stack that the loops around the first one fill.
func (w *rewriter) hand(f *place, d *draft, s *draftStep) {
	from, to := f.body.chain(), d.chain()
	common := 0
	for common < len(from) && common < len(to) && from[common] == to[common] {
		common++
	}
	if !loops(from[common:]) || !loops(to[common:]) || !sameTurns(from[common:], to[common:]) {
		return
	}
	moved := w.policy[s.Name] == Offload
	value, bytes := f.value, f.body.bytes[f.value]
	for k := len(from) - 1; k >= common; k-- { // stacks, from the inside out
		in := from[k].in
		if bytes = product(bytes, in.Length); bytes < 0 {
			return
		}
		value = from[k].stack(value, bytes, moved)
	}
	total := bytes
	for k := common; k < len(to); k++ {
		in := to[k].in
		bytes /= max(in.Length, 1)
		value = to[k].slice(value, bytes, moved)
	}
	if moved {
		s.Step = Step{Primitive: opReload, In: []int32{}, Out: s.Out, Region: s.Region, Name: s.Name, Of: s.Of}
		if len(to) > common {
			s.In = []int32{value}
		}
	} else {
		s.In = []int32{value}
		s.Primitive = opTake
	}
	w.reads = append(w.reads, handed{s.Name, d, s.Out[0], total, moved})
}

// opTake and opReload are the steps that a policy puts in place of the second making of a named value.
const (
	opTake   = "memopt.take"
	opReload = "memopt.reload"
)

func product(a, b int64) int64 {
	if b > 0 && a > (1<<61)/b {
		return -1
	}
	return a * b
}

// chain are the bodies around one, from the outside, itself included.
func (d *draft) chain() (out []*draft) {
	for ; d != nil; d = d.outer {
		out = append(out, d)
	}
	slices.Reverse(out)
	return out
}

func loops(list []*draft) bool {
	return !slices.ContainsFunc(list, func(d *draft) bool { return d.in == nil || d.in.Primitive != "scan" })
}

func sameTurns(a, b []*draft) bool {
	return slices.EqualFunc(a, b, func(x, y *draft) bool { return x.in.Length == y.in.Length })
}

// stack adds a result to the loop of a body: a stack of the values of its turns.
func (d *draft) stack(value int32, bytes int64, host bool) int32 {
	if host {
		bytes = 0
	}
	d.outputs = append(d.outputs, value)
	out := d.outer.value(bytes)
	d.in.Out = append(d.in.Out, out)
	return out
}

// slice adds an operand to the loop of a body: a stack with a slice for each turn.
func (d *draft) slice(stack int32, bytes int64, host bool) int32 {
	if host {
		bytes = 0
	}
	d.in.In = append(d.in.In, stack)
	v := d.value(bytes)
	d.inputs = append(d.inputs, v)
	return v
}

func (d *draft) value(bytes int64) int32 {
	d.bytes = append(d.bytes, bytes)
	return int32(len(d.bytes) - 1)
}

// live marks the values of a body that are read: outputs by output, nil for all.
func (d *draft) live(used []bool) {
	if d.dead == nil {
		d.dead = make([]bool, 0, len(d.bytes))
	}
	d.dead = d.dead[:0]
	for range d.bytes {
		d.dead = append(d.dead, true)
	}
	for i, v := range d.outputs {
		if v >= 0 && (used == nil || used[i]) {
			d.dead[v] = false
		}
	}
	for _, s := range slices.Backward(d.steps) {
		d.mark(s)
	}
}

func (d *draft) used(v int32) bool { return v >= 0 && !d.dead[v] }

// mark marks the operands of a step whose results are read.
func (d *draft) mark(s *draftStep) {
	if !slices.ContainsFunc(s.Out, d.used) {
		return
	}
	need := func(int) bool { return true }
	if s.Primitive == "scan" {
		used := s.turns(d)
		body := s.bodies[0]
		for i, v := range s.Out {
			if v >= 0 && i < s.Carry && used[i] {
				d.dead[v] = false // a carried value that the body reads
			}
		}
		need = func(i int) bool {
			if k := i - s.Consts; k >= 0 && k < s.Carry {
				return used[k]
			}
			return body.used(body.inputs[i])
		}
	} else {
		for _, x := range s.bodies {
			x.live(nil)
		}
	}
	for i, v := range s.In {
		if v >= 0 && need(i) {
			d.dead[v] = false
		}
	}
}

// turns marks the values of a loop's body, and returns its results that are read outside or in the next turn.
func (s *draftStep) turns(d *draft) []bool {
	used := make([]bool, len(s.Out))
	for i, v := range s.Out {
		used[i] = d.used(v)
	}
	body := s.bodies[0]
	for {
		body.live(used)
		again := false
		for k := range s.Carry {
			if !used[k] && body.used(body.inputs[s.Consts+k]) {
				used[k], again = true, true
			}
		}
		if !again {
			return used
		}
	}
}

// sweep takes away the steps and the operands that are not read.
func (d *draft) sweep() {
	d.steps = slices.DeleteFunc(d.steps, func(s *draftStep) bool { return !slices.ContainsFunc(s.Out, d.used) })
	for _, s := range d.steps {
		for _, x := range s.bodies {
			x.sweep()
		}
		if s.Primitive == "scan" {
			s.trim(d)
		}
	}
}

// trim takes away operands and results of a loop that are not read.
func (s *draftStep) trim(d *draft) {
	body := s.bodies[0]
	var in, inputs, out, outputs []int32
	consts, carry := 0, 0
	for i, v := range s.In {
		k := i - s.Consts
		carried := k >= 0 && k < s.Carry
		switch {
		case carried && !d.used(s.Out[k]):
			continue
		case !carried && !body.used(body.inputs[i]):
			continue
		case carried:
			carry++
		case k < 0:
			consts++
		}
		in, inputs = append(in, v), append(inputs, body.inputs[i])
	}
	for i, v := range s.Out {
		if d.used(v) {
			out, outputs = append(out, v), append(outputs, body.outputs[i])
		}
	}
	s.In, s.Out, body.inputs, body.outputs, s.Consts, s.Carry = in, out, inputs, outputs, consts, carry
}

// count adds up the bytes that the backward half reads from the policy's store.
func (w *rewriter) count() {
	for _, r := range w.reads {
		if r.body.there() && r.body.used(r.value) {
			w.saved.Bytes[r.name] += r.bytes
			if r.moved {
				w.saved.Moved += r.bytes
			}
		}
	}
}

// there reports whether the loops around a body are still there.
func (d *draft) there() bool {
	for ; d.outer != nil; d = d.outer {
		if !slices.Contains(d.outer.steps, d.in) {
			return false
		}
	}
	return true
}

// body is the draft as a body.
func (d *draft) body() *Body {
	b := &Body{Bytes: d.bytes, Inputs: d.inputs, Outputs: d.outputs}
	for _, s := range d.steps {
		s.Bodies = nil
		for _, x := range s.bodies {
			s.Bodies = append(s.Bodies, x.body())
		}
		b.Steps = append(b.Steps, s.Step)
	}
	return b
}
