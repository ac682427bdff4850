package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/internal/half"
)

// newResize makes a Resize or an Upsample.
func newResize(p *executor.Prep) (executor.Kernel, error) {
	spec, err := newResizeSpec(p)
	if err != nil {
		return nil, err
	}
	for _, i := range []int{spec.roiAt, spec.scalesAt} {
		if i >= 0 && p.Has(i) && !isHalf(p.DType(i)) && p.DType(i) != graph.Float32 && p.DType(i) != graph.Float64 {
			return nil, unsupportedTypes(p)
		}
	}
	if spec.mode != "nearest" {
		return widened(newResizeFilter)(p)
	}
	switch p.DType(0).Bits() {
	case 8:
		return newResizeNearest[uint8](p, spec)
	case 16:
		return newResizeNearest[uint16](p, spec)
	case 32:
		return newResizeNearest[uint32](p, spec)
	case 64:
		return newResizeNearest[uint64](p, spec)
	}
	return nil, unsupportedTypes(p)
}

// resizeNearest moves elements, whatever they are.
type resizeNearest[T uint8 | uint16 | uint32 | uint64] struct {
	resizeMap
	fill   T // the extrapolation value
	x, y   []T
	inner  resizeAxis // the last axis
	stride []int      // of the input
}

func newResizeNearest[T uint8 | uint16 | uint32 | uint64](p *executor.Prep, spec resizeSpec) (executor.Kernel, error) {
	k := &resizeNearest[T]{resizeMap: resizeMap{spec: spec}}

	one := [1]T{}
	encodeNumber(executor.Memory(one[:]), p.DType(0), float64(spec.extrapolation))
	k.fill = one[0]
	return k, nil
}

// encodeNumber writes a number as an element of a type.
func encodeNumber(dst []byte, d graph.DType, v float64) {
	switch d {
	case graph.Float32:
		executor.Cast[float32](dst)[0] = float32(v)
	case graph.Float64:
		executor.Cast[float64](dst)[0] = v
	case graph.Float16:
		executor.Cast[half.Float16](dst)[0] = half.Float16From(float32(v))
	case graph.BFloat16:
		executor.Cast[half.BFloat16](dst)[0] = half.BFloat16From(float32(v))
	default:
		n := int64(min(max(v, math.MinInt64), 1<<62))
		for i := range dst {
			dst[i] = byte(n >> (8 * i))
		}
	}
}

// Run computes the tables and moves the rows.
func (k *resizeNearest[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.plan(c, x.Shape, nil); err != nil {
		return err
	}
	y := c.Out(0, k.shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	k.x, k.y = executor.Cast[T](x.Data), executor.Cast[T](y.Data)
	k.stride = k.stride[:0]
	for i := range k.axes {
		k.stride = append(k.stride, product(x.Shape[i+1:]))
	}
	k.inner = resizeAxis{in: 1, out: 1, same: true}
	if n := len(k.axes); n > 0 {
		k.inner = k.axes[n-1]
	}
	c.Parallel(len(k.y)/k.inner.out, 1+1<<14/k.inner.out, k)
	return nil
}

// Range moves the rows lo..hi-1 of the output.
func (k *resizeNearest[T]) Range(lo, hi int) {
	n := k.inner.out
	last := -1
	for r := lo; r < hi; r++ {
		y := k.y[r*n:][:n]
		at, outside := k.source(r)
		switch {
		case outside:
			for i := range y {
				y[i] = k.fill
			}
			last = -1
			continue
		case at == last:
			copy(y, k.y[(r-1)*n:])
			continue
		case k.inner.same:
			copy(y, k.x[at:at+n])
		default:
			x, index := k.x[at:at+k.inner.in], k.inner.index[:n]
			for i := range y {
				y[i] = x[index[i]]
			}
			if k.inner.crops {
				for i, out := range k.inner.outside {
					if out {
						y[i] = k.fill
					}
				}
			}
		}
		last = at
	}
}

// source returns where row r of the output begins in the input.
func (k *resizeNearest[T]) source(r int) (at int, outside bool) {
	for i := len(k.axes) - 2; i >= 0; i-- {
		a := &k.axes[i]
		o := r % a.out
		r /= a.out
		if a.same {
			at += o * k.stride[i]
			continue
		}
		at += a.index[o] * k.stride[i]
		outside = outside || a.crops && a.outside[o]
	}
	return at, outside
}
