package torch

import (
	"slices"

	"memopt/graph"
)

// folded is a tensor as a matrix with the last dim as columns.
func folded(t tensor) []int64 {
	last := t.dims[len(t.dims)-1]
	if last == 0 {
		return []int64{0, 0}
	}
	return []int64{elements(t.dims) / last, last}
}

// linear is a product with a matrix and the bias added to it in the same kernel.
func linear(k *kernel, _ *row) {
	k.linear(k.value(k.match.Named("x")), k.value(k.match.Named("w")), k.value(k.match.Named("b")))
}

// linear multiplies the rows of x by a matrix of inputs × outputs.
func (k *kernel) linear(x, w, bias tensor) {
	k.start("addmm", x, w, bias)
	rows := k.as(x, folded(x))
	y := k.make(k.outDims(0), k.elem())
	k.one("addmm", y, some(x, w, bias), append(k.keptFor(x, w), k.keptFor(w, rows)...), func(b *back) {
		if x.grad != noGrad {
			g := b.make(x.dims, x.elem)
			g.view = len(x.dims) != 2 // of the rows' gradient
			b.give(x, g)
		}
		b.matrix(w)
		b.fresh(bias)
	})
}

// matrix gives a gradient that lies as the matrix does (mm_mat2_backward keeps its strides).
func (b *back) matrix(w tensor) {
	if w.grad != noGrad {
		b.give(w, b.strided(w.dims, w.stridesLike(), w.elem))
	}
}

// gemm is addmm of matrices that may be transposed.
func gemm(k *kernel, _ *row) {
	x, w := k.in(0), k.in(1)
	swap := []int64{1, 0}
	turned := func(t tensor, attr string) tensor {
		if t.dims == nil || k.n.Int(attr, 0) == 0 {
			return t
		}
		return k.permuted(t, swap)
	}
	k.linear(turned(x, "transA"), turned(w, "transB"), k.in(2))
}

// permuted is a view with dims in another order that is differentiated as such.
func (k *kernel) permuted(t tensor, perm []int64) tensor {
	k.start("t", t)
	y := t.permuted(perm)
	return k.record("t", some(y), some(t), nil, func(b *back) { b.give(t, b.g().permuted(inverse(perm))) })[0]
}

// matmul multiplies: by one matrix as linear does, else batches of matrices, which bmm wants as three
// dims. Where strides do not allow that, copies are made, and saved (aten/src/ATen/native/LinearAlgebra.cpp).
func matmul(k *kernel, r *row) {
	x, y := k.in(0), k.in(1)
	if len(x.dims) < 2 || len(y.dims) < 2 {
		k.start(r.aten, x, y)
		k.one("mv", k.make(k.outDims(0), k.elem()), some(x, y), append(k.keptFor(y, x), k.keptFor(x, y)...),
			func(b *back) { b.fresh(x, y) })
		return
	}
	if len(y.dims) == 2 {
		k.linear(x, y, tensor{storage: none, grad: noGrad})
		return
	}
	dims := k.outDims(0)
	batch := dims[:len(dims)-2]
	p, q := k.batches(x, batch), k.batches(y, batch)
	k.start("bmm", p, q)
	k.one("bmm", k.make(dims, k.elem()), some(p, q), append(k.keptFor(q, p), k.keptFor(p, q)...), func(b *back) {
		b.fresh(p, q)
	})
}

// batches are matrices as bmm wants them: expanded to the batch, and with one dim in its place.
func (k *kernel) batches(t tensor, batch []int64) tensor {
	tail := t.dims[len(t.dims)-2:]
	whole := t.expanded(slices.Concat(batch, tail))
	grown := !slices.Equal(whole.dims, t.dims)
	three := []int64{elements(batch), tail[0], tail[1]}
	k.start("reshape", t)
	out := k.as(whole, three)
	return k.record("reshape", some(out), some(t), nil, func(b *back) {
		g := b.as(b.g(), whole.dims)
		if grown {
			g = b.make(t.dims, t.elem)
		}
		b.give(t, g)
	})[0]
}

// attention is scaled_dot_product_attention on the CPU (ATen/native/transformers/cpu/FlashAttentionKernel.cpp):
// it never has the probabilities, but saves queries, keys, values, the mask, its result and the logarithm of each
// row's sum. Results and gradients lie as batch × sequence × heads × width.
func attention(k *kernel, r *row) {
	m := k.match
	q, key, v := k.value(m.Named("q")), k.value(m.Named("k")), k.value(m.Named("v"))
	mask := tensor{storage: none, grad: noGrad}
	if id := m.Named("mask"); id != graph.NoValue {
		mask = k.value(id)
	}
	k.start(r.aten, q, key, v, mask)
	dims := k.outDims(0)
	y := k.strided(dims, headsInside(dims), k.elem())
	sums := k.make(dims[:3], 4)
	k.one(r.aten, y, some(q, key, v), some(q, key, v, mask, y, sums), func(b *back) {
		for _, t := range []tensor{q, key, v} {
			if t.grad != noGrad {
				b.give(t, b.strided(t.dims, t.stridesLike(), t.elem))
			}
		}
	})
}

// headsInside are the strides of batch × heads × sequence × width where heads of one place lie beside each other.
func headsInside(dims []int64) []int64 {
	heads, length, width := dims[1], dims[2], dims[3]
	return []int64{heads * length * width, width, heads * width, 1}
}

// convolution saves its input and its weights. oneDNN, which computes it on the CPU, reads and writes
// blocked layouts and copies operands to and from these through PyTorch's allocator: forward the input and
// the weights, then the result; backward the gradient and the input, then the weights' gradient.
func convolution(k *kernel, r *row) {
	x, w, bias := k.in(0), k.in(1), k.in(2)
	k.start(r.aten, x, w, bias)
	y := k.make(k.outDims(0), k.elem())
	in, out, weights := blocked(x), blocked(y), w.bytes()
	if x.dims[1] <= plainChannels {
		in = 0
	}
	k.work(max(in+weights, out))
	k.one(r.aten, y, some(x, w, bias), some(x, w), func(b *back) {
		if wanted(x) {
			b.work(max(out+in-x.bytes(), out+in, weights))
		} else {
			b.work(max(out+in, weights))
		}
		b.fresh(x, w, bias)
	})
}

// transposedConvolution computes by columns, one image at a time (slow_conv_transpose2d).
func transposedConvolution(k *kernel, r *row) {
	x, w, bias := k.in(0), k.in(1), k.in(2)
	k.start(r.aten, x, w, bias)
	columns := w.bytes() / max(x.dims[1], 1) * elements(x.dims[2:])
	y := k.make(k.outDims(0), k.elem())
	k.work(columns)
	k.one(r.aten, y, some(x, w, bias), some(x, w), func(b *back) {
		b.work(columns)
		b.fresh(x, w, bias)
	})
}

// Channels of oneDNN's layouts: they come in groups of channelGroup, where there are more than plainChannels
// of them (on processors with AVX-512; with AVX2 groups are of 8).
const (
	channelGroup  = 16
	plainChannels = 3
)

// blocked is the bytes of a tensor of images in such a layout.
func blocked(t tensor) int64 {
	channels := t.dims[1]
	if channels == 0 {
		return 0
	}
	return t.bytes() / channels * up(channels, channelGroup)
}

// batchNorm saves its input and the mean and deviation of each channel.
func batchNorm(k *kernel, r *row) {
	k.norm(r.aten, k.in(0), k.in(1), k.in(2), k.in(0).dims[1])
	k.step.Moves = true
}

// instanceNorm is a batch norm of batch × channels channels. GroupNorm is exported with one, of as many
// channels as there are groups.
func instanceNorm(k *kernel, _ *row) {
	x := k.in(0)
	k.norm("native_group_norm", x, k.in(1), k.in(2), x.dims[0]*x.dims[1])
}

// norm makes a result and two statistics of so many numbers.
func (k *kernel) norm(op string, x, scale, shift tensor, statistics int64) {
	k.start(op, x, scale, shift)
	y := k.make(x.dims, x.elem)
	mean, spread := k.make([]int64{statistics}, 4), k.make([]int64{statistics}, 4)
	k.one(op, y, some(x, scale, shift), some(x, scale, mean, spread), func(b *back) {
		b.work(x.bytes())
		b.fresh(x, scale, shift)
	})
}

// groupNorm is formed by several nodes around an instance norm.
func groupNorm(k *kernel, r *row) {
	x := k.value(k.match.Named("x"))
	groups := k.value(k.match.Named("s")).dims[0]
	k.norm(r.aten, x, k.value(k.match.Named("w")), k.value(k.match.Named("v")), x.dims[0]*groups)
}

// variance saves its input.
func variance(k *kernel, r *row) {
	x := k.value(k.match.Named("x"))
	k.start(r.aten, x)
	k.one(r.aten, k.make(k.outDims(0), k.elem()), some(x), some(x), func(b *back) {
		b.work(2 * x.bytes())
		b.fresh(x)
	})
}

// logitsEntropy is a binary cross-entropy of logits, element by element: logits and targets are saved.
func logitsEntropy(k *kernel, r *row) {
	x, y := k.value(k.match.Named("x")), k.value(k.match.Named("y"))
	k.start(r.aten, x, y)
	k.work(3 * x.bytes())
	k.one(r.aten, k.like(x), some(x), some(x, y), func(b *back) {
		b.work(2 * x.bytes())
		b.fresh(x)
	})
}

// layerNorm saves its input and the mean and deviation of each row.
func layerNorm(k *kernel, r *row) {
	x, scale, shift := k.in(0), k.in(1), k.in(2)
	axis := k.n.Int("axis", -1)
	if k.match != nil {
		null := tensor{storage: none, grad: noGrad}
		x, scale, shift, axis = k.value(k.match.Named("x")), null, null, -1
		if v := k.match.Named("w"); v != graph.NoValue {
			scale, shift = k.value(v), k.value(k.match.Named("b"))
		}
	}
	if axis < 0 {
		axis += int64(len(x.dims))
	}
	rows := elements(x.dims[:axis])
	k.start(r.aten, x, scale, shift)
	if !x.contiguous() {
		k.work(x.bytes())
	}
	y := k.make(x.dims, x.elem)
	mean, spread := k.make([]int64{rows}, 4), k.make([]int64{rows}, 4)
	k.one(r.aten, y, some(x, scale, shift), some(x, scale, shift, mean, spread), func(b *back) {
		b.fresh(x, scale, shift)
	})
}

// dropout multiplies by a scaled mask, which on the CPU has the elements' type. With a ratio of 0 it is
// its input.
func dropout(k *kernel, _ *row) {
	x := k.in(0)
	if ratio, known := k.ratio(); known && ratio == 0 || !k.training() {
		k.set(0, x)
		return
	}
	k.start("bernoulli_", x)
	k.step.Random = true
	mask := k.like(x)
	k.start("mul", x, mask)
	k.one("mul", k.like(x), some(x), some(mask), func(b *back) { b.give(x, b.like(b.g())) })
}

// maxPool saves its input and the place of each maximum, an int64.
func maxPool(k *kernel, r *row) {
	x := k.in(0)
	k.start(r.aten, x)
	y := k.make(k.outDims(0), k.elem())
	at := k.make(y.dims, 8)
	k.one(r.aten, y, some(x), some(x, at), func(b *back) { b.fresh(x) })
}

// averagePool saves its input.
func averagePool(k *kernel, r *row) {
	x := k.in(0)
	k.start(r.aten, x)
	k.one(r.aten, k.make(k.outDims(0), k.elem()), some(x), some(x), func(b *back) { b.fresh(x) })
}

// mean saves sizes alone; the gradient is divided, and so copied to all elements.
func mean(k *kernel, r *row) {
	x := k.in(0)
	k.start(r.aten, x)
	k.one(r.aten, k.make(k.outDims(0), k.elem()), some(x), nil, func(b *back) { b.fresh(x) })
}

// total is a sum; its gradient is the same for all elements, and not copied.
func total(k *kernel, r *row) {
	x := k.in(0)
	k.start(r.aten, x)
	k.one(r.aten, k.make(k.outDims(0), k.elem()), some(x), nil, func(b *back) {
		g := b.g()
		g.dims, g.strides = x.dims, make([]int64, len(x.dims))
		b.give(x, g)
	})
}

// weightNorm saves both parameters and the norms (nn.utils.weight_norm, as one operator on the CPU).
func weightNorm(k *kernel, r *row) {
	v, g := k.value(k.match.Named("v")), k.value(k.match.Named("g"))
	k.start(r.aten, v, g)
	norms := k.make(g.dims, g.elem)
	k.one(r.aten, k.like(v), some(v, g), some(v, g, norms), func(b *back) { b.fresh(v, g) })
}

// norm saves its input and its result.
func norm(k *kernel, r *row) {
	x := k.in(0)
	k.start(r.aten, x)
	y := k.make(k.outDims(0), k.elem())
	k.one(r.aten, y, some(x), some(x, y), func(b *back) { b.fresh(x) })
}

// extremeAlong saves its input and its result.
func extremeAlong(k *kernel, r *row) {
	x := k.in(0)
	k.start(r.aten, x)
	y := k.make(k.outDims(0), k.elem())
	k.one(r.aten, y, some(x), some(x, y), func(b *back) {
		b.work(elements(x.dims)) // where the maximum is
		b.fresh(x)
	})
}

// crossEntropy is a log-softmax and a likelihood, which both save the logarithms.
func crossEntropy(k *kernel, _ *row) {
	x, labels := k.in(0), k.in(1)
	k.start("_log_softmax", x)
	logs := k.make(x.dims, x.elem)
	logs = k.record("_log_softmax", some(logs), some(x), some(logs), func(b *back) { b.fresh(x) })[0]
	k.likelihood(logs, labels)
}

// likelihood saves the logarithms and the labels.
func likelihood(k *kernel, _ *row) { k.likelihood(k.in(0), k.in(1)) }

func (k *kernel) likelihood(logs, labels tensor) {
	k.start("nll_loss_forward", logs, labels)
	y := k.make(k.outDims(0), k.elem())
	weight := k.make([]int64{}, 4)
	k.one("nll_loss", y, some(logs), some(logs, labels, weight), func(b *back) { b.fresh(logs) })
}
