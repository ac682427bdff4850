package torch

import (
	"slices"

	"memopt/graph"
)

// machine runs operators without numbers.
type machine struct {
	p      *Program
	step   *Step // the one that is being run
	tape   []record
	grads  []tensor // by variable: the sum of its gradients so far
	leaf   []bool   // by variable: a parameter
	shared []int32  // by storage: how many variables' gradients lie there
}

// record is an operator's entry on the tape.
type record struct {
	op     string
	node   graph.NodeID
	call   int32
	out    []variable
	saves  bool
	reads  []StorageID // the tensors that it saved
	of     int32       // the forward step
	backOf func(b *back)
}

// begin opens a step; reads and results from now on are the step's.
func (m *machine) begin(op string, node graph.NodeID, call int32) {
	m.p.Steps = append(m.p.Steps, Step{Op: op, Node: node, Call: call})
	m.step = &m.p.Steps[len(m.p.Steps)-1]
}

// beginBack is begin for a step of the backward half.
func (m *machine) beginBack(op string, r *record) {
	m.begin(op, r.node, r.call)
	m.step.Backward, m.step.Of = true, r.of
}

// read notes that the step reads tensors.
func (m *machine) read(ts ...tensor) {
	for _, t := range ts {
		if t.there() && !slices.Contains(m.step.Reads, t.storage) {
			m.step.Reads = append(m.step.Reads, t.storage)
		}
	}
}

// storage adds a storage.
func (m *machine) storage(bytes int64) StorageID {
	m.p.Storages = append(m.p.Storages, Storage{Bytes: bytes})
	m.shared = append(m.shared, 0)
	return StorageID(len(m.p.Storages) - 1)
}

// strided makes a tensor in the step.
func (m *machine) strided(dims, strides []int64, elem int64) tensor {
	t := tensor{dims: dims, strides: strides, elem: elem, grad: noGrad}
	t.storage = m.storage(t.bytes())
	m.step.Makes = append(m.step.Makes, t.storage)
	return t
}

// make makes a contiguous tensor in the step.
func (m *machine) make(dims []int64, elem int64) tensor { return m.strided(dims, rowMajor(dims), elem) }

// like makes a tensor with the dims of another, as an elementwise operator does.
func (m *machine) like(t tensor) tensor { return m.strided(t.dims, t.stridesLike(), t.elem) }

// work notes bytes that the step takes while it runs.
func (m *machine) work(bytes int64) { m.step.Work += max(bytes, 0) }

// variable adds something that gradients are added up for.
func (m *machine) variable() variable {
	m.grads = append(m.grads, tensor{storage: none})
	m.leaf = append(m.leaf, false)
	return variable(len(m.grads) - 1)
}

// wanted reports whether a gradient of any of the tensors is wanted.
func wanted(ts ...tensor) bool {
	return slices.ContainsFunc(ts, func(t tensor) bool { return t.dims != nil && t.grad != noGrad })
}

// back is the backward of an operator while it runs.
type back struct {
	*machine
	outs  []tensor // the gradients of the outputs; zero tensors for missing ones
	given []given
}

// given is a gradient that an operator's backward has made for an input.
type given struct {
	to   variable
	grad tensor
}

// g is the gradient of the only output.
func (b *back) g() tensor { return b.outs[0] }

// give adds a gradient to those of a tensor's variable, if they are wanted.
func (b *back) give(t, grad tensor) {
	if t.grad != noGrad {
		b.given = append(b.given, given{t.grad, grad})
	}
}

// fresh gives a contiguous gradient of the tensor's own size to each tensor whose gradient is wanted.
func (b *back) fresh(ts ...tensor) {
	for _, t := range ts {
		if t.dims != nil && t.grad != noGrad {
			b.give(t, b.make(t.dims, t.elem))
		}
	}
}

// backward runs the tape from its end, beginning with the gradient of the loss.
func (m *machine) backward(loss tensor) {
	m.p.Backward = len(m.p.Steps)
	if len(m.tape) == 0 || loss.grad == noGrad {
		return
	}
	last := &m.tape[len(m.tape)-1]
	m.beginBack("ones_like", &record{node: last.node, call: -1, of: last.of})
	m.hold(loss.grad, m.make(loss.dims, loss.elem))
	for i := range slices.Backward(m.tape) {
		r := &m.tape[i]
		b := &back{machine: m}
		defined := false
		for _, v := range r.out {
			b.outs = append(b.outs, m.grads[v])
			defined = defined || m.grads[v].there()
		}
		if !defined {
			continue
		}
		m.beginBack(r.op+"_backward", r)
		m.step.Reads = append(m.step.Reads, r.reads...)
		m.step.Saves = r.saves
		m.read(b.outs...)
		r.backOf(b)
		for _, v := range r.out {
			m.drop(v)
		}
		for _, x := range b.given {
			m.accumulate(x.to, x.grad, r)
		}
	}
}

// hold makes a tensor the gradient of a variable.
func (m *machine) hold(v variable, g tensor) {
	m.grads[v] = g
	m.shared[g.storage]++
}

// drop forgets the gradient of a variable.
func (m *machine) drop(v variable) {
	if m.grads[v].there() {
		m.shared[m.grads[v].storage]--
		m.grads[v] = tensor{storage: none}
	}
}

// accumulate adds a gradient to the sum of a variable's: in place where it has the only reference to the sum;
// the base of a view has another (torch/csrc/autograd/input_buffer.cpp). That of a parameter stays
// (torch/csrc/autograd/functions/accumulate_grad.h): the first one is taken over if that is its only reference
// and it lies as the parameter does, else it is copied.
func (m *machine) accumulate(v variable, g tensor, r *record) {
	if !g.there() {
		return
	}
	old := m.grads[v]
	switch {
	case m.leaf[v] && !old.there():
		if m.shared[g.storage] > 0 || elements(g.dims)*g.elem != m.p.Storages[g.storage].Bytes || !g.dense() {
			m.beginBack("clone", r)
			m.read(g)
			g = m.make(g.dims, g.elem)
		}
		m.p.Storages[g.storage].Kept = true
		m.hold(v, g)
	case !old.there():
		m.hold(v, g)
	case !old.view && (m.leaf[v] || m.shared[old.storage] == 1 && old.dense()):
		m.beginBack("add_", r)
		m.read(old, g)
	default:
		m.beginBack("add", r)
		m.read(old, g)
		sum := m.like(old)
		if m.leaf[v] {
			m.p.Storages[old.storage].Kept, m.p.Storages[sum.storage].Kept = false, true
		}
		m.drop(v)
		m.hold(v, sum)
	}
}
