package cpu

import (
	"sync/atomic"

	"memopt/executor"
	"memopt/graph"
)

// maxPoolGradKernel is ONNX Runtime's MaxPoolGrad: every element of dY [N, C, d'…] is added to the
// place of dX [N, C, d…] that the indices of the MaxPool name. The attributes are those of the
// MaxPool.
//
// The size of X is not among the operands. It is taken from the type of the output if that is
// known. Otherwise, with a stride above 1, several sizes give d' places; the indices, being flat,
// tell them apart, since an index lies under its window for one width only. Sizes that the indices
// leave open are taken to be multiples of the stride.
type maxPoolGradKernel[T convFloat] struct {
	attrs       windowAttrs
	columnMajor bool
	win         slidingWindow
	stated      []int // shape of dX, nil if not known
	known       []int // the shape of dY that win was made for
	shape       []int
	dy, dx      []T
	index       []int64
	in, out     int // elements of a plane
	bad         atomic.Int64
}

// newMaxPoolGrad makes a MaxPoolGrad.
func newMaxPoolGrad(p *executor.Prep) (executor.Kernel, error) {
	if p.DType(1) != graph.Int64 {
		return nil, unsupportedTypes(p)
	}
	switch p.DType(0) {
	case graph.Float32:
		return newMaxPoolGradKernel[float32](p)
	case graph.Float64:
		return newMaxPoolGradKernel[float64](p)
	}
	return nil, unsupportedTypes(p)
}

func newMaxPoolGradKernel[T convFloat](p *executor.Prep) (executor.Kernel, error) {
	core, err := newPoolCore(p)
	if err != nil {
		return nil, err
	}
	k := &maxPoolGradKernel[T]{attrs: core.attrs, columnMajor: p.Node.Int("storage_order", 0) == 1}
	if len(p.Shapes) > 0 {
		k.stated = p.Shapes[0]
	}
	return k, nil
}

// Run finds the size of X and adds up.
func (k *maxPoolGradKernel[T]) Run(c *executor.Ctx) error {
	dy, index := c.In(0), c.In(1)
	n, ch, spatial, err := windowPlanes(dy.Shape)
	if err != nil {
		return err
	}
	if !sameInts(dy.Shape, index.Shape) {
		return c.Errorf("input 1 has shape %v, wanted that of input 0, %v", index.Shape, dy.Shape)
	}
	k.dy, k.index, k.out = executor.Of[T](dy), executor.Of[int64](index), product(spatial)
	if !sameInts(k.known, dy.Shape) {
		k.known = k.known[:0]
		if k.win, err = k.attrs.onto(spatial, nil); err != nil {
			return err
		}
		if k.stated != nil {
			if err := k.take(c, dy.Shape); err != nil {
				return err
			}
		} else if !k.search(n*ch, spatial) {
			return c.Errorf("input 1 has indices that no input of a MaxPool with output %v gives", dy.Shape)
		}
		k.known = append(k.known, dy.Shape...)
	}
	k.in = windowVolume(k.win.in)
	k.shape = append(append(k.shape[:0], n, ch), k.win.in[maxWindowAxes-k.win.rank:]...)
	dx := c.Out(0, k.shape...)
	if dx == nil {
		return nil
	}
	k.dx = executor.Of[T](dx)
	k.bad.Store(0)
	c.Parallel(n*ch, 1+1<<14/max(1, k.in), k)
	if at := k.bad.Load(); at > 0 {
		return c.Errorf("input 1 has index %d at element %d, which is not in that element's plane of %d elements",
			k.index[at-1], at-1, k.in)
	}
	return nil
}

// take sets the window to one over the stated input, which must give dY's shape.
func (k *maxPoolGradKernel[T]) take(c *executor.Ctx, dy []int) error {
	off := maxWindowAxes - k.win.rank
	if len(k.stated) == len(dy) && sameInts(k.stated[:2], dy[:2]) {
		k.win.in = [...]int{1, 1, 1}
		copy(k.win.in[off:], k.stated[2:])
		if err := k.attrs.slide(&k.win); err != nil {
			return err
		}
		if sameInts(k.win.out[off:], dy[2:]) {
			return nil
		}
	}
	return c.Errorf("input 0 has shape %v, which no MaxPool of an input %v gives", dy, k.stated)
}

// search sets the window to one over an input that has as many places as spatial says, and under
// whose places the indices lie.
func (k *maxPoolGradKernel[T]) search(planes int, spatial []int) bool {
	var sizes [maxWindowAxes][]int
	off := maxWindowAxes - len(spatial)
	for i := range sizes {
		if i < off {
			sizes[i] = []int{1}
			continue
		}
		sizes[i] = k.candidates(i, spatial[i-off])
	}
	for _, w := range sizes[2] {
		for _, h := range sizes[1] {
			for _, d := range sizes[0] {
				k.win.in = [...]int{d, h, w}
				if k.attrs.slide(&k.win) == nil && k.fits(planes) {
					return true
				}
			}
		}
	}
	return false
}

// candidates lists the sizes of axis i that give out places, multiples of the stride first.
func (k *maxPoolGradKernel[T]) candidates(i, out int) []int {
	w := k.win
	s := w.stride[i]
	exact := (out-1)*s + w.extent(i) - w.begin[i] - w.finish[i]
	if k.attrs.autoPad == "SAME_UPPER" || k.attrs.autoPad == "SAME_LOWER" {
		exact = out * s
	}
	most := exact + s - 1
	if k.attrs.ceil { // which drops a last window that would start in the padding
		most = max(most, out*s-w.begin[i])
	}
	var multiples, others []int
	for in := max(1, exact-s+1); in <= most; in++ {
		one := slidingWindow{rank: 1, stride: [...]int{1, 1, s}, dilation: [...]int{1, 1, w.dilation[i]},
			kernel: [...]int{1, 1, w.kernel[i]}}
		one.in[2], one.begin[2], one.finish[2] = in, w.begin[i], w.finish[i]
		if k.attrs.slide(&one) != nil || one.out[2] != out {
			continue
		}
		if in%s == 0 {
			multiples = append(multiples, in)
		} else {
			others = append(others, in)
		}
	}
	return append(multiples, others...)
}

// fits reports whether all indices lie under their windows.
func (k *maxPoolGradKernel[T]) fits(planes int) bool {
	w := &k.win
	size := windowVolume(w.in)
	i := 0
	for p := range planes {
		for od := range w.out[0] {
			for oh := range w.out[1] {
				for ow := range w.out[2] {
					at := int(k.index[i]) - p*size
					if k.index[i] != -1 && !k.under(at, size, [3]int{od, oh, ow}) {
						return false
					}
					i++
				}
			}
		}
	}
	return true
}

// under reports whether element at of a plane lies under the window at place o.
func (k *maxPoolGradKernel[T]) under(at, size int, o [3]int) bool {
	if uint(at) >= uint(size) {
		return false
	}
	at = k.rowMajor(at)
	w := &k.win
	place := [3]int{at / (w.in[1] * w.in[2]), at / w.in[2] % w.in[1], at % w.in[2]}
	for i := range place {
		far := place[i] - o[i]*w.stride[i] + w.begin[i]
		if far < 0 || far >= w.extent(i) {
			return false
		}
	}
	return true
}

// rowMajor turns an index in a plane into an offset.
func (k *maxPoolGradKernel[T]) rowMajor(at int) int {
	if !k.columnMajor {
		return at
	}
	d, h, w := k.win.in[0], k.win.in[1], k.win.in[2]
	return (at%d*h+at/d%h)*w + at/(d*h)
}

// Range adds up the planes lo..hi-1.
func (k *maxPoolGradKernel[T]) Range(lo, hi int) {
	for p := lo; p < hi; p++ {
		dx := k.dx[p*k.in:][:k.in]
		clear(dx)
		index := k.index[p*k.out:][:k.out]
		for i, v := range k.dy[p*k.out:][:k.out] {
			at := int(index[i]) - p*k.in
			if uint(at) >= uint(len(dx)) {
				if index[i] != -1 {
					k.bad.CompareAndSwap(0, int64(p*k.out+i)+1)
				}
				continue
			}
			if k.columnMajor {
				at = k.rowMajor(at)
			}
			dx[at] += v
		}
	}
}
