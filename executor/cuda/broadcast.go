package cuda

import (
	"memopt/executor"
	"memopt/executor/cuda/driver"
)

// maxDims is MAX_DIMS of kernels/elementwise.h.
const maxDims = 8

// broadcast says where the elements of up to three operands lie that are stretched to one shape.
type broadcast struct {
	shape   []int // of the output
	n       int   // its elements
	in      []*executor.Tensor
	one     uint32
	strided uint32
	dims    []int // of the output, innermost first, neighbours merged
	strides [3][]int
}

// set finds the common shape of the operands, by numpy's broadcasting.
func (b *broadcast) set(c *executor.Ctx, in ...*executor.Tensor) error {
	b.in = append(b.in[:0], in...)
	rank := 0
	for i, t := range in {
		if t == nil {
			return c.Errorf("input %d is left out; it is required", i)
		}
		rank = max(rank, t.Rank())
	}
	b.shape = b.shape[:0]
	for range rank {
		b.shape = append(b.shape, 1)
	}
	for i, t := range in {
		if err := widenTo(c, b.shape, i, t); err != nil {
			return err
		}
	}
	return b.place(c)
}

// place finds the operands' strides and merges dims.
func (b *broadcast) place(c *executor.Ctx) error {
	b.n = 1
	for _, d := range b.shape {
		b.n *= d
	}
	b.one, b.strided = 0, 0
	for i, t := range b.in {
		switch n := t.Len(); {
		case n == 1:
			b.one |= 1 << i
		case n != b.n:
			b.strided = 1
		}
	}
	if b.strided == 0 || b.n == 0 {
		b.dims = b.dims[:0]
		return nil
	}
	b.merge()
	if len(b.dims) > maxDims {
		return c.Errorf("shapes that need %d dims to be broadcast; the CUDA kernels have %d", len(b.dims), maxDims)
	}
	return nil
}

// A dim joins the one inside it if every operand's stride fits: one step of the outer dim is a
// whole run of the inner one. For example, [4, 5] + [4, 5] is one loop of 20.
func (b *broadcast) merge() {
	b.dims = b.dims[:0]
	var next [3]int // stride of the next dim of an operand that has it
	for k := range b.in {
		next[k], b.strides[k] = 1, b.strides[k][:0]
	}
	for axis := len(b.shape) - 1; axis >= 0; axis-- {
		d := b.shape[axis]
		if d == 1 {
			continue
		}
		var stride [3]int
		for k, t := range b.in {
			if i := axis - (len(b.shape) - t.Rank()); i >= 0 && t.Shape[i] != 1 {
				stride[k] = next[k]
				next[k] *= d
			}
		}
		last := len(b.dims) - 1
		joins := last >= 0
		for k := range b.in {
			joins = joins && stride[k] == b.strides[k][last]*b.dims[last]
		}
		if joins {
			b.dims[last] *= d
			continue
		}
		b.dims = append(b.dims, d)
		for k := range b.in {
			b.strides[k] = append(b.strides[k], stride[k])
		}
	}
}

// pack packs broadcast_args.
func (b *broadcast) pack(a *driver.Args, y *executor.Tensor) {
	for k := range 3 {
		if k < len(b.in) {
			a.In(b.in[k].Data)
		} else {
			a.In(nil)
		}
	}
	a.Out(y.Data).Int(b.n).Uint32(b.one).Uint32(b.strided).Int32(int32(len(b.dims)))
	for i := range maxDims {
		if i < len(b.dims) {
			a.Divider(b.dims[i])
		} else {
			a.Divider(1)
		}
	}
	for k := range 3 {
		for i := range maxDims {
			stride := 0
			if k < len(b.in) && i < len(b.dims) {
				stride = b.strides[k][i]
			}
			a.Uint32(uint32(stride))
		}
	}
}
