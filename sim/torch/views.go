package torch

import "slices"

// view makes a tensor that lies in another one's storage the output, whose gradient to gives back.
func (k *kernel) view(op string, x, y tensor, to func(b *back) tensor) {
	k.start(op, x)
	k.one(op, y, some(x), nil, func(b *back) { b.give(x, to(b)) })
}

// as is a tensor under other dims: a view where its strides allow that, else a copy, which the step makes. The
// step has noted that it reads the tensor.
func (m *machine) as(t tensor, dims []int64) tensor {
	if strides, ok := t.viewStrides(dims); ok {
		t.dims, t.strides, t.view = dims, strides, true
		return t
	}
	return m.make(dims, t.elem)
}

// reshape changes dims.
func reshape(k *kernel, r *row) {
	x := k.in(0)
	if !x.there() {
		plain(k, r)
		return
	}
	k.start(r.aten, x)
	y := k.as(x, k.outDims(0))
	k.one(r.aten, y, some(x), nil, func(b *back) { b.give(x, b.as(b.g(), x.dims)) })
}

// permute changes the order of dims.
func permute(k *kernel, r *row) {
	x := k.in(0)
	perm := k.n.IntList("perm", nil)
	if perm == nil {
		for i := range x.dims {
			perm = append(perm, int64(len(x.dims)-1-i))
		}
	}
	if !x.there() {
		plain(k, r)
		return
	}
	k.view(r.aten, x, x.permuted(perm), func(b *back) tensor { return b.g().permuted(inverse(perm)) })
}

// expand repeats elements without copying them; the gradient is their sum.
func expand(k *kernel, r *row) {
	x := k.in(0)
	dims := k.outDims(0)
	if !x.there() {
		plain(k, r)
		return
	}
	k.view(r.aten, x, x.expanded(dims), func(b *back) tensor {
		if slices.Equal(x.dims, dims) {
			return b.g()
		}
		return b.make(x.dims, x.elem)
	})
}

// expanded is the view with larger dims, whose elements repeat where its own dim is 1 or missing.
func (t tensor) expanded(dims []int64) tensor {
	out := t
	out.dims, out.strides, out.view = dims, make([]int64, len(dims)), true
	for i := range t.dims {
		at := len(dims) - len(t.dims) + i
		if t.dims[i] == dims[at] {
			out.strides[at] = t.strides[i]
		}
	}
	return out
}

// split cuts a tensor into views; the gradient is put together from theirs.
func split(k *kernel, r *row) {
	x := k.in(0)
	if !x.there() {
		plain(k, r)
		return
	}
	k.start(r.aten, x)
	var outs []tensor
	for i := range k.n.Outputs {
		y := x
		y.dims = k.outDims(i)
		outs = append(outs, y)
	}
	outs = k.record(r.aten, outs, some(x), nil, func(b *back) {
		for i, g := range b.outs {
			if !g.there() {
				b.work(outs[i].bytes()) // zeros in its place
			}
		}
		b.fresh(x)
	})
	for i := range outs {
		k.set(i, outs[i])
	}
}

// slice is a view; the gradient is zeros with that of the slice in them.
func slice(k *kernel, r *row) {
	x := k.in(0)
	y := x
	y.dims = k.outDims(0)
	if !x.there() || slices.Equal(y.dims, x.dims) {
		alias(k, r)
		return
	}
	k.view(r.aten, x, y, func(b *back) tensor { return b.make(x.dims, x.elem) })
}

// concat copies; the gradients are views of the whole one.
func concat(k *kernel, r *row) {
	var in []tensor
	for i := range k.n.Inputs {
		in = append(in, k.in(i))
	}
	k.start(r.aten, in...)
	k.one(r.aten, k.make(k.outDims(0), k.elem()), in, nil, func(b *back) {
		for _, x := range in {
			if x.dims == nil {
				continue
			}
			g := b.g()
			g.dims, g.view = x.dims, true
			b.give(x, g)
		}
	})
}

// gather takes rows: of a matrix by a tensor of indices it is an embedding, by one index a view, else
// index_select.
func gather(k *kernel, r *row) {
	x, at := k.in(0), k.in(1)
	dims := k.outDims(0)
	if !x.there() {
		plain(k, r)
		return
	}
	if !at.there() && len(at.dims) == 0 { // select
		y := x
		axis := k.n.Int("axis", 0)
		if axis < 0 {
			axis += int64(len(x.dims))
		}
		y.dims = dims
		y.strides = slices.Delete(slices.Clone(x.strides), int(axis), int(axis)+1)
		k.view("select", x, y, func(b *back) tensor {
			if axis > 0 { // x[:, i] takes a slice of the dims before
				b.work(x.bytes())
			}
			return b.make(x.dims, x.elem)
		})
		return
	}
	name := r.aten
	if len(x.dims) == 2 && k.n.Int("axis", 0) == 0 {
		name = "embedding"
	}
	k.start(name, x, at)
	k.one(name, k.make(dims, k.elem()), some(x), some(at), func(b *back) { b.fresh(x) })
}

// pick takes elements, and saves where.
func pick(k *kernel, r *row) {
	x, at := k.in(0), k.in(1)
	k.start(r.aten, x, at)
	k.one(r.aten, k.make(k.outDims(0), k.elem()), some(x), some(at), func(b *back) { b.fresh(x) })
}

// scatter copies and writes into the copy, and saves where.
func scatter(k *kernel, r *row) {
	x, at, with := k.in(0), k.in(1), k.in(2)
	k.start(r.aten, x, at, with)
	k.one(r.aten, k.make(k.outDims(0), k.elem()), some(x, with), some(at), func(b *back) { b.fresh(x, with) })
}
