package cpu

import "memopt/executor"

// The fast way for 3x3 kernels is Winograd's minimal filtering F(2x2, 3x3): the output is cut into
// tiles of 2x2, and each tile depends on 4x4 elements d of a channel. With the constant matrices
//
//	B' = | 1  0 -1  0 |   G = |  1    0    0  |   A' = | 1 1  1  0 |
//	     | 0  1  1  0 |       | 1/2  1/2  1/2 |        | 0 1 -1 -1 |
//	     | 0 -1  1  0 |       | 1/2 -1/2  1/2 |
//	     | 0  1  0 -1 |       |  0    0    1  |
//
// a tile is A'[Σ (G g G') * (B' d B)]A, summed over channels, where * is element by element. For
// each of the 16 elements, all tiles and filters together are a product of matrices: 16
// multiplications per tile instead of 36. (A. Lavin, S. Gray: Fast Algorithms for Convolutional
// Neural Networks, 2015.)
//
// The rounding error is about that of the plain sum. An infinity may become NaN in outputs near it.

// winogradCut says how the tiles are cut. A block is some rows of tiles, possibly of several
// images.
type winogradCut struct {
	rows, width int  // rows of tiles in all, tiles per row
	height      int  // rows of tiles per image
	block       int  // rows of tiles per block
	blocks      int  // 1 if all threads share each step
	flip        bool // whether w is [C, M, 3, 3] and flipped: the transposed convolution
}

const (
	winogradLeast      = 32      // with fewer channels or filters the transformations cost too much
	winogradLeastTiles = 128     // with fewer tiles the transformation of the weights costs too much
	winogradBytes      = 2 << 20 // of a thread's transformed tiles
	// winogradWeightBytes bounds the transformed weights.
	winogradWeightBytes = 32 << 20
)

// winograd reports whether the fast method applies, and cuts the work. It is for float32 alone.
func (p *convPlan) winograd(size int) bool {
	w := &p.win
	one := [3]int{1, 1, 1}
	if size != 4 || p.group != 1 || w.kernel != [3]int{1, 3, 3} || w.stride != one || w.dilation != one ||
		w.in[0] != 1 || w.out[0] != 1 || w.begin[0] != 0 || p.c < winogradLeast || p.m < winogradLeast ||
		16*size*p.c*p.m > winogradWeightBytes {
		return false
	}
	f := &p.fast
	f.height, f.width = (w.out[1]+1)/2, (w.out[2]+1)/2
	f.rows = p.n * f.height
	tiles := f.rows * f.width
	perTile := 16 * size * (p.c + p.m)
	// Tiles at the edge are computed in full: of the saving by 9/4, at least 3/2 must remain.
	if tiles < winogradLeastTiles || 32*tiles*3 > 2*2*9*p.n*p.outPlane || perTile*f.width > 4*winogradBytes {
		return false
	}
	f.block = max(1, winogradBytes/(perTile*f.width), (convLeastTile/2+f.width-1)/f.width)
	f.blocks = (f.rows + f.block - 1) / f.block
	if f.blocks < convFewPieces && tiles*perTile <= convSharedBytes {
		f.blocks = 1
	}
	f.block = (f.rows + f.blocks - 1) / f.blocks
	p.way = convWinograd
	return true
}

// winogradLens returns the elements of the transformed weights, of a block's transformed tiles of
// the input and of the output, and of a thread's temporary rows.
func (p *convPlan) winogradLens() (weights, in, out, temp int) {
	f := &p.fast
	tiles := f.block * f.width
	return 16 * p.m * p.c, 16 * p.c * tiles, 16 * p.m * tiles, max(8*(2*f.width+2), 8*tiles)
}

// runWinograd computes y.
func (k *convCore[T]) runWinograd(c *executor.Ctx) {
	k.work = executor.ScratchOf[T](c, k.workLen(k.threads))
	k.slots.reset(k.threads)
	c.Parallel(k.m, 1+1<<11/k.c, (*winogradWeights[T])(k))
	if k.fast.blocks > 1 {
		c.Parallel(k.fast.blocks, 1, (*winogradBlocks[T])(k))
		return
	}
	tiles := k.fast.rows * k.fast.width
	c.Parallel(k.c, 1+1<<11/tiles, (*winogradInputs[T])(k))
	c.Parallel(16*k.filterBlocks(), 1, (*winogradProducts[T])(k))
	c.Parallel(k.m, 1+1<<11/tiles, (*winogradOutputs[T])(k))
}

// winogradParts returns the parts of the workspace: the weights, for all threads, and the
// transformed input, output and temporary rows of slot s.
func (k *convCore[T]) winogradParts(s int) (weights, in, out, temp []T) {
	a, b, c, d := k.winogradLens()
	weights = k.work[:a]
	rest := k.work[a:]
	if k.fast.blocks == 1 {
		return weights, rest[:b], rest[b : b+c], rest[b+c+s*d:][:d]
	}
	own := rest[s*(b+c+d):][:b+c+d]
	return weights, own[:b], own[b : b+c], own[b+c:]
}

type winogradWeights[T convFloat] convCore[T]

// winogradLane is the number of channels that are transformed side by side.
const winogradLane = 128

// Range transforms the filters lo..hi-1.
func (t *winogradWeights[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	u, _, _, _ := k.winogradParts(0)
	plane := k.m * k.c
	var g, mid [9][winogradLane]T
	for m := lo; m < hi; m++ {
		for c := 0; c < k.c; c += winogradLane {
			n := min(winogradLane, k.c-c)
			k.winogradTaps(&g, m, c, n)
			for j := range 3 {
				winogradHalves(mid[j][:n], mid[3+j][:n], g[j][:], g[3+j][:], g[6+j][:])
			}
			at := m*k.c + c
			rows := [4][3][]T{{g[0][:n], g[1][:n], g[2][:n]}, {mid[0][:n], mid[1][:n], mid[2][:n]},
				{mid[3][:n], mid[4][:n], mid[5][:n]}, {g[6][:n], g[7][:n], g[8][:n]}}
			for i := range rows {
				r := &rows[i]
				copy(u[at:], r[0])
				winogradHalves(u[at+plane:][:n], u[at+2*plane:][:n], r[0], r[1], r[2])
				copy(u[at+3*plane:], r[2])
				at += 4 * plane
			}
		}
	}
}

// winogradTaps sorts the taps of filter m at n channels from c on.
func (k *convCore[T]) winogradTaps(g *[9][winogradLane]T, m, c, n int) {
	for j := range n {
		if k.fast.flip {
			for i, v := range k.w[((c+j)*k.m+m)*9:][:9] {
				g[8-i][j] = v
			}
			continue
		}
		for i, v := range k.w[(m*k.c+c+j)*9:][:9] {
			g[i][j] = v
		}
	}
}

// winogradHalves multiplies with the two inner rows of G.
func winogradHalves[T convFloat](plus, minus, a, b, c []T) {
	minus, a, b, c = minus[:len(plus)], a[:len(plus)], b[:len(plus)], c[:len(plus)]
	for i := range plus {
		s, d := (a[i]+c[i])/2, b[i]/2
		plus[i], minus[i] = s+d, s-d
	}
}

type winogradBlocks[T convFloat] convCore[T]

// Range computes the blocks lo..hi-1.
func (t *winogradBlocks[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	s := k.slots.take()
	defer k.slots.give(s)
	_, in, _, temp := k.winogradParts(s)
	for b := lo; b < hi; b++ {
		from, to := b*k.fast.block, min((b+1)*k.fast.block, k.fast.rows)
		for c := range k.c {
			k.winogradIn(in, temp, c, from, to)
		}
		for i := range 16 {
			k.winogradMultiply(s, i, 0, k.m, (to-from)*k.fast.width)
		}
		for m := range k.m {
			k.winogradOut(s, m, from, to)
		}
	}
}

type winogradInputs[T convFloat] convCore[T]

// Range transforms the channels lo..hi-1.
func (t *winogradInputs[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	s := k.slots.take()
	defer k.slots.give(s)
	_, in, _, temp := k.winogradParts(s)
	for c := lo; c < hi; c++ {
		k.winogradIn(in, temp, c, 0, k.fast.rows)
	}
}

type winogradProducts[T convFloat] convCore[T]

// Range multiplies: piece i is one of 16 products for a block of filters.
func (t *winogradProducts[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	blocks := k.filterBlocks()
	for i := lo; i < hi; i++ {
		m := i % blocks * k.filterBlock()
		k.winogradMultiply(0, i/blocks, m, min(m+k.filterBlock(), k.m), k.fast.rows*k.fast.width)
	}
}

type winogradOutputs[T convFloat] convCore[T]

// Range transforms the filters lo..hi-1 back.
func (t *winogradOutputs[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	s := k.slots.take()
	defer k.slots.give(s)
	for m := lo; m < hi; m++ {
		k.winogradOut(s, m, 0, k.fast.rows)
	}
}

// winogradMultiply makes product i of 16 for the filters m0..m1-1 and the first n tiles of a block.
func (k *convCore[T]) winogradMultiply(s, i, m0, m1, n int) {
	u, in, out, _ := k.winogradParts(s)
	ld := k.fast.block * k.fast.width
	k.math.gemm(false, false, m1-m0, n, k.c, 1, u[(i*k.m+m0)*k.c:], k.c, in[i*k.c*ld:], ld, 0, out[(i*k.m+m0)*ld:], ld)
}

// winogradIn transforms channel c at the rows from..to-1 of tiles.
func (k *convCore[T]) winogradIn(in, temp []T, c, from, to int) {
	f, w := &k.fast, &k.win
	long := 2*f.width + 2
	ld := f.block * f.width
	plane := k.c * ld
	var r, v [4][]T
	for i := range r {
		r[i], v[i] = temp[i*long:][:long], temp[(4+i)*long:][:long]
	}
	// The elements of a row of the input that its tiles see, and where the first goes.
	at := max(0, w.begin[2])
	skip := max(0, -w.begin[2])
	n := max(0, min(w.in[2]-skip, long-at))
	for i := range r {
		clear(r[i])
	}
	for row := from; row < to; row++ {
		x := k.x[(row/f.height*k.c+c)*k.inPlane:][:k.inPlane]
		top := row%f.height*2 - w.begin[1]
		for i := range r {
			if h := top + i; n > 0 && h >= 0 && h < w.in[1] {
				copy(r[i][at:at+n], x[h*w.in[2]+skip:])
			} else {
				clear(r[i])
			}
		}
		k.math.sub(v[0], r[0], r[2])
		k.math.add(v[1], r[1], r[2])
		k.math.sub(v[2], r[2], r[1])
		k.math.sub(v[3], r[1], r[3])
		o := c*ld + (row-from)*f.width
		for i := range v {
			winogradRow(v[i], in[o:], in[o+plane:], in[o+2*plane:], in[o+3*plane:], f.width)
			o += 4 * plane
		}
	}
}

// winogradRow multiplies a row of n overlapping groups of four with B.
func winogradRow[T convFloat](v, o0, o1, o2, o3 []T, n int) {
	o0, o1, o2, o3 = o0[:n], o1[:n], o2[:n], o3[:n]
	a, b := v[0], v[1]
	v = v[2 : 2*n+2]
	for j := range o0 {
		if len(v) < 2 {
			return
		}
		c, d := v[0], v[1]
		v = v[2:]
		o0[j] = a - c
		o1[j] = b + c
		o2[j] = c - b
		o3[j] = b - d
		a, b = c, d
	}
}

// winogradOut transforms filter m back at the rows from..to-1 of tiles, and finishes them.
func (k *convCore[T]) winogradOut(s, m, from, to int) {
	_, _, out, temp := k.winogradParts(s)
	f, w := &k.fast, &k.win
	ld := f.block * f.width
	n := (to - from) * f.width
	var upper, lower [4][]T
	for i := range 4 {
		m0, m1 := out[(i*k.m+m)*ld:][:n], out[((4+i)*k.m+m)*ld:][:n]
		m2, m3 := out[((8+i)*k.m+m)*ld:][:n], out[((12+i)*k.m+m)*ld:][:n]
		upper[i], lower[i] = temp[i*n:][:n], temp[(4+i)*n:][:n]
		k.math.add(upper[i], m0, m1)
		k.math.add(upper[i], upper[i], m2)
		k.math.sub(lower[i], m1, m2)
		k.math.sub(lower[i], lower[i], m3)
	}
	width := w.out[2]
	for row := from; row < to; row++ {
		h := row % f.height * 2
		at := (row/f.height*k.m+m)*k.outPlane + h*width
		o := (row - from) * f.width
		winogradPairs(k.y[at:at+width], upper[0][o:], upper[1][o:], upper[2][o:], upper[3][o:])
		n := width
		if h+1 < w.out[1] {
			winogradPairs(k.y[at+width:at+2*width], lower[0][o:], lower[1][o:], lower[2][o:], lower[3][o:])
			n = 2 * width
		}
		k.finish(m, at, n)
	}
}

// winogradPairs multiplies groups of four with A; the last group may give one element alone.
func winogradPairs[T convFloat](y, a, b, c, d []T) {
	n := len(y) / 2
	if len(y)%2 != 0 {
		s := a[n] + b[n]
		y[2*n] = s + c[n]
	}
	a, b, c, d = a[:n], b[:n], c[:n], d[:n]
	for j := range a {
		if len(y) < 2 {
			return
		}
		s, t := a[j]+b[j], b[j]-c[j]
		y[0] = s + c[j]
		y[1] = t - d[j]
		y = y[2:]
	}
}
