package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// poolElem lists the element types of MaxPool.
type poolElem interface {
	float32 | float64 | int8 | uint8
}

// maxPoolKernel is MaxPool: the largest element under each place of the window, NaN if there is
// one, and its index in the flat input. The first of equal elements counts. A window over padding
// alone has the least value of the type, and index -1.
//
// https://onnx.ai/onnx/operators/onnx__MaxPool.html
type maxPoolKernel[T poolElem] struct {
	poolCore
	columnMajor bool // storage_order: indices count the spatial axes from the first
	inPlane     bool // indices count the elements of a plane, as PyTorch's do
	least       T
	x, y        []T
	index       []int64
}

// newMaxPool makes a MaxPool.
func newMaxPool(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return newMaxPoolKernel(p, float32(math.Inf(-1)))
	case graph.Float64:
		return newMaxPoolKernel(p, math.Inf(-1))
	case graph.Int8:
		return newMaxPoolKernel(p, int8(math.MinInt8))
	case graph.Uint8:
		return newMaxPoolKernel(p, uint8(0))
	}
	return nil, unsupportedTypes(p)
}

func newMaxPoolKernel[T poolElem](p *executor.Prep, least T) (executor.Kernel, error) {
	core, err := newPoolCore(p)
	if err != nil {
		return nil, err
	}
	order := p.Node.Int("storage_order", 0)
	if order != 0 && order != 1 {
		return nil, p.Errorf("attribute storage_order is %d, wanted 0 or 1", order)
	}
	return &maxPoolKernel[T]{poolCore: core, columnMajor: order == 1, least: least}, nil
}

// Run checks the shape and computes.
func (k *maxPoolKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.begin(x); err != nil {
		return err
	}
	y, index := c.Out(0, k.shape...), c.Out(1, k.shape...)
	k.x, k.y, k.index = executor.Of[T](x), nil, nil
	if y != nil {
		k.y = executor.Of[T](y)
	}
	if index != nil {
		k.index = executor.Of[int64](index)
	}
	f, ok := any(k).(*maxPoolKernel[float32])
	switch {
	case index != nil && ok && k.keyed():
		c.Parallel(k.rows, k.grain(), (*maxPoolKeys)(f))
	case index != nil:
		c.Parallel(k.rows, k.grain(), (*maxPoolIndices[T])(k))
	case y != nil:
		c.Parallel(k.rows, k.grain(), k)
	}
	return nil
}

// maxPoolBlock is the number of columns that Range reduces at a time.
const maxPoolBlock = 1024

// Range computes the rows lo..hi-1 of the output without indices: first the largest of each column
// of the input under the window, then the largest of these under each place.
func (k *maxPoolKernel[T]) Range(lo, hi int) {
	w := &k.win
	size, width := windowVolume(w.in), w.out[2]
	var buf [maxPoolBlock]T
	for r := lo; r < hi; r++ {
		plane, od, oh := k.rowOf(r)
		x, y := k.x[plane*size:][:size], k.y[r*width:][:width]
		for i := range y {
			y[i] = k.least
		}
		d0, dlo, dhi := w.taps(0, od)
		h0, hlo, hhi := w.taps(1, oh)
		for from := 0; from < w.in[2] && dlo < dhi && hlo < hhi; from += maxPoolBlock {
			columns := buf[:min(maxPoolBlock, w.in[2]-from)]
			first := true
			for kd := dlo; kd < dhi; kd++ {
				for kh := hlo; kh < hhi; kh++ {
					row := ((d0+kd*w.dilation[0])*w.in[1]+h0+kh*w.dilation[1])*w.in[2] + from
					if first {
						copy(columns, x[row:])
					} else {
						maxRow(columns, x[row:][:len(columns)])
					}
					first = false
				}
			}
			k.spreadMax(y, columns, from)
		}
	}
}

// maxRow sets a[i] to the larger of a[i] and b[i]; NaN counts as largest.
func maxRow[T poolElem](a, b []T) {
	b = b[:len(a)]
	for i, v := range b {
		a[i] = max(a[i], v)
	}
}

// spreadMax raises the elements of y to the columns from, from+1… that their windows see.
func (k *maxPoolKernel[T]) spreadMax(y, columns []T, from int) {
	w := &k.win
	s := w.stride[2]
	first, last := k.tapsOfRow()
	for kw := first; kw < last; kw++ {
		lo, hi := w.places(2, kw)
		shift := kw*w.dilation[2] - w.begin[2] - from // place o sees column o*s + shift
		if short := -shift - lo*s; short > 0 {
			lo += (short + s - 1) / s
		}
		if room := len(columns) - shift; room <= 0 {
			continue
		} else {
			hi = min(hi, (room-1)/s+1)
		}
		if lo >= hi {
			continue
		}
		dst, src := y[lo:hi], columns[lo*s+shift:]
		switch s {
		case 1:
			maxRow(dst, src[:len(dst)])
		case 2:
			src = src[:2*len(dst)-1]
			for i := range dst {
				dst[i] = max(dst[i], src[2*i])
			}
		default:
			for i := range dst {
				dst[i] = max(dst[i], src[i*s])
			}
		}
	}
}

// maxPoolIndices computes values and indices.
type maxPoolIndices[T poolElem] maxPoolKernel[T]

// Range computes the rows lo..hi-1 of the output.
func (t *maxPoolIndices[T]) Range(lo, hi int) {
	k := (*maxPoolKernel[T])(t)
	w := &k.win
	size, width := windowVolume(w.in), w.out[2]
	for r := lo; r < hi; r++ {
		plane, od, oh := k.rowOf(r)
		x := k.x[plane*size:][:size]
		d0, dlo, dhi := w.taps(0, od)
		h0, hlo, hhi := w.taps(1, oh)
		for ow := range width {
			w0, wlo, whi := w.taps(2, ow)
			best, at := k.least, -1
			for kd := dlo; kd < dhi; kd++ {
				for kh := hlo; kh < hhi; kh++ {
					row := ((d0+kd*w.dilation[0])*w.in[1] + h0 + kh*w.dilation[1]) * w.in[2]
					for i, n := row+w0+wlo*w.dilation[2], whi-wlo; n > 0; n-- {
						if v := x[i]; v > best || at < 0 || v != v && best == best {
							best, at = v, i
						}
						i += w.dilation[2]
					}
				}
			}
			if k.y != nil {
				k.y[r*width+ow] = best
			}
			k.index[r*width+ow] = k.indexOf(plane, at)
		}
	}
}

// indexOf returns the index of element at of a plane.
func (k *maxPoolKernel[T]) indexOf(plane, at int) int64 {
	if at < 0 {
		return -1
	}
	w := &k.win
	if k.columnMajor {
		i, h, d := at%w.in[2], at/w.in[2]%w.in[1], at/(w.in[1]*w.in[2])
		// The last axis varies slowest; the axes that a lower rank lacks have length 1.
		at = (i*w.in[1]+h)*w.in[0] + d
	}
	if k.inPlane {
		return int64(at)
	}
	return int64(plane*windowVolume(w.in) + at)
}
