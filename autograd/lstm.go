package autograd

// lstmGate are the values of an LSTM's gates in all steps, with their arguments.
type lstmGate struct {
	act        rnnAct
	arg, value Value
}

func (w *way) lstmGate(act rnnAct, arg Value) lstmGate {
	return lstmGate{act, arg, act.apply(&w.emitter, arg)}
}

func (g lstmGate) slope(w *way) Value { return g.act.grad(&w.emitter, g.arg, g.value) }

// lstmCell: i, o, f = f(..), g = g(..), c = f·c_prev + i·g, h = o·k(c); peepholes add p·c_prev to
// the arguments of i and f, and p·c to that of o. Stashes X and Y; the cell states are recomputed.
func lstmCell(w *way) wayGrads {
	previous := w.previous(w.y, w.h0)
	arg := w.splitEqual(w.Add(w.project(w.x, w.w, w.biases()...), w.project(previous, w.r)), 2, lstmGates)
	fresh := w.lstmGate(w.acts[1], arg[3])
	var peep []Value
	if w.peep != None {
		peep = w.splitEqual(w.peep, 0, 3)
	}
	var in, forget lstmGate
	var cells Value
	if peep == nil {
		in, forget = w.lstmGate(w.acts[0], arg[0]), w.lstmGate(w.acts[0], arg[2])
		cells = w.lstmCells(in.value, forget.value, fresh.value)
	} else {
		cells = w.peepholeCells(peep, arg[0], arg[2], fresh.value)
	}
	before := w.previous(cells, w.c0)
	if peep != nil {
		in = w.lstmGate(w.acts[0], w.Add(arg[0], w.Mul(peep[0], before)))
		forget = w.lstmGate(w.acts[0], w.Add(arg[2], w.Mul(peep[2], before)))
		arg[1] = w.Add(arg[1], w.Mul(peep[1], cells))
	}
	out := w.lstmGate(w.acts[0], arg[1])
	shown := w.lstmGate(w.acts[2], cells)

	zero := w.Scalar(0, cells)
	toO := w.masked(w.Mul(shown.value, out.slope(w)), zero)
	toC := w.masked(w.Mul(out.value, shown.slope(w)), zero)
	toI := w.masked(w.Mul(fresh.value, in.slope(w)), zero)
	toF := w.masked(w.Mul(before, forget.slope(w)), zero)
	toG := w.masked(w.Mul(in.value, fresh.slope(w)), zero)
	kept := w.masked(forget.value, w.Scalar(1, cells))

	s := w.Scan()
	carried, carriedC := s.State(w.dyh), s.State(w.dyc)
	dh := w.stepGrad(s, carried)
	slice := func(v Value) Value { return s.Slice(v, 0, !w.back) }
	do := s.Mul(dh, slice(toO))
	dc := s.Add(carriedC, s.Mul(dh, slice(toC)))
	if peep != nil {
		dc = s.Add(dc, s.Mul(do, s.capture(peep[1])))
	}
	di, df := s.Mul(dc, slice(toI)), s.Mul(dc, slice(toF))
	gates := s.Concat(1, di, do, df, s.Mul(dc, slice(toG)))
	s.Next(w.kept(s, dh, s.MatMul(gates, s.capture(w.r))))
	dc = s.Mul(dc, slice(kept))
	if peep != nil {
		dc = s.Add(dc, s.Add(s.Mul(di, s.capture(peep[0])), s.Mul(df, s.capture(peep[2]))))
	}
	s.Next(dc)
	s.Stack(gates, 0, !w.back)
	states, stacks := s.Emit()
	g := stacks[0]
	grads := wayGrads{gx: g, gr: g, dh: states[0], dc: states[1], dp: None,
		dr: func() Value { return w.outerProduct(g, previous) }}
	if w.Wants(rnnP) {
		parts := w.splitEqual(g, 2, lstmGates)
		sum := func(gate, state Value) Value { return w.ReduceSum(w.Mul(gate, state), false, 0, 1) }
		grads.dp = w.Concat(0, sum(parts[0], before), sum(parts[1], cells), sum(parts[2], before))
	}
	return grads
}

// lstmCells makes the cell states of all steps.
func (w *way) lstmCells(in, forget, fresh Value) Value {
	added := w.masked(w.Mul(in, fresh), w.Scalar(0, in))
	kept := w.masked(forget, w.Scalar(1, in))
	s := w.Scan()
	c := s.Add(s.Mul(s.State(w.c0), s.Slice(kept, 0, w.back)), s.Slice(added, 0, w.back))
	s.Next(c)
	s.Stack(c, 0, w.back)
	_, stacks := s.Emit()
	return stacks[0]
}

// peepholeCells is lstmCells where the gates depend on the cell state: it takes their arguments
// without it.
func (w *way) peepholeCells(peep []Value, in, forget, fresh Value) Value {
	s := w.Scan()
	old := s.State(w.c0)
	gate := func(arg Value, p Value) Value {
		return w.acts[0].apply(&s.emitter, s.Add(s.Slice(arg, 0, w.back), s.Mul(s.capture(p), old)))
	}
	i, f := gate(in, peep[0]), gate(forget, peep[2])
	c := s.Add(s.Mul(f, old), s.Mul(i, s.Slice(fresh, 0, w.back)))
	if w.mask != None {
		c = s.Where(s.Slice(w.mask, 0, w.back), c, old)
	}
	s.Next(c)
	s.Stack(c, 0, w.back)
	_, stacks := s.Emit()
	return stacks[0]
}
