package executor

import (
	"fmt"

	"memopt/graph"
	"memopt/planner/arena"
)

// Inputs, weights and outputs of an accelerator's frame.

// reserve takes one region for all inputs and weights, with room to start each at a multiple of the
// alignment.
func (d *deviceSpace) reserve() error {
	s := d.f.s
	if s.opts.sizesOnly {
		return nil
	}
	room := int(s.pred.Persistent-s.storedBytes) + arena.Alignment*(len(d.f.g.Inputs)+len(d.f.g.Initializers))
	if s.opts.Capture {
		room += captureBytes(len(s.opts.Order))
	}
	if err := s.weights.grow(room); err != nil {
		return fmt.Errorf("inputs and weights of %d bytes: %w", s.pred.Persistent, err)
	}
	return nil
}

// load gives an initializer its place on the device, and its twin on the host if some step reads
// that.
func (d *deviceSpace) load(id graph.ValueID, raw []byte, aligned bool) (err error) {
	s, t := d.f.s, d.f.vals[id]
	if s.opts.sizesOnly {
		return nil
	}
	if t.Data, err = s.weights.Alloc(len(raw)); err != nil {
		return err
	}
	if twin := d.twin[id]; twin != nil && d.read[id] {
		twin.DType, twin.Shape, twin.Data = t.DType, t.Shape, raw
		if !aligned {
			if twin.Data, err = s.hostArena.Alloc(len(raw)); err != nil {
				return err
			}
			copy(twin.Data, raw)
		}
	}
	return d.f.mem.CopyIn(t.Data, raw)
}

// runConstant runs a constant node on the host: its outputs are twins.
func (d *deviceSpace) runConstant(st *step) error {
	s := d.f.s
	out := make([]*Tensor, len(st.out))
	for i, v := range st.node.Outputs {
		if v != graph.NoValue {
			out[i] = d.twin[v]
		}
	}
	ctx := NewCtx(st.prep, s.pool, weightMemory{s.hostArena}, st.in, out)
	if err := Invoke(st.kernel, ctx); err != nil {
		return err
	}
	for i, t := range out {
		if t == nil || s.opts.sizesOnly {
			continue
		}
		if err := s.keepInput(st.out[i], t); err != nil {
			return err
		}
	}
	return nil
}

func (d *deviceSpace) setInput(id graph.ValueID, t *Tensor) error {
	if d.f.s.states.is[id] {
		return d.f.s.keepState(d.f.vals[id], t, id)
	}
	if d.twin[id] != nil {
		*d.twin[id] = *t
		if d.read[id] {
			d.f.s.forget() // the capture holds results that the host computed with the old input
		}
	}
	return d.f.s.keepInput(d.f.vals[id], t)
}

func (d *deviceSpace) setFeed(id graph.ValueID, t *Tensor) error {
	s := d.f.s
	if s.fed[id] == nil {
		s.fed[id] = &Tensor{}
	}
	return s.keepInput(s.fed[id], t)
}

// readable returns a copy.
func (d *deviceSpace) readable(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return b, nil
	}
	data := make([]byte, (len(b)+7)&^7)[:len(b)]
	return data, d.f.mem.CopyOut(data, b)
}

func (d *deviceSpace) spread(dst, one []byte) error {
	one, err := d.readable(one)
	if err != nil {
		return err
	}
	all := make([]byte, len(dst))
	repeat(all, one)
	return d.send(dst, all)
}

// output returns the copy that was fetched, else one that is made now, once a run.
func (d *deviceSpace) output(i int) *Tensor {
	s, v := d.f.s, d.f.g.Outputs[i].Value
	t := d.f.vals[v]
	if d.host[v] {
		return t
	}
	if s.fetched.done && s.fetched.outputs[i] != nil {
		return s.fetched.outputs[i]
	}
	if s.outputs == nil {
		s.outputs = make([]*Tensor, len(d.f.g.Outputs))
	}
	if s.outputs[i] == nil {
		data, err := d.readable(t.Data)
		if err != nil {
			data = nil
		}
		s.outputs[i] = &Tensor{DType: t.DType, Shape: t.Shape, Data: data}
	}
	return s.outputs[i]
}
