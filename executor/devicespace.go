package executor

import (
	"slices"

	"memopt/graph"
	"memopt/graph/op"
)

// Where values live in a session of an accelerator:
//
// Every value has one home. Inputs, weights and results of nodes are at home on the device, except
// for shapes and numbers computed from them: the results of Shape and Size, and small integers that
// depend on these and on constants only. Host kernels make them on the host, so that a kernel that
// must know a shape before it can start need not wait for the device. Inputs, weights and constants
// can be read on the host as well, where they are anyway.
//
// A step that reads a value on the other side reads a copy, made right before it: in host memory,
// or as part of its planned workspace on the device. The result of a host node that the device
// needs is copied there right after the node.

// hostBytes is the most that an integer value computed on the host may take.
const hostBytes = 4096

// deviceSpace is the memory of an accelerator.
type deviceSpace struct {
	f      *frame
	device Accelerator
	host   []bool    // by value: it lives on the host
	twin   []*Tensor // by value: the host's copy of a persistent value, or nil
	fixed  []bool    // by value: the twin is the same in every run: weights and constants
	read   []bool    // by value: some step reads the twin
}

func newDeviceSpace(f *frame, a Accelerator) *deviceSpace {
	n := len(f.g.Values)
	d := &deviceSpace{
		f: f, device: a,
		host: make([]bool, n), twin: make([]*Tensor, n), fixed: make([]bool, n), read: make([]bool, n),
	}
	for i := range f.g.Values {
		v := &f.g.Values[i]
		constant := v.Def != graph.NoNode && op.Of(f.g.Nodes[v.Def].Kind).Has(op.ConstantRole)
		if f.mutable[i] || !v.Input && !v.IsInitializer() && !constant {
			continue
		}
		d.twin[i] = &Tensor{DType: f.vals[i].DType}
		d.fixed[i] = !v.Input
	}
	return d
}

func (d *deviceSpace) assign(st *step) (err error) {
	info, p := st.prep.Info, st.prep
	switch {
	case info.Has(op.ConstantRole):
		st.kernel, err = d.device.Host().Kernel(p) // runs once, before the session's first run
		return err
	case info.Has(op.ShapeOf) || d.shapeWork(st):
		if st.kernel, err = d.device.Host().Kernel(p); err != nil {
			return err
		}
		d.runOnHost(st, hostShapes)
		return nil
	}
	assigned, err := d.device.Assign(p)
	if err != nil {
		return err
	}
	st.kernel = assigned.Kernel
	if assigned.Host != "" {
		d.runOnHost(st, assigned.Host)
		return nil
	}
	d.runOnDevice(st, assigned.HostInputs)
	return nil
}

func (d *deviceSpace) assignOwn(st *step, host string) {
	if host == "" {
		d.runOnDevice(st, nil)
		return
	}
	d.runOnHost(st, host)
	for _, v := range st.node.Captures() {
		d.onHostSide(st, v) // so that it is there when the subgraph asks for it
	}
}

// shapeWork reports whether a step makes small integers of values that the host has.
func (d *deviceSpace) shapeWork(st *step) bool {
	if st.prep.Info.Random || len(st.prep.Info.Mutates) > 0 {
		return false
	}
	for _, v := range st.node.Inputs {
		if v != graph.NoValue && !d.host[v] && !d.fixed[v] {
			return false
		}
	}
	for _, v := range st.node.Outputs {
		if v != graph.NoValue && !d.smallInts(v) {
			return false
		}
	}
	return len(st.node.Inputs) > 0
}

// smallInts reports whether a value is of integers or bools with a small size known in advance.
func (d *deviceSpace) smallInts(v graph.ValueID) bool {
	switch d.f.vals[v].DType {
	case graph.Int32, graph.Int64, graph.Bool:
	default:
		return false
	}
	if d.f.shapes[v] == nil {
		return false
	}
	n, ok := Bytes(d.f.vals[v].DType, d.f.shapes[v])
	return ok && n <= hostBytes
}

// runOnHost makes a step run on the host. Its results are at home there if they are small integers.
func (d *deviceSpace) runOnHost(st *step, why string) {
	st.hostWhy = why
	if !st.prep.Info.Has(op.ShapeOf) {
		for i, v := range st.node.Inputs {
			if v != graph.NoValue {
				st.in[i] = d.onHostSide(st, v)
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
		if d.smallInts(v) || st.prep.Info.Has(op.ShapeOf) || st.prep.Info.View {
			d.host[v] = true
			continue
		}
		t := &Tensor{DType: st.out[i].DType}
		st.stores = append(st.stores, transfer{home: st.out[i], copy: t, slot: i})
		st.out[i] = t
	}
}

// onHostSide returns the host tensor of a value that a step reads.
func (d *deviceSpace) onHostSide(st *step, v graph.ValueID) *Tensor {
	switch {
	case d.host[v]:
		return d.f.vals[v]
	case d.twin[v] != nil:
		d.read[v] = true
		return d.twin[v]
	}
	for _, c := range st.toHost {
		if c.home == d.f.vals[v] {
			return c.copy
		}
	}
	t := &Tensor{DType: d.f.vals[v].DType}
	st.toHost = append(st.toHost, transfer{home: d.f.vals[v], copy: t})
	return t
}

// runOnDevice makes a step run on the device, except for inputs that its kernel reads on the host.
func (d *deviceSpace) runOnDevice(st *step, hostInputs []int) {
	for _, i := range hostInputs {
		if i < len(st.node.Inputs) && st.node.Inputs[i] != graph.NoValue {
			st.in[i] = d.onHostSide(st, st.node.Inputs[i])
		}
	}
	for i, v := range st.node.Inputs {
		if v == graph.NoValue || !d.host[v] || st.in[i] != d.f.vals[v] || slices.Contains(hostInputs, i) {
			continue
		}
		t := &Tensor{DType: d.f.vals[v].DType}
		st.toDevice = append(st.toDevice, transfer{home: d.f.vals[v], copy: t})
		st.in[i] = t
	}
}

func (d *deviceSpace) atHost(v graph.ValueID) bool { return d.host[v] }

// captured has the node that runs the subgraph fetch the value: subgraphs run on the host.
func (d *deviceSpace) captured(st *step, v graph.ValueID) *Tensor { return d.onHostSide(st, v) }

func (d *deviceSpace) fuse() error {
	c, ok := d.device.(Fuser)
	if !ok || d.f.s.opts.Blocking {
		return nil
	}
	return d.f.fuseOnDevice(c)
}

// ranInside has no effect: values of subgraphs live in the host's memory.
func (d *deviceSpace) ranInside(int64) {}

// onHost returns 0: the device checks its own memory.
func (d *deviceSpace) onHost(int64) int64 { return 0 }
