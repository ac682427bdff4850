package cuda

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// direction runs the whole sequence in one direction.
func (k *recurrence) direction(c *executor.Ctx, y, yh, yc *executor.Tensor) error {
	rows := k.gates * k.hidden
	w := c.In(1).Data[k.size*k.index*rows*k.input:]
	if err := k.multiply(k.seq*k.batch, rows, k.input, c.In(0).Data, w, k.pre, rows); err != nil {
		return err
	}
	t := c.In(0).DType
	if err := k.copyState(c.In(5), t, k.h, t, true); err != nil {
		return err
	}
	if k.kind == op.LSTM {
		if err := k.copyState(c.In(6), t, k.state, graph.Float32, true); err != nil {
			return err
		}
	}
	for s := range k.seq {
		if k.time = s; k.backward[k.index] {
			k.time = k.seq - 1 - s
		}
		if err := k.step(c, y); err != nil {
			return err
		}
	}
	if yh != nil {
		if err := k.copyState(yh, t, k.h, t, false); err != nil {
			return err
		}
	}
	if yc != nil && k.kind == op.LSTM {
		return k.copyState(yc, t, k.state, graph.Float32, false)
	}
	return nil
}

// copyState copies the direction's states from an operand to workspace, zeros where it is left out,
// or back.
func (k *recurrence) copyState(
	operand *executor.Tensor, t graph.DType, work []byte, workType graph.DType, start bool,
) error {
	at, ld := k.index*k.batch*k.hidden, k.hidden
	if k.batchFirst {
		at, ld = k.index*k.hidden, len(k.backward)*k.hidden
	}
	var data []byte
	if operand != nil {
		data = operand.Data[k.size*at:]
	}
	a := k.copy.begin()
	from, to, fromLD, toLD := data, work, ld, k.hidden
	if !start {
		from, to, fromLD, toLD = work, data, k.hidden, ld
		t, workType = workType, t
	}
	a.In(from).Out(to).Int(k.batch * k.hidden).Int(fromLD).Int(toLD).Divider(k.hidden).Uint32(statType(t)).
		Uint32(statType(workType))
	return k.copy.line(k.batch*k.hidden, 1)
}

// step computes the state after one more input.
func (k *recurrence) step(c *executor.Ctx, y *executor.Tensor) error {
	rows, hidden := k.gates*k.hidden, k.hidden
	r := c.In(2).Data[k.size*k.index*rows*hidden:]
	resets := k.kind == op.GRU && !k.linear
	products := rows
	if resets {
		products = 2 * hidden // the hidden gate's is that of the reset state
	}
	if err := k.multiply(k.batch, products, hidden, k.h, r, k.rec, rows); err != nil {
		return err
	}
	if resets {
		if err := k.cells(c, k.reset, nil); err != nil {
			return err
		}
		at := k.size * products
		if err := k.multiply(k.batch, hidden, hidden, k.side, r[at*hidden:], k.rec[at:], rows); err != nil {
			return err
		}
	}
	return k.cells(c, k.cell, y)
}

// cells runs a kernel of recurrent.cu on the current step.
func (k *recurrence) cells(c *executor.Ctx, l *launch, y *executor.Tensor) error {
	rows, hidden, d := k.gates*k.hidden, k.hidden, len(k.backward)
	pre, preLD := k.time*k.batch*rows, rows
	out, outLD := (k.time*d+k.index)*k.batch*hidden, hidden
	if k.batchFirst {
		pre, preLD = k.time*rows, k.seq*rows
		out, outLD = (k.time*d+k.index)*hidden, k.seq*d*hidden
	}
	part := func(t *executor.Tensor, n int) []byte {
		if t == nil {
			return nil
		}
		return t.Data[k.size*n:]
	}
	a := l.begin().In(k.pre[k.size*pre:]).In(k.rec).In(part(c.In(3), k.index*2*rows)).
		In(part(c.In(7), k.index*3*hidden)).In(k.lens).Out(k.h).Out(k.state).Out(k.side).Out(part(y, out)).
		Int(k.batch * hidden).Int(preLD).Int(outLD).Divider(hidden).Int32(int32(k.gates)).
		Int32(int32(k.time)).Uint32(statType(c.In(0).DType)).Uint32(flag(k.couple)).Uint32(flag(k.linear)).
		Float32(k.clip)
	acts := &k.acts[k.index]
	for _, act := range acts {
		a.Uint32(uint32(act.Function))
	}
	for _, act := range acts {
		a.Float32(float32(act.Alpha))
	}
	for _, act := range acts {
		a.Float32(float32(act.Beta))
	}
	return l.line(k.batch*hidden, 1)
}
