package cpu

// The gradient of a convolution's weights is also a convolution: of the data with the gradient of
// the output as its kernel, which is as large as a plane, while the output is as small as the old
// kernel. Columns are then long and few. They are made as rows, one per place of the output, so
// that a row of the kernel is one copy.

const (
	// convDeepColumns is about how many columns a tile has.
	convDeepColumns = 96
	// convDeepBytes bounds the part of a tile's columns that is made at a time.
	convDeepBytes = 1 << 20
)

// deep reports whether columns are better made as rows.
func (p *convPlan) deep() bool {
	w := &p.win
	return p.group == 1 && p.outPlane > 0 && w.kernel[2] > w.out[2] && w.kernel[2] >= 4 && p.taps > p.outPlane &&
		p.outPlane <= 2*convDeepColumns
}

// cutDeep sets the tiles, of whole images, and how many channels are made at a time.
func (p *convPlan) cutDeep(size int) {
	p.way = convDeep
	images := max(1, min(convDeepColumns/p.outPlane, p.n))
	if pieces := (p.n + images - 1) / images; pieces < convFewPieces {
		images = max(1, p.n/convFewPieces)
	}
	p.tile, p.perPlane = images*p.outPlane, 0
	p.tiles = (p.n + images - 1) / images
	p.deepChannels = max(1, min(p.cg, convDeepBytes/(size*p.taps*p.tile)))
}

// convDeepTiles computes tiles of deep convolutions.
type convDeepTiles[T convFloat] convCore[T]

// Range computes the tiles lo..hi-1.
func (t *convDeepTiles[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	s := k.slots.take()
	defer k.slots.give(s)
	work := k.slot(s)
	for i := lo; i < hi; i++ {
		from, to := k.columnsOf(i)
		ld := to - from
		temp, rows := work[:k.m*ld], work[k.m*ld:]
		for c := 0; c < k.cg; c += k.deepChannels {
			end := min(c+k.deepChannels, k.cg)
			depth := (end - c) * k.taps
			k.packDeep(rows, c, end, from, to)
			beta := T(1)
			if c == 0 {
				beta = 0
			}
			k.math.gemm(false, true, k.m, ld, depth, 1, k.w[c*k.taps:], k.depth, rows, depth, beta, temp, ld)
		}
		k.scatter(0, k.m, from, to, temp)
	}
}

// packDeep makes the columns from..to-1 as rows, of the channels c0..c1-1.
func (k *convCore[T]) packDeep(dst []T, c0, c1, from, to int) {
	w := &k.win
	for j := from; j < to; j++ {
		n := j / k.outPlane
		o := j - n*k.outPlane
		ow := o % w.out[2]
		oh := o / w.out[2] % w.out[1]
		od := o / (w.out[2] * w.out[1])
		for c := c0; c < c1; c++ {
			x := k.x[(n*k.c+c)*k.inPlane:][:k.inPlane]
			for kd := range w.kernel[0] {
				id := od*w.stride[0] - w.begin[0] + kd*w.dilation[0]
				for kh := range w.kernel[1] {
					ih := oh*w.stride[1] - w.begin[1] + kh*w.dilation[1]
					row := dst[:w.kernel[2]]
					dst = dst[w.kernel[2]:]
					if uint(id) >= uint(w.in[0]) || uint(ih) >= uint(w.in[1]) {
						clear(row)
						continue
					}
					deepRow(row, x[(id*w.in[1]+ih)*w.in[2]:][:w.in[2]], ow*w.stride[2]-w.begin[2], w.dilation[2])
				}
			}
		}
	}
}

// deepRow reads every step-th element of x from at on, zeros outside.
func deepRow[T convFloat](row, x []T, at, step int) {
	if step == 1 {
		lo, hi := min(max(-at, 0), len(row)), max(min(len(x)-at, len(row)), 0)
		if lo >= hi {
			clear(row)
			return
		}
		clear(row[:lo])
		copy(row[lo:hi], x[at+lo:])
		clear(row[hi:])
		return
	}
	for i := range row {
		row[i] = 0
		if uint(at) < uint(len(x)) {
			row[i] = x[at]
		}
		at += step
	}
}
