package executor

import "memopt/graph"

// transfer is a copy of an operand between the sides of a step.
type transfer struct {
	home *Tensor // where the value lives
	copy *Tensor // the kernel's operand
	slot int     // of the output; unused for inputs
}

// crossing is the copies of a step of an accelerator's frame between host and device.
type crossing struct {
	hostWhy          string     // why the step runs on the host; "" if it does not
	toHost, toDevice []transfer // copies of inputs
	stores           []transfer // copies of outputs
	updates          []transfer // of toHost: those that the operator updates
	hostExtra        [][]byte   // host memory until the step ends
	fetches          []transfer // copies of outputs for the host that begin when the step is done
}

// needsHost reports whether the host reads or makes values of the device.
func (c *crossing) needsHost() bool { return len(c.toHost)+len(c.stores)+len(c.updates) > 0 }

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

func (d *deviceSpace) fetch(st *step) error {
	f := d.f
	for i := range st.toHost {
		c := &st.toHost[i]
		c.copy.DType, c.copy.Shape = c.home.DType, c.home.Shape
		data, err := hostRun{st}.Scratch(len(c.home.Data))
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
		if err := d.send(data, src); err != nil {
			return err
		}
	}
	return nil
}

// send copies to the device in a run.
func (d *deviceSpace) send(dst, src []byte) error {
	d.f.s.measured.Copies.In++
	d.f.s.measured.Copies.InBytes += int64(len(src))
	return d.f.mem.CopyIn(dst, src)
}

func (d *deviceSpace) store(st *step) error {
	for _, c := range st.updates {
		if err := d.send(c.home.Data, c.copy.Data); err != nil {
			return err
		}
	}
	for i := range st.stores {
		c := &st.stores[i]
		c.home.DType, c.home.Shape = c.copy.DType, append(c.home.Shape[:0], c.copy.Shape...)
		data, err := st.Output(c.slot, len(c.copy.Data))
		if err != nil {
			return err
		}
		c.home.Data = data
		if err := d.send(data, c.copy.Data); err != nil {
			return err
		}
	}
	return nil
}

// hostRun gives a step of an accelerator's frame that runs on the host its memory.
type hostRun struct{ *step }

// Scratch returns host memory until the step ends.
func (st hostRun) Scratch(n int) ([]byte, error) {
	b, err := st.f.shares.host.Alloc(n)
	if err == nil && n > 0 {
		st.hostExtra = append(st.hostExtra, b)
	}
	return b, err
}

// Output returns host memory for an output: until its last reader where it lives on the host, else
// until the step ends.
func (st hostRun) Output(slot, n int) ([]byte, error) {
	f, v := st.f, st.node.Outputs[slot]
	if !f.space.atHost(v) {
		return st.Scratch(n)
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
