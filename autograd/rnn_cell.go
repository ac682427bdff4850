package autograd

// The cells: from the gradients of the states to those of the gates' inputs. · is a product by
// elements, f', g' and k' are the derivatives of the activation functions.

// rnnCell: h = f(a), so da = dh·f'(a) and dh_prev = da·R. Stashes X and Y; of Y alone comes f'
// where f allows.
func rnnCell(w *way) wayGrads {
	previous, arg := None, None
	f := w.acts[0]
	if f.needsArg {
		previous = w.previous(w.y, w.h0)
		arg = w.Add(w.project(w.x, w.w, w.biases()...), w.project(previous, w.r))
	}
	slope := w.masked(f.grad(&w.emitter, arg, w.y), w.Scalar(0, w.y))
	s := w.Scan()
	carried := s.State(w.dyh)
	dh := w.stepGrad(s, carried)
	da := s.Mul(dh, s.Slice(slope, 0, !w.back))
	s.Next(w.kept(s, dh, s.MatMul(da, s.capture(w.r))))
	s.Stack(da, 0, !w.back)
	states, stacks := s.Emit()
	g := stacks[0]
	return wayGrads{gx: g, gr: g, dh: states[0], dr: func() Value {
		if previous == None {
			previous = w.previous(w.y, w.h0)
		}
		return w.outerProduct(g, previous)
	}}
}

// kept adds, where the sequence has ended and the step kept its state, the gradient of the state
// after the step to that of the state before it.
func (w *way) kept(s *scan, dh, before Value) Value {
	if w.mask == None {
		return before
	}
	return s.Add(before, s.Mul(dh, s.Slice(w.keep(), 0, !w.back)))
}

// gruGates and lstmGates are the numbers of gates.
const (
	rnnGates  = 1
	gruGates  = 3
	lstmGates = 4
)

// gruCell: z and r = f(..), n = g(x·Wn + (r·h_prev)·Rn), h = (1-z)·n + z·h_prev; with
// linear_before_reset n = g(x·Wn + r·(h_prev·Rn)). Stashes X and Y.
func gruCell(w *way) wayGrads {
	if w.Node.Int("linear_before_reset", 0) != 0 {
		return gruLinear(w)
	}
	e, f, act := &w.emitter, w.acts[0], w.acts[1]
	previous := w.previous(w.y, w.h0)
	x := w.splitEqual(w.project(w.x, w.w, w.biases()...), 2, gruGates)
	r := w.splitEqual(w.r, 0, gruGates)
	gates := w.Concat(0, r[0], r[1])
	zr := w.splitEqual(w.project(previous, gates), 2, 2)
	za, ra := w.Add(x[0], zr[0]), w.Add(x[1], zr[1])
	z, reset := f.apply(e, za), f.apply(e, ra)
	past := w.Mul(reset, previous)
	na := w.Add(x[2], w.project(past, r[2]))
	n := act.apply(e, na)
	zero := w.Scalar(0, z)
	toZ := w.masked(w.Mul(w.Sub(previous, n), f.grad(e, za, z)), zero)
	toN := w.masked(w.Mul(w.Sub(w.Scalar(1, z), z), act.grad(e, na, n)), zero)
	toR := w.Mul(previous, f.grad(e, ra, reset))
	z = w.masked(z, w.Scalar(1, z))

	s := w.Scan()
	dh := w.stepGrad(s, s.State(w.dyh))
	slice := func(v Value) Value { return s.Slice(v, 0, !w.back) }
	dz, dn := s.Mul(dh, slice(toZ)), s.Mul(dh, slice(toN))
	dpast := s.MatMul(dn, s.capture(r[2]))
	dzr := s.Concat(1, dz, s.Mul(dpast, slice(toR)))
	before := s.Add(s.Mul(dh, slice(z)), s.Mul(dpast, slice(reset)))
	s.Next(s.Add(before, s.MatMul(dzr, s.capture(gates))))
	s.Stack(s.Concat(1, dzr, dn), 0, !w.back)
	states, stacks := s.Emit()
	g := stacks[0]
	return wayGrads{gx: g, gr: g, dh: states[0], dr: func() Value {
		parts := w.splitEqual(g, 2, gruGates)
		return w.Concat(0, w.outerProduct(w.Concat(2, parts[0], parts[1]), previous), w.outerProduct(parts[2], past))
	}}
}

// gruLinear is gruCell with linear_before_reset. The gradient of h_prev·Rn is that of n's argument
// times r.
func gruLinear(w *way) wayGrads {
	e, f, act := &w.emitter, w.acts[0], w.acts[1]
	previous := w.previous(w.y, w.h0)
	var wb, rb []Value
	if w.wb != None {
		wb, rb = []Value{w.wb}, []Value{w.rb}
	}
	x := w.splitEqual(w.project(w.x, w.w, wb...), 2, gruGates)
	h := w.splitEqual(w.project(previous, w.r, rb...), 2, gruGates)
	za, ra := w.Add(x[0], h[0]), w.Add(x[1], h[1])
	z, reset := f.apply(e, za), f.apply(e, ra)
	na := w.Add(x[2], w.Mul(reset, h[2]))
	n := act.apply(e, na)
	zero := w.Scalar(0, z)
	toZ := w.masked(w.Mul(w.Sub(previous, n), f.grad(e, za, z)), zero)
	toN := w.masked(w.Mul(w.Sub(w.Scalar(1, z), z), act.grad(e, na, n)), zero)
	toR := w.Mul(h[2], f.grad(e, ra, reset))
	z = w.masked(z, w.Scalar(1, z))

	s := w.Scan()
	dh := w.stepGrad(s, s.State(w.dyh))
	slice := func(v Value) Value { return s.Slice(v, 0, !w.back) }
	dz, dn := s.Mul(dh, slice(toZ)), s.Mul(dh, slice(toN))
	dzr := s.Concat(1, dz, s.Mul(dn, slice(toR)))
	dgr := s.Concat(1, dzr, s.Mul(dn, slice(reset)))
	s.Next(s.Add(s.Mul(dh, slice(z)), s.MatMul(dgr, s.capture(w.r))))
	s.Stack(s.Concat(1, dzr, dn), 0, !w.back)
	s.Stack(dgr, 0, !w.back)
	states, stacks := s.Emit()
	return wayGrads{gx: stacks[0], gr: stacks[1], dh: states[0],
		dr: func() Value { return w.outerProduct(stacks[1], previous) }}
}
