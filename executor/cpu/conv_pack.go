package cpu

// pack writes the rows of the channels c0..c1-1 (of all channels) at the columns from..to-1 to dst:
// row (c-c0)*taps + tap; rows start ld elements apart. temp has splitLen elements.
func (k *convCore[T]) pack(dst, temp []T, ld, c0, c1, from, to int) {
	if k.splitRows > 0 {
		k.packSplit(dst, temp, ld, c0, c1, from, to)
		return
	}
	r := 0
	kernel := &k.win.kernel
	for c := c0; c < c1; c++ {
		for kd := range kernel[0] {
			for kh := range kernel[1] {
				for kw := range kernel[2] {
					k.packRow(dst[r*ld:][:to-from], c, [3]int{kd, kh, kw}, from)
					r++
				}
			}
		}
	}
}

// packRow writes one row: a tap of channel c at the columns from, from+1….
func (k *convCore[T]) packRow(row []T, c int, tap [3]int, from int) {
	n := from / k.outPlane
	at := from - n*k.outPlane
	w := &k.win
	lo, hi := w.places(2, tap[2])
	flat := w.stride == [3]int{1, 1, 1} && w.in[2] == w.out[2] && w.out[0] == 1 && w.in[0] == 1 && w.kernel[0] == 1 &&
		w.begin[0] == 0
	for len(row) > 0 {
		take := min(k.outPlane-at, len(row))
		x := k.x[(n*k.c+c)*k.inPlane:][:k.inPlane]
		if flat {
			packFlat(row[:take], x, w, tap, at, lo, hi)
		} else {
			packPlane(row[:take], x, w, tap, at, lo, hi)
		}
		row, at, n = row[take:], 0, n+1
	}
}

// packFlat serves stride 1 if rows of the output are as long as rows of the input: a tap sees the
// plane shifted, so all rows are one copy, except for the elements that the shift brings in from
// the neighbouring rows. at is the first place; places lo..hi-1 of a row see the input.
func packFlat[T convFloat](dst, x []T, w *slidingWindow, tap [3]int, at, lo, hi int) {
	width := w.out[2]
	top, bottom := w.places(1, tap[1])
	from := min(max(at, top*width), at+len(dst))
	to := max(min(at+len(dst), bottom*width), from)
	clear(dst[:from-at])
	clear(dst[to-at:])
	shift := (tap[1]*w.dilation[1]-w.begin[1])*width + tap[2]*w.dilation[2] - w.begin[2]
	a, b := max(from, -shift), min(to, len(x)-shift)
	if a < b {
		copy(dst[a-at:b-at], x[a+shift:b+shift])
	}
	if lo == 0 && hi == width {
		return
	}
	for row := from / width * width; row < to; row += width {
		clearSpan(dst, row-at, row+lo-at)
		clearSpan(dst, row+hi-at, row+width-at)
	}
}

// clearSpan clears the elements lo..hi-1 as far as they exist.
func clearSpan[T convFloat](dst []T, lo, hi int) {
	lo, hi = max(lo, 0), min(hi, len(dst))
	for i := lo; i < hi; i++ {
		dst[i] = 0
	}
}

// packPlane serves every window, row by row of the output.
func packPlane[T convFloat](dst, x []T, w *slidingWindow, tap [3]int, at, lo, hi int) {
	width, height := w.out[2], w.out[1]
	o := at / width
	col := at - o*width
	od := o / height
	oh := o - od*height
	for len(dst) > 0 {
		take := min(width-col, len(dst))
		id := od*w.stride[0] - w.begin[0] + tap[0]*w.dilation[0]
		ih := oh*w.stride[1] - w.begin[1] + tap[1]*w.dilation[1]
		if uint(id) < uint(w.in[0]) && uint(ih) < uint(w.in[1]) {
			packSegment(dst[:take], x[(id*w.in[1]+ih)*w.in[2]:][:w.in[2]], w, tap[2], col, lo, hi)
		} else {
			clear(dst[:take])
		}
		dst, col = dst[take:], 0
		if oh++; oh == height {
			oh, od = 0, od+1
		}
	}
}

// packSegment writes the places col, col+1… of a row of the output.
func packSegment[T convFloat](dst, x []T, w *slidingWindow, tap, col, lo, hi int) {
	lo = min(max(lo-col, 0), len(dst))
	hi = max(min(hi-col, len(dst)), lo)
	clear(dst[:lo])
	clear(dst[hi:])
	if lo == hi {
		return
	}
	s := w.stride[2]
	at := (col+lo)*s - w.begin[2] + tap*w.dilation[2]
	dst = dst[lo:hi]
	switch s {
	case 1:
		copy(dst, x[at:])
	case 2:
		x = x[at : at+2*len(dst)-1]
		for i := range dst {
			dst[i] = x[2*i]
		}
	default:
		for i := range dst {
			dst[i] = x[at]
			at += s
		}
	}
}
