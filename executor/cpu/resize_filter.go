package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// newResizeFilter makes a linear or cubic Resize.
func newResizeFilter(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newResizeFilterOf[float32](p)
	case graph.Float64:
		return newResizeFilterOf[float64](p)
	case graph.Int8, graph.Uint8, graph.Int16, graph.Uint16, graph.Int32, graph.Uint32:
		return newResizeFilterOf[float64](p)
	}
	return nil, unsupportedTypes(p)
}

// resizeFilter resizes axis after axis, from the last to the first, which is the same as the
// product of all weights. Integers are computed in float64 and rounded to the nearest.
type resizeFilter[T convFloat] struct {
	resizeMap
	dtype    graph.DType
	axpy     func(y, x []T, s T)
	work     [2][]T
	x, y     []T // of the current pass
	axis     *resizeAxis
	inner    int
	raw      []byte
	integers bool
}

func newResizeFilterOf[T convFloat](p *executor.Prep) (executor.Kernel, error) {
	spec, err := newResizeSpec(p)
	d := p.DType(0)
	return &resizeFilter[T]{resizeMap: resizeMap{spec: spec}, dtype: d, axpy: newConvMath[T]().axpy,
		integers: d != graph.Float32 && d != graph.Float64}, err
}

// Workspace returns the bytes of workspace for the results between the passes.
func (k *resizeFilter[T]) Workspace(in, out [][]int) int {
	if len(out) == 0 || out[0] == nil || len(out[0]) != len(in[0]) {
		return 0
	}
	return 2 * executor.RoundUp(sizeOfElem[T]()*resizeLargest(in[0], out[0]))
}

// resizeLargest bounds the elements of the tensors between the passes, input and output included.
func resizeLargest(in, out []int) int {
	n := 1
	for i := range in {
		n *= max(in[i], out[i])
	}
	return n
}

// Run computes the tables and does the passes.
func (k *resizeFilter[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.plan(c, x.Shape, nil); err != nil {
		return err
	}
	y := c.Out(0, k.shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	n := resizeLargest(x.Shape, k.shape)
	for i := range k.work {
		k.work[i] = executor.ScratchOf[T](c, n)
	}
	k.raw = x.Data
	cur, last := k.work[0][:x.Len()], k.work[1][:y.Len()]
	if k.integers {
		k.y = cur
		c.Parallel(len(cur), 1<<14, (*resizeLoad[T])(k))
	} else {
		cur, last = executor.Of[T](x), executor.Of[T](y)
	}
	last = k.passes(c, cur, last)
	if k.spec.coordinates == "tf_crop_and_resize" {
		k.crop(last)
	}
	if k.integers {
		k.raw, k.x = y.Data, last
		c.Parallel(len(last), 1<<14, (*resizeStore[T])(k))
	}
	return nil
}

// passes resizes cur into last, or into workspace if the elements are integers.
func (k *resizeFilter[T]) passes(c *executor.Ctx, cur, last []T) []T {
	left := 0
	for i := range k.axes {
		if !k.axes[i].same {
			left++
		}
	}
	if left == 0 && !k.integers {
		copy(last, cur)
		return last
	}
	k.inner = 1
	turn := 1
	for i := len(k.axes) - 1; i >= 0; i-- {
		a := &k.axes[i]
		if !a.same {
			left--
			n := len(cur) / a.in * a.out
			dst := k.work[turn][:n]
			if left == 0 && !k.integers {
				dst = last
			}
			k.x, k.y, k.axis = cur, dst, a
			c.Parallel(n/k.inner, 1+1<<14/(k.inner*a.taps), k)
			cur, turn = dst, 1-turn
		}
		k.inner *= a.out
	}
	return cur
}

// Range computes the rows lo..hi-1 of a pass: row r is element r%out of the axis, with inner
// elements.
func (k *resizeFilter[T]) Range(lo, hi int) {
	a := k.axis
	if k.inner == 1 {
		k.elements(lo, hi)
		return
	}
	for r := lo; r < hi; r++ {
		outer, o := r/a.out, r%a.out
		y := k.y[r*k.inner:][:k.inner]
		clear(y)
		for t, w := range a.weight[o*a.taps:][:a.taps] {
			if w != 0 {
				k.axpy(y, k.x[(outer*a.in+a.index[o*a.taps+t])*k.inner:][:k.inner], T(w))
			}
		}
	}
}

// elements computes the elements lo..hi-1 of a pass over the last axis.
func (k *resizeFilter[T]) elements(lo, hi int) {
	a := k.axis
	for lo < hi {
		outer, o := lo/a.out, lo%a.out
		n := min(a.out-o, hi-lo)
		x, y := k.x[outer*a.in:][:a.in], k.y[lo:lo+n]
		index, weight := a.index[o*a.taps:][:n*a.taps], a.weight[o*a.taps:][:n*a.taps]
		if a.taps == 2 {
			for i := range y {
				p, q := x[index[2*i]]*T(weight[2*i]), x[index[2*i+1]]*T(weight[2*i+1])
				y[i] = resizePair(p, q, weight[2*i], weight[2*i+1])
			}
		} else {
			for i := range y {
				s := T(0)
				for t, w := range weight[i*a.taps:][:a.taps] {
					if w != 0 {
						p := x[index[i*a.taps+t]] * T(w)
						s += p
					}
				}
				y[i] = s
			}
		}
		lo += n
	}
}

// resizePair adds two products, leaving out those with weight 0: infinity times 0 is NaN.
func resizePair[T convFloat](p, q T, wp, wq float64) T {
	if wq == 0 {
		return p
	}
	if wp == 0 {
		return q
	}
	return p + q
}

// crop writes the extrapolation value where an axis is outside the input.
func (k *resizeFilter[T]) crop(y []T) {
	inner := 1
	for i := len(k.axes) - 1; i >= 0; i-- {
		a := &k.axes[i]
		for o, out := range a.outside {
			for at := o * inner; out && at < len(y); at += a.out * inner {
				for j := range y[at : at+inner] {
					y[at+j] = T(k.spec.extrapolation)
				}
			}
		}
		inner *= a.out
	}
}

type resizeLoad[T convFloat] resizeFilter[T]

// Range converts the integers lo..hi-1.
func (k *resizeLoad[T]) Range(lo, hi int) {
	switch k.dtype {
	case graph.Int8:
		loadIntegers[int8](k.y, k.raw, lo, hi)
	case graph.Uint8:
		loadIntegers[uint8](k.y, k.raw, lo, hi)
	case graph.Int16:
		loadIntegers[int16](k.y, k.raw, lo, hi)
	case graph.Uint16:
		loadIntegers[uint16](k.y, k.raw, lo, hi)
	case graph.Int32:
		loadIntegers[int32](k.y, k.raw, lo, hi)
	case graph.Uint32:
		loadIntegers[uint32](k.y, k.raw, lo, hi)
	}
}

type resizeInteger interface {
	int8 | uint8 | int16 | uint16 | int32 | uint32
}

func loadIntegers[I resizeInteger, T convFloat](dst []T, raw []byte, lo, hi int) {
	src := executor.Cast[I](raw)[lo:hi]
	for i, v := range src {
		dst[lo+i] = T(v)
	}
}

type resizeStore[T convFloat] resizeFilter[T]

// Range rounds the elements lo..hi-1 to integers.
func (k *resizeStore[T]) Range(lo, hi int) {
	switch k.dtype {
	case graph.Int8:
		storeIntegers[int8](k.raw, k.x, lo, hi, math.MinInt8, math.MaxInt8)
	case graph.Uint8:
		storeIntegers[uint8](k.raw, k.x, lo, hi, 0, math.MaxUint8)
	case graph.Int16:
		storeIntegers[int16](k.raw, k.x, lo, hi, math.MinInt16, math.MaxInt16)
	case graph.Uint16:
		storeIntegers[uint16](k.raw, k.x, lo, hi, 0, math.MaxUint16)
	case graph.Int32:
		storeIntegers[int32](k.raw, k.x, lo, hi, math.MinInt32, math.MaxInt32)
	case graph.Uint32:
		storeIntegers[uint32](k.raw, k.x, lo, hi, 0, math.MaxUint32)
	}
}

func storeIntegers[I resizeInteger, T convFloat](raw []byte, src []T, lo, hi int, least, most float64) {
	dst := executor.Cast[I](raw)
	for i := lo; i < hi; i++ {
		dst[i] = I(min(max(math.RoundToEven(float64(src[i])), least), most))
	}
}
