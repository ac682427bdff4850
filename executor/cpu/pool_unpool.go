package cpu

import (
	"sync/atomic"

	"memopt/executor"
	"memopt/graph"
)

// maxUnpoolKernel is MaxUnpool: the elements of X [N, C, d…] at the places of Y [N, C, d'…] that
// the indices of a MaxPool name, and 0 elsewhere. On every axis d' = stride*(d-1) + kernel -
// begin - end. Indices refer to that shape, even if input 2 states another one; the planes then lie
// in its first corner.
//
// If several elements go to one place, the last counts.
//
// https://onnx.ai/onnx/operators/onnx__MaxUnpool.html
type maxUnpoolKernel struct {
	attrs windowAttrs
	shape []int
	own   [maxWindowAxes]int // dims of the planes that the indices refer to
	full  [maxWindowAxes]int // dims of the planes of Y
	in    int                // elements of a plane of X
	size  int                // bytes per element
	x, y  []byte
	index []int64
	bad   atomic.Int64 // 1 + the place of an index out of range, or 0
}

// newMaxUnpool makes a MaxUnpool.
func newMaxUnpool(p *executor.Prep) (executor.Kernel, error) {
	attrs, err := newWindowAttrs(p)
	if err != nil {
		return nil, err
	}
	if attrs.kernel == nil {
		return nil, p.Errorf("attribute kernel_shape is missing")
	}
	k := &maxUnpoolKernel{attrs: attrs, size: p.DType(0).Bits() / 8}
	if k.size < 1 || p.DType(1) != graph.Int64 || p.Has(2) && p.DType(2) != graph.Int64 {
		return nil, unsupportedTypes(p)
	}
	return k, nil
}

// Run checks the operands and scatters plane by plane.
func (k *maxUnpoolKernel) Run(c *executor.Ctx) error {
	x, index := c.In(0), c.In(1)
	if err := k.planes(c); err != nil {
		return err
	}
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	k.x, k.y, k.index = x.Data, y.Data, executor.Of[int64](index)
	k.bad.Store(0)
	c.Parallel(k.shape[0]*k.shape[1], 1+1<<14/max(1, windowVolume(k.full)), k)
	if at := k.bad.Load(); at > 0 {
		return c.Errorf("input 1 has index %d at element %d, which is not in that element's plane of %d elements",
			k.index[at-1], at-1, windowVolume(k.own))
	}
	return nil
}

// planes finds the sizes of planes and the shape of Y.
func (k *maxUnpoolKernel) planes(c *executor.Ctx) error {
	x, index := c.In(0), c.In(1)
	n, ch, spatial, err := windowPlanes(x.Shape)
	if err != nil {
		return err
	}
	if !sameInts(x.Shape, index.Shape) {
		return c.Errorf("input 1 has shape %v, wanted that of input 0, %v", index.Shape, x.Shape)
	}
	w, err := k.attrs.onto(spatial, nil)
	if err != nil {
		return err
	}
	k.own, k.in = [...]int{1, 1, 1}, windowVolume(w.in)
	for i := maxWindowAxes - w.rank; i < maxWindowAxes; i++ {
		k.own[i] = (w.in[i]-1)*w.stride[i] + w.kernel[i] - w.begin[i] - w.finish[i]
		if k.own[i] < 0 {
			return c.Errorf("spatial axis %d of the output has size %d", i-maxWindowAxes+w.rank, k.own[i])
		}
	}
	k.full = k.own
	k.shape = append(append(k.shape[:0], n, ch), k.own[maxWindowAxes-w.rank:]...)
	return k.stated(c, w.rank)
}

// stated reads the shape of the output from input 2.
func (k *maxUnpoolKernel) stated(c *executor.Ctx, rank int) error {
	t := c.In(2)
	if t == nil {
		return nil
	}
	want := executor.Of[int64](t)
	if len(want) != rank+2 || want[0] != int64(k.shape[0]) || want[1] != int64(k.shape[1]) {
		return c.Errorf("input 2 (output_shape) is %v, wanted batch %d, channels %d and %d spatial sizes",
			want, k.shape[0], k.shape[1], rank)
	}
	off := maxWindowAxes - rank
	for i := range rank {
		if want[2+i] < int64(k.own[off+i]) || want[2+i] > 1<<40 {
			return c.Errorf("input 2 (output_shape) is %v, wanted at least %d on spatial axis %d",
				want, k.own[off+i], i)
		}
		k.full[off+i] = int(want[2+i])
		k.shape[2+i] = int(want[2+i])
	}
	return nil
}

// Range scatters the planes lo..hi-1.
func (k *maxUnpoolKernel) Range(lo, hi int) {
	own, full := windowVolume(k.own), windowVolume(k.full)
	for p := lo; p < hi; p++ {
		y := k.y[p*full*k.size:][:full*k.size]
		clear(y)
		for i := p * k.in; i < (p+1)*k.in; i++ {
			at := int(k.index[i]) - p*own
			if uint(at) >= uint(own) {
				k.bad.CompareAndSwap(0, int64(i)+1)
				continue
			}
			if k.own != k.full {
				d, h, w := at/(k.own[1]*k.own[2]), at/k.own[2]%k.own[1], at%k.own[2]
				at = (d*k.full[1]+h)*k.full[2] + w
			}
			copy(y[at*k.size:][:k.size], k.x[i*k.size:])
		}
	}
}
