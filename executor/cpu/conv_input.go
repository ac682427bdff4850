package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/dnnl"
)

// convBack applies the transpose of a convolution's matrix: from dy [N, M, out…] and w
// [M, C/group, kernel…] it computes
//
//	dx[n, c, i…] = bias[c] + Σ dy[n, m, o…] * w[m, c, k…]
//
// over m in c's group and all o and k with o*stride - begin + k*dilation = i.
//
// That is the gradient of a convolution's input, and ConvTranspose. A piece is a block of
// channels of some images: the product of the transposed weights and dy gives columns, tile by
// tile, which are added to dx in order. If Winograd's method applies, the whole is a convolution of
// dy with the flipped weights.
type convBack[T convFloat] struct {
	convCore[T]      // with dy in y and dx in x
	channels    int  // of a block
	blocks      int  // of channels, per group
	images      int  // per piece; more than 1 only where planes are small
	gather      bool // whether dy of several images is gathered first

	turned    convCore[T]
	turn      bool // whether turned does the work
	byLibrary bool
}

// convBackRows is about how many rows of columns a piece makes at a time.
const convBackRows = 288

// cut chooses the pieces.
func (k *convBack[T]) cut() {
	if k.byLibrary = k.takenByLibrary(dnnl.BackwardData); k.byLibrary {
		return
	}
	size := sizeOfElem[T]()
	k.turned.convPlan, k.turned.threads, k.turned.math = k.turnedPlan(), k.threads, k.math
	if k.turn = k.turned.winograd(size); k.turn {
		k.turned.fast.flip = true
		return
	}
	k.channels = min(max(1, convBackRows/k.taps), max(k.cg, 1))
	k.blocks = (k.cg + k.channels - 1) / k.channels
	k.images, k.gather = 1, false
	if k.outPlane > 0 && k.outPlane < convLeastTile/2 {
		k.images = max(1, min(convLeastTile/k.outPlane, k.n))
	}
	if k.gather = k.images > 1; k.gather {
		k.tile = k.images * k.outPlane
		return
	}
	want := max(convLeastTile, convTileBytes/(size*k.channels*k.taps))
	count := max(1, (k.outPlane+want/4)/want)
	k.tile = (k.outPlane + count - 1) / count
}

// turnedPlan returns the plan of the convolution from dy to dx, which holds for stride 1.
func (p *convPlan) turnedPlan() convPlan {
	t := *p
	w := &t.win
	w.in, w.out = w.out, w.in
	for i := range w.begin {
		w.begin[i] = w.extent(i) - 1 - w.begin[i]
	}
	t.c, t.m, t.cg, t.mg = p.m, p.c, p.mg, p.cg
	t.depth = t.cg * t.taps
	t.inPlane, t.outPlane = p.outPlane, p.inPlane
	return t
}

func (k *convBack[T]) slotLen() int {
	n := k.channels * k.taps * k.tile
	if k.gather {
		n += k.mg * k.tile
	}
	return (n + 15) &^ 15
}

func (k *convBack[T]) workspace() int {
	switch {
	case k.byLibrary:
		return k.lib.workspace()
	case k.turn:
		return k.turned.workspace()
	}
	return executor.RoundUp(k.threads * k.slotLen() * sizeOfElem[T]())
}

// run computes dx.
func (k *convBack[T]) run(c *executor.Ctx) {
	if len(k.x) == 0 {
		return
	}
	if k.mg == 0 || k.outPlane == 0 {
		clear(k.x)
		k.fill(0, k.n, 0, k.c)
		return
	}
	if k.byLibrary {
		convByLibrary(k.lib, c, k.y, k.w, k.x)
		if k.bias != nil {
			c.Parallel(k.n*k.c, 1+1<<14/k.inPlane, (*convBackBias[T])(k))
		}
		return
	}
	if k.turn {
		k.turned.x, k.turned.y, k.turned.w, k.turned.bias = k.y, k.x, k.w, k.bias
		k.turned.run(c)
		return
	}
	k.work = executor.ScratchOf[T](c, k.threads*k.slotLen())
	k.slots.reset(k.threads)
	groups := (k.n + k.images - 1) / k.images
	c.Parallel(groups*k.group*k.blocks, 1, (*convBackPieces[T])(k))
}

// fill sets the planes of channels c0..c1-1 of images n0..n1-1 to the bias.
func (k *convBack[T]) fill(n0, n1, c0, c1 int) {
	for n := n0; n < n1; n++ {
		for c := c0; c < c1; c++ {
			x := k.x[(n*k.c+c)*k.inPlane:][:k.inPlane]
			clear(x)
			if k.bias != nil {
				k.math.addScalar(x, x, k.bias[c])
			}
		}
	}
}

// convBackBias adds the bias to whole planes.
type convBackBias[T convFloat] convBack[T]

// Range adds it to the planes lo..hi-1.
func (t *convBackBias[T]) Range(lo, hi int) {
	for i := lo; i < hi; i++ {
		x := t.x[i*t.inPlane:][:t.inPlane]
		t.math.addScalar(x, x, t.bias[i%t.c])
	}
}

type convBackPieces[T convFloat] convBack[T]

// Range computes the pieces lo..hi-1.
func (t *convBackPieces[T]) Range(lo, hi int) {
	k := (*convBack[T])(t)
	s := k.slots.take()
	defer k.slots.give(s)
	work := k.work[s*k.slotLen():][:k.slotLen()]
	for i := lo; i < hi; i++ {
		block := i % k.blocks
		g := i / k.blocks % k.group
		n0 := i / (k.blocks * k.group) * k.images
		n1 := min(n0+k.images, k.n)
		c0 := block * k.channels
		c1 := min(c0+k.channels, k.cg)
		k.fill(n0, n1, g*k.cg+c0, g*k.cg+c1)
		if k.gather {
			k.gathered(work, g, n0, n1, c0, c1)
			continue
		}
		for from := 0; from < k.outPlane; from += k.tile {
			b := k.y[(n0*k.m+g*k.mg)*k.outPlane+from:]
			k.columns(work, b, k.outPlane, g, c0, c1, n0*k.outPlane+from, n0*k.outPlane+min(from+k.tile, k.outPlane))
		}
	}
}

// gathered computes the columns of several images in one product.
func (k *convBack[T]) gathered(work []T, g, n0, n1, c0, c1 int) {
	b := work[k.channels*k.taps*k.tile:]
	ld := (n1 - n0) * k.outPlane
	for m := range k.mg {
		for n := n0; n < n1; n++ {
			copy(b[m*ld+(n-n0)*k.outPlane:][:k.outPlane], k.y[(n*k.m+g*k.mg+m)*k.outPlane:])
		}
	}
	k.columns(work, b, ld, g, c0, c1, n0*k.outPlane, n1*k.outPlane)
}

// columns makes the columns from..to-1 of channels c0..c1-1 of group g and adds them to dx.
func (k *convBack[T]) columns(work, b []T, ldb, g, c0, c1, from, to int) {
	rows, n := (c1-c0)*k.taps, to-from
	k.math.gemm(true, false, rows, n, k.mg, 1, k.w[g*k.mg*k.depth+c0*k.taps:], k.depth, b, ldb, 0, work, n)
	k.unpack(work, n, g*k.cg+c0, g*k.cg+c1, from, to)
}

// unpack adds the rows that pack would have written to x.
func (k *convCore[T]) unpack(src []T, ld, c0, c1, from, to int) {
	r := 0
	kernel := &k.win.kernel
	for c := c0; c < c1; c++ {
		for kd := range kernel[0] {
			for kh := range kernel[1] {
				for kw := range kernel[2] {
					k.unpackRow(src[r*ld:][:to-from], c, [3]int{kd, kh, kw}, from)
					r++
				}
			}
		}
	}
}

func (k *convCore[T]) unpackRow(row []T, c int, tap [3]int, from int) {
	n := from / k.outPlane
	at := from - n*k.outPlane
	lo, hi := k.win.places(2, tap[2])
	for len(row) > 0 {
		take := min(k.outPlane-at, len(row))
		k.unpackPlane(row[:take], k.x[(n*k.c+c)*k.inPlane:][:k.inPlane], tap, at, lo, hi)
		row, at, n = row[take:], 0, n+1
	}
}

// unpackPlane adds the places at, at+1… of a plane, row by row.
func (k *convCore[T]) unpackPlane(src, x []T, tap [3]int, at, lo, hi int) {
	w := &k.win
	width, height := w.out[2], w.out[1]
	o := at / width
	col := at - o*width
	od := o / height
	oh := o - od*height
	for len(src) > 0 {
		take := min(width-col, len(src))
		id := od*w.stride[0] - w.begin[0] + tap[0]*w.dilation[0]
		ih := oh*w.stride[1] - w.begin[1] + tap[1]*w.dilation[1]
		if uint(id) < uint(w.in[0]) && uint(ih) < uint(w.in[1]) {
			a := min(max(lo-col, 0), take)
			b := max(min(hi-col, take), a)
			if a < b {
				first := (col+a)*w.stride[2] - w.begin[2] + tap[2]*w.dilation[2]
				k.addEvery(x[(id*w.in[1]+ih)*w.in[2]:][:w.in[2]], first, src[a:b])
			}
		}
		src, col = src[take:], 0
		if oh++; oh == height {
			oh, od = 0, od+1
		}
	}
}

// addEvery adds src to the elements at, at+stride… of x.
func (k *convCore[T]) addEvery(x []T, at int, src []T) {
	switch s := k.win.stride[2]; s {
	case 1:
		x = x[at : at+len(src)]
		if len(src) >= 16 {
			k.math.add(x, x, src)
			return
		}
		for i, v := range src {
			x[i] += v
		}
	case 2:
		x = x[at : at+2*len(src)-1]
		for i, v := range src {
			x[2*i] += v
		}
	default:
		for _, v := range src {
			x[at] += v
			at += s
		}
	}
}
