package torch

import "slices"

// plain makes outputs without gradients.
func plain(k *kernel, r *row) {
	k.start(r.aten)
	for i := range k.n.Inputs {
		k.read(k.in(i))
	}
	for i, v := range k.n.Outputs {
		if t, err := k.sized(v); err == nil {
			k.set(i, k.make(t.dims, t.elem))
		}
	}
}

// unary is an operator of one tensor, or several nodes that are one, whose result has its dims.
func unary(k *kernel, r *row) {
	x := k.in(0)
	if k.match != nil {
		x = k.value(k.match.Input())
	}
	k.start(r.aten, x)
	y := x
	if r.saves == input || !k.inPlace() { // in place, an input that is saved is copied first
		y = k.like(x)
	}
	k.one(r.aten, y, some(x), r.kept(x, y), func(b *back) {
		b.work(r.temps * x.bytes())
		b.give(x, b.like(x))
	})
}

// kept lists the tensors that an operator of one tensor saves.
func (r *row) kept(x, y tensor) []tensor {
	switch r.saves {
	case input:
		return some(x)
	case result:
		return some(y)
	}
	return nil
}

// oneOver is 1/x, which Python computes as the reciprocal times one.
func oneOver(k *kernel, r *row) {
	x := k.in(0)
	k.start(r.aten, x)
	y := k.record(r.aten, some(k.like(x)), some(x), nil, nil)[0]
	if wanted(x) {
		last := &k.tape[len(k.tape)-1]
		last.saves, last.reads = true, []StorageID{y.storage}
		last.backOf = func(b *back) {
			b.work(r.temps * x.bytes())
			b.give(x, b.like(x))
		}
	}
	k.start("mul", y)
	k.one("mul", k.like(y), some(y), some(k.number()), func(b *back) { b.give(y, b.like(y)) })
}

// clamp saves its input; its backward makes a mask of it.
func clamp(k *kernel, r *row) {
	x := k.in(0)
	k.start(r.aten, x)
	k.one(r.aten, k.like(x), some(x), some(x), func(b *back) {
		b.work(elements(x.dims))
		b.give(x, b.like(x))
	})
}

// number is a number of Python as the tensor that autograd saves of it, a double.
func (k *kernel) number() tensor { return k.make([]int64{}, 8) }

// prelu saves its input; its backward makes a gradient of the slope for every element before it is summed.
func prelu(k *kernel, r *row) {
	x, slope := k.in(0), k.in(1)
	k.start(r.aten, x, slope)
	k.one(r.aten, k.like(x), some(x, slope), some(x, slope), func(b *back) {
		b.work(x.bytes())
		b.fresh(x, slope)
	})
}

// plainUnary is an operator of one tensor that saves no tensor and whose result has dims of its
// own.
func plainUnary(k *kernel, r *row) {
	x := k.in(0)
	k.start(r.aten, x)
	k.one(r.aten, k.make(k.outDims(0), k.elem()), some(x), nil, func(b *back) { b.fresh(x) })
}

// pair begins an operator of two operands and makes its result, which lies as the first operand does that
// is as large.
func (k *kernel) pair(r *row) (x, y, out tensor) {
	x, y = k.in(0), k.in(1)
	k.start(r.aten, x, y)
	return x, y, k.combined(x, y)
}

// combined makes the result of operands that are broadcast against each other.
func (k *kernel) combined(ts ...tensor) tensor {
	dims := k.outDims(0)
	for _, t := range ts {
		if t.there() && slices.Equal(t.dims, dims) {
			return k.strided(dims, t.stridesLike(), k.elem())
		}
	}
	return k.make(dims, k.elem())
}

// reduced gives a gradient with the dims of a broadcast result: where the operand was smaller, its sum.
func (b *back) reduced(t, grad tensor) {
	if t.grad == noGrad {
		return
	}
	if !slices.Equal(t.dims, grad.dims) {
		grad = b.make(t.dims, t.elem)
	}
	b.give(t, grad)
}

// sum is a sum or a difference. The gradient of a summand that was not broadcast is that of the sum itself.
func sum(k *kernel, r *row) {
	x, y, out := k.pair(r)
	k.one(r.aten, out, some(x, y), nil, func(b *back) {
		b.reduced(x, b.g())
		if r.aten == "sub" && y.grad != noGrad && slices.Equal(y.dims, b.g().dims) {
			b.give(y, b.like(b.g())) // negated
			return
		}
		b.reduced(y, b.g())
	})
}

// product saves each factor for the gradient of the other.
func product(k *kernel, r *row) {
	x, y, out := k.pair(r)
	k.one(r.aten, out, some(x, y), append(k.keptFor(y, x), k.keptFor(x, y)...), func(b *back) {
		b.times(x)
		b.times(y)
	})
}

// keptFor lists a tensor that is saved if the gradient of another one is wanted; of a number of the host, a
// tensor of it.
func (k *kernel) keptFor(other, t tensor) []tensor {
	switch {
	case !wanted(other):
		return nil
	case !t.there():
		return some(k.number())
	}
	return some(t)
}

// times gives the gradient times something, summed where the operand was broadcast.
func (b *back) times(t tensor) {
	if t.grad == noGrad || t.dims == nil {
		return
	}
	g := b.g()
	if slices.Equal(t.dims, g.dims) {
		b.give(t, b.like(g))
		return
	}
	b.work(elements(g.dims) * g.elem)
	b.fresh(t)
}

// quotient saves the divisor, and the dividend for the divisor's gradient.
func quotient(k *kernel, r *row) {
	x, y, out := k.pair(r)
	keep := k.keptFor(x, y)
	if wanted(y) {
		keep = some(x, y)
	}
	k.one(r.aten, out, some(x, y), keep, func(b *back) {
		b.times(x)
		if wanted(y) { // −g·(x/y)/y in four steps, before the other gradient is there
			temps := int64(3)
			if wanted(x) {
				temps = 2
			}
			b.work(temps * elements(b.g().dims) * b.g().elem)
		}
		b.times(y)
	})
}

// power saves the base, and the result for the gradient of an exponent that is a tensor.
func power(k *kernel, r *row) {
	x, y, out := k.pair(r)
	keep := some(x)
	if y.there() {
		keep = append(keep, y)
	}
	if wanted(y) {
		keep = append(keep, out)
	}
	k.one(r.aten, out, some(x, y), keep, func(b *back) {
		b.work(2 * elements(b.g().dims) * b.g().elem) // the power below, and its factor
		b.times(x)
		b.times(y)
	})
}

// extreme is the larger or smaller of two: both are saved.
func extreme(k *kernel, r *row) {
	x, y, out := k.pair(r)
	k.one(r.aten, out, some(x, y), some(x, y), func(b *back) {
		b.work(elements(b.g().dims)) // a mask
		b.times(x)
		b.times(y)
	})
}

// where saves its condition.
func where(k *kernel, r *row) {
	c, x, y := k.in(0), k.in(1), k.in(2)
	k.start(r.aten, c, x, y)
	k.one(r.aten, k.combined(x, y), some(x, y), some(c), func(b *back) {
		b.times(x)
		b.times(y)
	})
}

// cast converts elements; a cast to their own type makes no new tensor.
func cast(k *kernel, r *row) {
	x := k.in(0)
	if !x.there() {
		plain(k, r)
		return
	}
	if k.g.Values[k.n.Inputs[0]].Type.DType == k.g.Values[k.n.Outputs[0]].Type.DType {
		k.set(0, x)
		return
	}
	k.start(r.aten, x)
	y := k.strided(x.dims, x.stridesLike(), k.elem())
	if !k.g.Values[k.n.Outputs[0]].Type.DType.IsFloat() {
		k.set(0, y)
		return
	}
	k.one(r.aten, y, some(x), nil, func(b *back) { b.give(x, b.like(x)) })
}

// alias is its input.
func alias(k *kernel, _ *row) { k.set(0, k.in(0)) }
