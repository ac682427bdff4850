package cpu

// convDepthwise computes planes of a convolution with one channel per group.
type convDepthwise[T convFloat] convCore[T]

// Range computes the planes lo..hi-1: plane i is filter i%m of image i/m.
func (t *convDepthwise[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	s := k.slots.take()
	defer k.slots.give(s)
	halves := k.slot(s)
	for i := lo; i < hi; i++ {
		n, m := i/k.m, i%k.m
		x := k.x[(n*k.c+m/k.mg)*k.inPlane:][:k.inPlane]
		y := k.y[i*k.outPlane:][:k.outPlane]
		weights := k.w[m*k.taps:][:k.taps]
		clear(y)
		w := &k.win
		for od := range w.out[0] {
			for oh := range w.out[1] {
				k.depthRow(y[(od*w.out[1]+oh)*w.out[2]:][:w.out[2]], x, weights, od, oh, halves)
			}
		}
		k.finish(m, i*k.outPlane, k.outPlane)
	}
}

// depthRow adds all taps to one row of the output. If the stride is 2, rows of the input are split
// into halves first.
func (k *convCore[T]) depthRow(y, x, weights []T, od, oh int, halves []T) {
	w := &k.win
	d0, dlo, dhi := w.taps(0, od)
	h0, hlo, hhi := w.taps(1, oh)
	for kd := dlo; kd < dhi; kd++ {
		id := d0 + kd*w.dilation[0]
		for kh := hlo; kh < hhi; kh++ {
			ih := h0 + kh*w.dilation[1]
			row := x[(id*w.in[1]+ih)*w.in[2]:][:w.in[2]]
			if k.splitRows > 0 {
				splitElements(halves[:k.splitHalf], halves[k.splitHalf:], row)
			}
			at := (kd*w.kernel[1] + kh) * w.kernel[2]
			for kw, f := range weights[at : at+w.kernel[2]] {
				lo, hi := w.places(2, kw)
				if lo == hi {
					continue
				}
				first := lo*w.stride[2] - w.begin[2] + kw*w.dilation[2]
				switch {
				case w.stride[2] == 1:
					k.math.axpy(y[lo:hi], row[first:first+hi-lo], f)
				case k.splitRows > 0:
					k.math.axpy(y[lo:hi], halves[first%2*k.splitHalf+first/2:][:hi-lo], f)
				default:
					axpyEvery(y[lo:hi], row[first:], w.stride[2], f)
				}
			}
		}
	}
}

// splitElements splits a row into its even and odd elements.
func splitElements[T convFloat](even, odd, row []T) {
	n := len(row) / 2
	if len(row)%2 != 0 {
		even[n] = row[2*n]
	}
	even, odd, row = even[:n], odd[:n], row[:2*n]
	for i := range even {
		if len(row) < 2 {
			return
		}
		even[i], odd[i] = row[0], row[1]
		row = row[2:]
	}
}

// axpyEvery adds f times every s-th element of x to y.
func axpyEvery[T convFloat](y, x []T, s int, f T) {
	at := 0
	for i := range y {
		p := x[at] * f
		y[i] += p
		at += s
	}
}
