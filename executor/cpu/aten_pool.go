package cpu

import (
	"math"
	"slices"
	"sync/atomic"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// atenWindow reads the window of PyTorch's pools over X [N, C, H, W] from the inputs kernel, strides, pads,
// dilations and whether sizes are rounded up.
type atenWindow struct{ kernel, dilations, ceil int } // the slots; -1 without dilations

// read sets the attributes of a window.
func (w atenWindow) read(c *executor.Ctx, x *executor.Tensor, a *windowAttrs) (err error) {
	if x.Rank() != 4 {
		return c.Errorf("X has shape %v, wanted batch, channel and two spatial axes", x.Shape)
	}
	a.autoPad = "NOTSET"
	if a.kernel, err = atenPair(c, w.kernel, 1, windowBound, a.kernel[:0]); err != nil {
		return err
	}
	if a.strides, err = atenPair(c, w.kernel+1, 1, windowBound, a.strides[:0]); err != nil {
		return err
	}
	if len(a.strides) == 0 {
		a.strides = append(a.strides, a.kernel...)
	}
	if a.pads, err = atenPair(c, w.kernel+2, 0, windowBound, a.pads[:0]); err != nil {
		return err
	}
	a.pads = append(a.pads, a.pads...)
	for i, k := range a.kernel {
		if len(a.pads) > 0 && a.pads[i] > k/2 {
			return c.Errorf("input %d pads by %v, wanted at most half of the kernel %v", w.kernel+2,
				append([]int(nil), a.pads...), append([]int(nil), a.kernel...))
		}
	}
	if len(a.pads) == 0 {
		a.pads = append(a.pads, 0, 0, 0, 0)
	}
	if a.dilations = a.dilations[:0]; w.dilations >= 0 {
		if a.dilations, err = atenPair(c, w.dilations, 1, windowBound, a.dilations); err != nil {
			return err
		}
	}
	if len(a.dilations) == 0 {
		a.dilations = append(a.dilations, 1, 1)
	}
	a.ceil = moveFlag(c.In(w.ceil))
	return nil
}

// atenPair reads two integers, or one that stands for both. An input that is left out has none.
func atenPair(c *executor.Ctx, slot, least, most int, list []int) ([]int, error) {
	if c.In(slot) == nil {
		return list, nil
	}
	list, err := operand.Ints(c, slot, list)
	if err != nil {
		return list, err
	}
	if len(list) == 1 {
		list = append(list, list[0])
	}
	if len(list) != 0 && len(list) != 2 {
		return list, c.Errorf("input %d is %v, wanted two integers", slot, append([]int(nil), list...))
	}
	for _, v := range list {
		if v < least || v > most {
			return list, c.Errorf("input %d has %d, wanted %d to %d", slot, v, least, most)
		}
	}
	return list, nil
}

// ofFloats makes a kernel for float32 or float64; 16-bit types are computed in float32.
func ofFloats(make32, make64 func() executor.Kernel) func(*executor.Prep) (executor.Kernel, error) {
	return widened(func(p *executor.Prep) (executor.Kernel, error) {
		switch p.DType(0) {
		case graph.Float32:
			return make32(), nil
		case graph.Float64:
			return make64(), nil
		}
		return nil, unsupportedTypes(p)
	})
}

// atenMaxPool is max_pool2d_with_indices: a MaxPool whose indices are places in a plane.
// https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.max_pool2d.html
type atenMaxPool[T convFloat] struct{ maxPoolKernel[T] }

func newATenMaxPool[T convFloat]() executor.Kernel {
	k := &atenMaxPool[T]{}
	k.least, k.inPlane = T(math.Inf(-1)), true
	return k
}

// Run reads the window and computes.
func (k *atenMaxPool[T]) Run(c *executor.Ctx) error {
	if err := (atenWindow{1, 4, 5}).read(c, c.In(0), &k.attrs); err != nil {
		return err
	}
	return k.maxPoolKernel.Run(c)
}

// atenMaxPoolBackward adds each element of dY to the place of dX that its index names. Inputs are dY, X, the
// window's, and the indices.
type atenMaxPoolBackward[T convFloat] struct {
	dy, dx  []T
	index   []int64
	in, out int // elements of a plane
	bad     atomic.Int64
}

func newATenMaxPoolBackward[T convFloat]() executor.Kernel { return &atenMaxPoolBackward[T]{} }

// Run checks the shapes and adds up.
func (k *atenMaxPoolBackward[T]) Run(c *executor.Ctx) error {
	dy, x, index := c.In(0), c.In(1), c.In(7)
	if index == nil || index.DType != graph.Int64 {
		return c.Errorf("input 7, the indices, is %v, wanted int64", index)
	}
	if dy.Rank() != 4 || x.Rank() != 4 || !sameInts(dy.Shape, index.Shape) || !sameInts(dy.Shape[:2], x.Shape[:2]) {
		return c.Errorf("dY is %v, X %v and the indices %v, wanted planes of a pool", dy.Shape, x.Shape, index.Shape)
	}
	dx := c.Out(0, x.Shape...)
	if dx == nil {
		return nil
	}
	k.dy, k.dx, k.index = executor.Of[T](dy), executor.Of[T](dx), executor.Of[int64](index)
	k.in, k.out = x.Shape[2]*x.Shape[3], dy.Shape[2]*dy.Shape[3]
	k.bad.Store(0)
	c.Parallel(x.Shape[0]*x.Shape[1], 1+1<<14/max(1, k.in), k)
	if at := k.bad.Load(); at > 0 {
		return c.Errorf("input 7 has index %d at element %d; a plane has %d elements", k.index[at-1], at-1, k.in)
	}
	return nil
}

// Range adds up the planes lo..hi-1.
func (k *atenMaxPoolBackward[T]) Range(lo, hi int) {
	for p := lo; p < hi; p++ {
		dx := k.dx[p*k.in:][:k.in]
		clear(dx)
		index := k.index[p*k.out:][:k.out]
		for i, v := range k.dy[p*k.out:][:k.out] {
			if at := index[i]; uint64(at) < uint64(len(dx)) {
				dx[at] += v
			} else {
				k.bad.CompareAndSwap(0, int64(p*k.out+i)+1)
			}
		}
	}
}

// atenAvgPool is avg_pool2d: an AveragePool, or sums over a divisor (input 6).
// https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.avg_pool2d.html
type atenAvgPool[T convFloat] struct{ sumPoolKernel[T] }

func newATenAvgPool[T convFloat]() executor.Kernel {
	k := &atenAvgPool[T]{}
	k.average, k.add = true, newConvMath[T]().add
	return k
}

// Run reads the window and computes.
func (k *atenAvgPool[T]) Run(c *executor.Ctx) (err error) {
	if err := (atenWindow{1, -1, 4}).read(c, c.In(0), &k.attrs); err != nil {
		return err
	}
	k.countPad = moveFlag(c.In(5))
	if k.divisor, err = atenDivisor(c, 6); err != nil {
		return err
	}
	return k.sumPoolKernel.Run(c)
}

// atenDivisor reads the divisor of an avg_pool2d, 0 where it is left out.
func atenDivisor(c *executor.Ctx, slot int) (int, error) {
	if c.In(slot) == nil {
		return 0, nil
	}
	d, err := operand.Int(c, slot, 0)
	if err == nil && d == 0 {
		err = c.Errorf("input %d is 0, wanted a divisor", slot)
	}
	return d, err
}

// atenAvgPoolBackward gives each element under a place of the window that place's gradient over the number of
// elements that it averages. Inputs are dY, X and those of the pool.
type atenAvgPoolBackward[T convFloat] struct {
	poolCore
	countPad bool
	divisor  int
	dy, dx   []T
}

func newATenAvgPoolBackward[T convFloat]() executor.Kernel { return &atenAvgPoolBackward[T]{} }

// Run reads the window and adds up.
func (k *atenAvgPoolBackward[T]) Run(c *executor.Ctx) (err error) {
	dy, x := c.In(0), c.In(1)
	if err := (atenWindow{2, -1, 5}).read(c, x, &k.attrs); err != nil {
		return err
	}
	k.countPad = moveFlag(c.In(6))
	if k.divisor, err = atenDivisor(c, 7); err != nil {
		return err
	}
	if err := k.begin(x); err != nil {
		return err
	}
	if !sameInts(k.shape, dy.Shape) {
		return c.Errorf("input 0 has shape %v; the pool of %v gives %v", dy.Shape, x.Shape, slices.Clone(k.shape))
	}
	dx := c.Out(0, x.Shape...)
	if dx == nil {
		return nil
	}
	k.dy, k.dx = executor.Of[T](dy), executor.Of[T](dx)
	c.Parallel(k.planes, 1+1<<14/max(1, windowVolume(k.win.in)), k)
	return nil
}

// Range does the planes lo..hi-1.
func (k *atenAvgPoolBackward[T]) Range(lo, hi int) {
	w := &k.win
	in, out := windowVolume(w.in), windowVolume(w.out)
	for p := lo; p < hi; p++ {
		dx, dy := k.dx[p*in:][:in], k.dy[p*out:][:out]
		clear(dx)
		for oh := range w.out[1] {
			h0, hlo, hhi := w.taps(1, oh)
			for ow := range w.out[2] {
				w0, wlo, whi := w.taps(2, ow)
				n := (hhi - hlo) * (whi - wlo)
				switch {
				case k.divisor != 0:
					n = k.divisor
				case k.countPad:
					n = k.padded(1, h0) * k.padded(2, w0)
				}
				g := dy[oh*w.out[2]+ow] / T(n)
				for y := h0 + hlo; y < h0+hhi; y++ {
					row := dx[y*w.in[2]:][:w.in[2]]
					for i := w0 + wlo; i < w0+whi; i++ {
						row[i] += g
					}
				}
			}
		}
	}
}

// atenAdaptive is _adaptive_avg_pool2d, and its gradient: place o of an axis averages the elements from
// floor(o*in/out) to ceil((o+1)*in/out). Inputs are X and the size, or dY and X.
// https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.adaptive_avg_pool2d.html
type atenAdaptive[T convFloat] struct {
	backward  bool
	size      []int
	shape     []int
	h, w      int // of the input of the pool
	oh, ow    int // and of its result
	small, in []T
}

func newATenAdaptive[T convFloat](backward bool) executor.Kernel {
	return &atenAdaptive[T]{backward: backward}
}

// Run checks the shapes and computes.
func (k *atenAdaptive[T]) Run(c *executor.Ctx) (err error) {
	x := c.In(0)
	if k.backward {
		x = c.In(1)
	}
	if x.Rank() < 3 || x.Rank() > 4 {
		return c.Errorf("X has shape %v, wanted rank 3 or 4", x.Shape)
	}
	lead := x.Rank() - 2
	if k.backward {
		if dy := c.In(0); dy.Rank() != x.Rank() || !sameInts(dy.Shape[:lead], x.Shape[:lead]) {
			return c.Errorf("input 0 has shape %v, and input 1 %v", dy.Shape, x.Shape)
		}
		k.size = append(k.size[:0], c.In(0).Shape[lead:]...)
		k.shape = append(k.shape[:0], x.Shape...)
	} else {
		if k.size, err = operand.Shape(c, 1, k.size[:0]); err != nil {
			return err
		}
		if len(k.size) != 2 {
			return c.Errorf("input 1 has %d sizes, wanted 2", len(k.size))
		}
		k.shape = append(append(k.shape[:0], x.Shape[:lead]...), k.size...)
	}
	out := c.Out(0, k.shape...)
	if out == nil {
		return nil
	}
	k.h, k.w, k.oh, k.ow = x.Shape[lead], x.Shape[lead+1], k.size[0], k.size[1]
	if k.h*k.w == 0 && k.oh*k.ow > 0 {
		return c.Errorf("X has shape %v, which has no elements to average", x.Shape)
	}
	if k.in, k.small = executor.Of[T](x), executor.Of[T](out); k.backward {
		k.in, k.small = executor.Of[T](out), executor.Of[T](c.In(0))
	}
	c.Parallel(product(x.Shape[:lead]), 1+1<<14/max(1, k.h*k.w), k)
	return nil
}

// Range does the planes lo..hi-1.
func (k *atenAdaptive[T]) Range(lo, hi int) {
	for p := lo; p < hi; p++ {
		in, small := k.in[p*k.h*k.w:][:k.h*k.w], k.small[p*k.oh*k.ow:][:k.oh*k.ow]
		if k.backward {
			clear(in)
		}
		for i := range small {
			y0, y1 := adaptiveRange(i/k.ow, k.h, k.oh)
			x0, x1 := adaptiveRange(i%k.ow, k.w, k.ow)
			n := T((y1 - y0) * (x1 - x0))
			var sum T
			g := small[i] / n
			for y := y0; y < y1; y++ {
				row := in[y*k.w:][:k.w]
				for x := x0; x < x1; x++ {
					if k.backward {
						row[x] += g
					} else {
						sum += row[x]
					}
				}
			}
			if !k.backward {
				small[i] = sum / n
			}
		}
	}
}

// adaptiveRange returns the elements lo..hi-1 that place o of out averages.
func adaptiveRange(o, in, out int) (lo, hi int) { return o * in / out, ((o+1)*in + out - 1) / out }
