package executor

import (
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// Where values live in a session of a device with memory of its own:
//
// Every value has one home. Inputs, weights and what nodes make are at home on the device, except
// for shapes and what is computed from them: the results of Shape and Size, and small integers that
// are made of such and of constants only. These are made on the host by the host's kernels, so that
// a kernel that must know a shape before it can start need not wait for the device. Inputs, weights
// and constants can be read on the host as well: there they are anyway.
//
// A step that reads a value on the other side reads a copy, made right before it: in host memory,
// or as part of its planned workspace on the device. What a node makes on the host for the device
// is copied there right after it.

// hostBytes is the most that an integer value computed on the host may take.
const hostBytes = 4096

// transfer is a copy of an operand between the sides of a step.
type transfer struct {
	home *Tensor // where the value lives
	copy *Tensor // what the kernel sees
	slot int     // of the output; unused for inputs
}

// homes is what a frame of a device with memory of its own knows of its values.
type homes struct {
	onHost []bool    // by value: at home on the host
	twin   []*Tensor // by value: the host's copy of a persistent value; nil where there is none
	fixed  []bool    // by value: the twin is the same in every run: weights and constants
	read   []bool    // by value: some step reads the twin
}

func newHomes(f *frame) *homes {
	n := len(f.g.Values)
	h := &homes{make([]bool, n), make([]*Tensor, n), make([]bool, n), make([]bool, n)}
	for i := range f.g.Values {
		v := &f.g.Values[i]
		constant := v.Def != graph.NoNode && op.Of(f.g.Nodes[v.Def].Kind).Has(op.ConstantRole)
		if f.mutable[i] || !v.Input && !v.IsInitializer() && !constant {
			continue
		}
		h.twin[i] = &Tensor{DType: f.vals[i].DType}
		h.fixed[i] = !v.Input
	}
	return h
}

// makeKernel makes a step's kernel, and says where its operands are read and made.
func (f *frame) makeKernel(st *step) (err error) {
	info, p := st.prep.Info, st.prep
	switch {
	case info.Has(op.Yield):
		st.kernel, err = newYield(f, st)
		if err == nil && f.homes != nil {
			f.onDevice(st, nil)
		}
		return err
	case controls[p.Node.Kind] != nil && !f.s.virtual: // without data there is no telling which subgraph runs, or how often
		st.kernel, err = controls[p.Node.Kind](f, st)
		if err == nil && f.homes != nil {
			f.onHost(st, hostControl)
			for _, v := range st.node.Captures() {
				f.onHostSide(st, v) // so that it is there when the subgraph asks for it
			}
		}
		return err
	case f.homes == nil:
		st.kernel, err = f.device.Kernel(p)
		return err
	case info.Has(op.ConstantRole):
		st.kernel, err = f.s.placer.Host().Kernel(p) // runs once, before the session's first run
		return err
	case info.Has(op.ShapeOf) || f.shapeWork(st):
		if st.kernel, err = f.s.placer.Host().Kernel(p); err != nil {
			return err
		}
		f.onHost(st, hostShapes)
		return nil
	}
	placed, err := f.s.placer.Place(p)
	if err != nil {
		return err
	}
	st.kernel = placed.Kernel
	if placed.Host != "" {
		f.onHost(st, placed.Host)
		return nil
	}
	f.onDevice(st, placed.HostInputs)
	return nil
}

// shapeWork reports whether a step makes small integers of values that the host has.
func (f *frame) shapeWork(st *step) bool {
	if st.prep.Info.Random || len(st.prep.Info.Mutates) > 0 {
		return false
	}
	for _, v := range st.node.Inputs {
		if v != graph.NoValue && !f.homes.onHost[v] && !f.homes.fixed[v] {
			return false
		}
	}
	for _, v := range st.node.Outputs {
		if v != graph.NoValue && !f.smallInts(v) {
			return false
		}
	}
	return len(st.node.Inputs) > 0
}

// smallInts reports whether a value is of integers or bools and is known to be small.
func (f *frame) smallInts(v graph.ValueID) bool {
	switch f.vals[v].DType {
	case graph.Int32, graph.Int64, graph.Bool:
	default:
		return false
	}
	if f.shapes[v] == nil {
		return false
	}
	n, ok := Bytes(f.vals[v].DType, f.shapes[v])
	return ok && n <= hostBytes
}

// onHost makes a step run on the host. What it makes is at home there where it is small integers.
func (f *frame) onHost(st *step, why string) {
	st.hostWhy = why
	h := f.homes
	if !st.prep.Info.Has(op.ShapeOf) {
		for i, v := range st.node.Inputs {
			if v != graph.NoValue {
				st.in[i] = f.onHostSide(st, v)
			}
		}
	}
	for _, slot := range st.prep.Info.Mutates {
		for _, c := range st.toHost {
			if slot < len(st.in) && c.copy == st.in[slot] {
				st.updates = append(st.updates, c)
			}
		}
	}
	for i, v := range st.node.Outputs {
		if v == graph.NoValue {
			continue
		}
		if f.smallInts(v) || st.prep.Info.Has(op.ShapeOf) || st.prep.Info.View {
			h.onHost[v] = true
			continue
		}
		t := &Tensor{DType: st.out[i].DType}
		st.stores = append(st.stores, transfer{home: st.out[i], copy: t, slot: i})
		st.out[i] = t
	}
}

// onHostSide returns the tensor in which a step reads a value on the host.
func (f *frame) onHostSide(st *step, v graph.ValueID) *Tensor {
	switch {
	case f.homes.onHost[v]:
		return f.vals[v]
	case f.homes.twin[v] != nil:
		f.homes.read[v] = true
		return f.homes.twin[v]
	}
	for _, c := range st.toHost {
		if c.home == f.vals[v] {
			return c.copy
		}
	}
	t := &Tensor{DType: f.vals[v].DType}
	st.toHost = append(st.toHost, transfer{home: f.vals[v], copy: t})
	return t
}

// onDevice makes a step run on the device, except for inputs that its kernel reads on the host.
func (f *frame) onDevice(st *step, hostInputs []int) {
	for _, i := range hostInputs {
		if i < len(st.node.Inputs) && st.node.Inputs[i] != graph.NoValue {
			st.in[i] = f.onHostSide(st, st.node.Inputs[i])
		}
	}
	for i, v := range st.node.Inputs {
		if v == graph.NoValue || !f.homes.onHost[v] || st.in[i] != f.vals[v] || slices.Contains(hostInputs, i) {
			continue
		}
		t := &Tensor{DType: f.vals[v].DType}
		st.toDevice = append(st.toDevice, transfer{home: f.vals[v], copy: t})
		st.in[i] = t
	}
}

// capturedTensor returns the tensor by which a subgraph on the host reads a value of this frame:
// the node that runs the subgraph fetches it.
func (f *frame) capturedTensor(st *step, v graph.ValueID) *Tensor {
	if f.homes == nil {
		return f.vals[v]
	}
	return f.onHostSide(st, v)
}

// fetchBytes returns the workspace on the device that copies of a step's inputs take.
func (f *frame) fetchBytes(st *step) int {
	n := 0
	for _, c := range st.toDevice {
		for i, t := range st.in {
			if t != c.copy {
				continue
			}
			shape := f.shapes[st.node.Inputs[i]]
			if size, ok := Bytes(c.home.DType, shape); ok && shape != nil {
				n += RoundUp(size)
			}
		}
	}
	return n
}

// fetch copies the inputs of a step that live on the other side.
func (st *step) fetch() error {
	f := st.f
	for i := range st.toHost {
		c := &st.toHost[i]
		c.copy.DType, c.copy.Shape = c.home.DType, c.home.Shape
		data, err := st.hostBlock(len(c.home.Data))
		if err != nil {
			return err
		}
		c.copy.Data = data
		if err := f.mem.CopyOut(data, c.home.Data); err != nil {
			return err
		}
		f.s.measured.Copies.Out++
		f.s.measured.Copies.OutBytes += int64(len(data))
	}
	for i := range st.toDevice {
		c := &st.toDevice[i]
		c.copy.DType, c.copy.Shape = c.home.DType, c.home.Shape
		data, err := st.Scratch(len(c.home.Data))
		if err != nil {
			return err
		}
		c.copy.Data = data
		src := c.home.Data
		if f.s.captured.now {
			if src, err = f.s.pin(src); err != nil {
				return err
			}
		}
		if err := f.send(data, src); err != nil {
			return err
		}
	}
	return nil
}

// send copies to the device in a run.
func (f *frame) send(dst, src []byte) error {
	f.s.measured.Copies.In++
	f.s.measured.Copies.InBytes += int64(len(src))
	return f.mem.CopyIn(dst, src)
}

// store copies what a step has made on the host to where it is at home.
func (st *step) store() error {
	for _, c := range st.updates {
		if err := st.f.send(c.home.Data, c.copy.Data); err != nil {
			return err
		}
	}
	for i := range st.stores {
		c := &st.stores[i]
		c.home.DType, c.home.Shape = c.copy.DType, append(c.home.Shape[:0], c.copy.Shape...)
		data, err := st.deviceOutput(c.slot, len(c.copy.Data))
		if err != nil {
			return err
		}
		c.home.Data = data
		if err := st.f.send(data, c.copy.Data); err != nil {
			return err
		}
	}
	return nil
}

// hostBlock returns host memory until the step ends.
func (st *step) hostBlock(n int) ([]byte, error) {
	b, err := st.f.shares.host.Alloc(n)
	if err == nil && n > 0 {
		st.hostExtra = append(st.hostExtra, b)
	}
	return b, err
}

// hostOutput returns host memory for an output that a step makes on the host: until its last
// reader, where it is at home there.
func (st *step) hostOutput(slot, n int) ([]byte, error) {
	f, v := st.f, st.node.Outputs[slot]
	if !f.homes.onHost[v] {
		return st.hostBlock(n)
	}
	root := f.timeline.Root[v]
	if root == graph.NoValue {
		root = v
	}
	if b := f.blocks[root]; n > 0 && len(b) == n {
		return b, nil
	}
	f.shares.host.Free(f.blocks[root])
	f.blocks[root] = nil
	b, err := f.shares.host.Alloc(n)
	f.blocks[root] = b
	return b, err
}

// shareOf returns what a value is taken from on demand.
func (f *frame) shareOf(v graph.ValueID) *share {
	switch {
	case f.homes != nil && f.homes.onHost[v]:
		return f.shares.host
	case f.bytes[v] == live.Unsized:
		return f.shares.beside
	}
	return f.shares.planned
}
