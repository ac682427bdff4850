package cpu

import "math"

// maxPoolKeys computes values and indices of a float32 MaxPool without a branch per element: value
// and place are packed into one integer, and the largest integer is wanted. The upper half orders
// values, with NaN largest; the lower half is larger the earlier the place.
type maxPoolKeys maxPoolKernel[float32]

// keyed reports whether rows fit maxPoolKeys.
func (k *maxPoolKernel[T]) keyed() bool {
	w := &k.win
	return w.in[2] <= maxPoolBlock && w.out[2] <= maxPoolBlock && windowVolume(w.in) < math.MaxUint32
}

// Range computes the rows lo..hi-1 of the output.
func (t *maxPoolKeys) Range(lo, hi int) {
	k := (*maxPoolKernel[float32])(t)
	w := &k.win
	size, width := windowVolume(w.in), w.out[2]
	var columns, best [maxPoolBlock]int64
	for r := lo; r < hi; r++ {
		plane, od, oh := k.rowOf(r)
		x := k.x[plane*size:][:size]
		d0, dlo, dhi := w.taps(0, od)
		h0, hlo, hhi := w.taps(1, oh)
		for i := range w.in[2] {
			columns[i] = math.MinInt64
		}
		for kd := dlo; kd < dhi; kd++ {
			for kh := hlo; kh < hhi; kh++ {
				row := ((d0+kd*w.dilation[0])*w.in[1] + h0 + kh*w.dilation[1]) * w.in[2]
				raiseKeys(columns[:w.in[2]], x[row:], row)
			}
		}
		for i := range width {
			best[i] = math.MinInt64
		}
		k.spreadKeys(best[:width], columns[:w.in[2]])
		for o, key := range best[:width] {
			value, at := k.least, -1
			if key != math.MinInt64 {
				at = int(^uint32(key))
				value = x[at]
			}
			if k.y != nil {
				k.y[r*width+o] = value
			}
			k.index[r*width+o] = k.indexOf(plane, at)
		}
	}
}

// raiseKeys raises keys to those of the elements x, the first at place at.
func raiseKeys(keys []int64, x []float32, at int) {
	x = x[:len(keys)]
	place := ^uint32(at)
	for i, v := range x {
		b := int32(math.Float32bits(v + 0)) // +0 for -0
		b ^= int32(uint32(b>>31) >> 1)
		if v != v {
			b = math.MaxInt32
		}
		keys[i] = max(keys[i], int64(b)<<32|int64(place-uint32(i)))
	}
}

// spreadKeys raises the keys of places to those of the columns under them.
func (k *maxPoolKernel[T]) spreadKeys(best, columns []int64) {
	w := &k.win
	s := w.stride[2]
	first, last := k.tapsOfRow()
	for kw := first; kw < last; kw++ {
		lo, hi := w.places(2, kw)
		if lo == hi {
			continue
		}
		at := lo*s - w.begin[2] + kw*w.dilation[2]
		dst := best[lo:hi]
		if s == 2 {
			src := columns[at : at+2*len(dst)-1]
			for i := range dst {
				dst[i] = max(dst[i], src[2*i])
			}
			continue
		}
		for i := range dst {
			dst[i] = max(dst[i], columns[at])
			at += s
		}
	}
}
