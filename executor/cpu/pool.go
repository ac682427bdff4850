package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// poolCore is the common part of the pools: X [N, C, d…] gives Y [N, C, d'…], plane by plane.
type poolCore struct {
	attrs  windowAttrs
	win    slidingWindow
	planes int
	shape  []int
	rows   int // of the output, over all planes
}

// begin checks the shape of input 0 and computes that of the output.
func (k *poolCore) begin(x *executor.Tensor) error {
	n, c, spatial, err := windowPlanes(x.Shape)
	if err != nil {
		return err
	}
	if k.win, err = k.attrs.onto(spatial, nil); err != nil {
		return err
	}
	if err := k.attrs.slide(&k.win); err != nil {
		return err
	}
	k.planes = n * c
	k.shape = append(append(k.shape[:0], n, c), k.win.out[maxWindowAxes-k.win.rank:]...)
	k.rows = k.planes * k.win.out[0] * k.win.out[1]
	return nil
}

// grain returns the number of rows of the output that make a piece.
func (k *poolCore) grain() int {
	taps := min(windowVolume(k.win.kernel), windowVolume(k.win.in))
	return 1 + 1<<14/(1+k.win.out[2]*taps)
}

// rowOf returns the plane of row r of the output, and its places on the first two axes.
func (k *poolCore) rowOf(r int) (plane, od, oh int) {
	oh = r % k.win.out[1]
	r /= k.win.out[1]
	return r / k.win.out[0], r % k.win.out[0], oh
}

// newPoolCore reads the attributes of a pool.
func newPoolCore(p *executor.Prep) (k poolCore, err error) {
	if k.attrs, err = newWindowAttrs(p); err != nil {
		return k, err
	}
	if k.attrs.kernel == nil {
		return k, p.Errorf("attribute kernel_shape is missing")
	}
	return k, nil
}

// sumPoolKernel is AveragePool and LpPool: under each place of the window, the mean of the
// elements, or (Σ|x|^p)^(1/p). The mean is over the elements of the input, with count_include_pad
// also over those of the padding; never over places beyond it, where ceil_mode lets a window
// extend.
//
// https://onnx.ai/onnx/operators/onnx__AveragePool.html
// https://onnx.ai/onnx/operators/onnx__LpPool.html
type sumPoolKernel[T convFloat] struct {
	poolCore
	norm     lpNorm[T]
	average  bool
	countPad bool
	divisor  int // in place of the number of elements; 0 for none
	add      func(dst, a, b []T)
	x, y     []T
}

// newAveragePool makes an AveragePool.
func newAveragePool(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newSumPool[float32](p, true)
	case graph.Float64:
		return newSumPool[float64](p, true)
	}
	return nil, unsupportedTypes(p)
}

// newLpPool makes an LpPool.
func newLpPool(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newSumPool[float32](p, false)
	case graph.Float64:
		return newSumPool[float64](p, false)
	}
	return nil, unsupportedTypes(p)
}

func newSumPool[T convFloat](p *executor.Prep, average bool) (executor.Kernel, error) {
	core, err := newPoolCore(p)
	if err != nil {
		return nil, err
	}
	norm, err := newLpNorm[T](p)
	if err != nil {
		return nil, err
	}
	return &sumPoolKernel[T]{poolCore: core, norm: norm, average: average, add: newConvMath[T]().add,
		countPad: average && p.Node.Int("count_include_pad", 0) != 0}, nil
}

// Run checks the shape and computes.
func (k *sumPoolKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.begin(x); err != nil {
		return err
	}
	y := c.Out(0, k.shape...)
	if y == nil {
		return nil
	}
	k.x, k.y = executor.Of[T](x), executor.Of[T](y)
	c.Parallel(k.rows, k.grain(), k)
	return nil
}

// Range computes the rows lo..hi-1 of the output.
func (k *sumPoolKernel[T]) Range(lo, hi int) {
	w := &k.win
	size, width := windowVolume(w.in), w.out[2]
	for r := lo; r < hi; r++ {
		plane, od, oh := k.rowOf(r)
		x, y := k.x[plane*size:][:size], k.y[r*width:][:width]
		d0, dlo, dhi := w.taps(0, od)
		h0, hlo, hhi := w.taps(1, oh)
		clear(y)
		for kd := dlo; kd < dhi; kd++ {
			for kh := hlo; kh < hhi; kh++ {
				row := ((d0+kd*w.dilation[0])*w.in[1] + h0 + kh*w.dilation[1]) * w.in[2]
				k.addRow(y, x[row:][:w.in[2]])
			}
		}
		if k.divisor != 0 {
			for i := range y {
				y[i] /= T(k.divisor)
			}
		} else if k.average {
			k.divide(y, d0, h0, (dhi-dlo)*(hhi-hlo))
		} else {
			k.norm.root(y)
		}
	}
}

// addRow adds, tap by tap, the contribution of a row of the input to a row of the output.
func (k *sumPoolKernel[T]) addRow(y, x []T) {
	w := &k.win
	s := w.stride[2]
	first, last := k.tapsOfRow()
	for kw := first; kw < last; kw++ {
		lo, hi := w.places(2, kw)
		if lo == hi {
			continue
		}
		at := lo*s - w.begin[2] + kw*w.dilation[2]
		switch {
		case !k.average:
			k.norm.add(y[lo:hi], x[at:], s)
		case s == 1:
			k.add(y[lo:hi], y[lo:hi], x[at:at+hi-lo])
		case s == 2:
			dst := y[lo:hi]
			src := x[at : at+2*len(dst)-1]
			for i := range dst {
				dst[i] += src[2*i]
			}
		default:
			for i := lo; i < hi; i++ {
				y[i] += x[at]
				at += s
			}
		}
	}
}

// tapsOfRow bounds the taps of the last axis that see the input at any place, so that kernels much
// longer than the input cost no more than the input.
func (k *poolCore) tapsOfRow() (first, last int) {
	w := &k.win
	d := w.dilation[2]
	if reach := w.begin[2] - (w.out[2]-1)*w.stride[2]; reach > 0 {
		first = (reach + d - 1) / d
	}
	last = w.kernel[2]
	if end := w.in[2] + w.begin[2]; end <= 0 {
		last = 0
	} else {
		last = min(last, (end-1)/d+1)
	}
	return first, max(first, last)
}

// divide turns sums into means. seen counts the taps of the first two axes in the input.
func (k *sumPoolKernel[T]) divide(y []T, d0, h0, seen int) {
	w := &k.win
	if k.countPad {
		seen = k.padded(0, d0) * k.padded(1, h0)
	}
	full, inverse := 0, T(0)
	for o := range y {
		w0, lo, hi := w.taps(2, o)
		n := hi - lo
		if k.countPad {
			n = k.padded(2, w0)
		}
		n *= seen
		if n != full {
			full, inverse = n, T(n)
		}
		if n > 0 {
			y[o] /= inverse
		}
	}
}

// padded counts the taps of a window from element start of axis i on that lie in the input or its
// padding.
func (k *poolCore) padded(i, start int) int {
	w := &k.win
	left := w.in[i] + w.finish[i] - start
	if left <= 0 {
		return 0
	}
	return min(w.kernel[i], (left-1)/w.dilation[i]+1)
}
