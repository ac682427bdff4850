package cpu

import (
	"fmt"
	"unsafe"

	"memopt/executor"
)

// convCore computes the convolution of x [N, C, in…] with weights w [M, C/group, kernel…]:
//
//	y[n, m, o…] = act(bias[m] + z[n, m, o…] + Σ x[n, c, o*stride - begin + k*dilation…] * w[m, c, k…])
//
// over the channels c of m's group and the taps k. It is a product of matrices, the weights
// times the columns: column o lists the K = C/group*taps elements of x under place o. Columns
// are made tile by tile in workspace, so that they stay in the cache until they are multiplied.
// How the work is cut depends on the shapes alone.
type convCore[T convFloat] struct {
	convPlan
	math convMath[T]
	act  convActivation

	x, w, y, bias, z []T // of a run; bias and z may be nil
	work             []T
	slots            slotList
	threads          int
}

// convPlan says how a convolution is cut into pieces.
type convPlan struct {
	win               slidingWindow
	n, c, m, group    int
	cg, mg            int // channels and filters per group
	taps, depth       int // of the kernel; depth is cg*taps, the length of a column
	inPlane, outPlane int
	way               convWay
	tile              int // columns of a tile
	perPlane          int // tiles per image, or 0 where a tile holds several images
	tiles             int // per group
	fast              winogradCut
	// Of packSplit: rows of the input that a tile sees, or 0, and elements of half a row.
	splitRows, splitHalf int
}

// convWay names a way to compute a convolution.
type convWay uint8

const (
	convTiled    convWay = iota // every piece makes the columns of its tile
	convShared                  // all columns are made first, then multiplied by blocks of filters
	convPoint                   // the input itself has the columns: one tap, no stride, no padding
	convWinograd                // 3x3 kernels: fewer multiplications, by tiles of the output
	convDepth                   // one channel per group: row by row, without columns
)

const (
	// convTileBytes bounds the columns of a tile: half of a common second-level cache.
	convTileBytes = 1 << 20
	// convLeastTile is the number of columns below which products are slow.
	convLeastTile = 192
	// convSharedBytes bounds the columns that are made at once.
	convSharedBytes = 16 << 20
	// convFewPieces is the number of pieces below which threads would starve.
	convFewPieces = 8
	// convFilterBlock is the number of filters of a piece of a shared product, of few or many filters.
	convFilterBlock, convFilterBlockOfMany = 128, 256
)

// newConvPlan checks shapes against each other and plans.
func newConvPlan(a *windowAttrs, group int, x, w []int, size int) (p convPlan, err error) {
	n, c, spatial, err := windowPlanes(x)
	if err != nil {
		return p, err
	}
	if len(w) != len(x) {
		return p, fmt.Errorf("the weights have rank %d, wanted %d as the data", len(w), len(x))
	}
	m, cg := w[0], w[1]
	if c%group != 0 || c/group != cg {
		return p, fmt.Errorf("the data has %d channels in %d groups; the weights have %d channels per group", c, group, cg)
	}
	if m%group != 0 {
		return p, fmt.Errorf("the weights have %d filters, which %d groups do not share evenly", m, group)
	}
	if p.win, err = a.onto(spatial, w[2:]); err != nil {
		return p, err
	}
	if err := a.slide(&p.win); err != nil {
		return p, err
	}
	p.n, p.c, p.m, p.group, p.cg, p.mg = n, c, m, group, cg, m/group
	p.taps = windowVolume(p.win.kernel)
	p.depth = cg * p.taps
	p.inPlane, p.outPlane = windowVolume(p.win.in), windowVolume(p.win.out)
	p.cut(size)
	return p, nil
}

// cut chooses the way and the tiles for elements of size bytes.
func (p *convPlan) cut(size int) {
	if p.winograd(size) {
		return
	}
	want := max(convLeastTile, convTileBytes/(size*max(p.depth, 1)))
	if p.outPlane >= want/2 {
		count := max(1, (p.outPlane+want/4)/want)
		// Rather smaller tiles than few of them.
		if images := max(1, p.n*p.group); images*count < convFewPieces {
			count = max(count, min((convFewPieces+images-1)/images, p.outPlane/convLeastTile))
		}
		p.tile = ((p.outPlane+count-1)/count + 15) &^ 15
		p.perPlane = (p.outPlane + p.tile - 1) / p.tile
		p.tiles = p.n * p.perPlane
	} else {
		images := max(1, min(want/max(p.outPlane, 1), p.n))
		p.tile, p.perPlane = images*p.outPlane, 0
		p.tiles = (p.n + images - 1) / images
	}
	columns := p.n * p.outPlane
	switch {
	case p.cg == 1 && p.mg <= 4:
		p.way = convDepth
	case p.pointwise() && p.perPlane > 0 && p.tiles*p.group >= convFewPieces:
		p.way = convPoint
	case p.group == 1 && p.tiles < convFewPieces && p.depth*columns*size <= convSharedBytes:
		p.way = convShared
		p.tile = columns
		if p.perPlane == 0 {
			p.tile = min(columns, max(1, 512/max(1, p.outPlane))*p.outPlane)
		} else {
			p.tile = p.outPlane
		}
	default:
		p.way = convTiled
	}
	switch p.way {
	case convTiled, convShared:
		p.cutSplit()
	case convDepth:
		if p.win.stride[2] == 2 && p.win.kernel[2] > 1 {
			p.splitRows, p.splitHalf = 1, (p.win.in[2]+1)/2
		}
	}
}

// pointwise reports whether a plane of the output lies under one tap of a plane of the input.
func (p *convPlan) pointwise() bool {
	w := &p.win
	return p.taps == 1 && w.in == w.out && w.stride == [3]int{1, 1, 1} && w.begin == [3]int{}
}

// columnsOf returns the columns lo..hi-1 of tile t. Column j is place j mod outPlane of
// image j div outPlane. A tile lies within an image or has whole images.
func (p *convPlan) columnsOf(t int) (lo, hi int) {
	if p.perPlane == 0 {
		lo = t * p.tile
		return lo, min(lo+p.tile, p.n*p.outPlane)
	}
	start := t / p.perPlane * p.outPlane
	lo = start + t%p.perPlane*p.tile
	return lo, min(lo+p.tile, start+p.outPlane)
}

// tempLen returns the elements of a product that has to be scattered over several images.
func (p *convPlan) tempLen() int {
	switch {
	case p.perPlane != 0:
		return 0
	case p.way == convTiled:
		return p.mg * p.tile
	case p.way == convShared:
		return p.filterBlock() * p.tile
	}
	return 0
}

// slotLen returns the elements of workspace that a thread needs.
func (p *convPlan) slotLen() int {
	n := p.splitLen() + p.tempLen()
	if p.way == convTiled {
		n += p.depth * p.tile
	}
	return (n + 15) &^ 15
}

// workLen returns the elements of workspace in all.
func (p *convPlan) workLen(threads int) int {
	if p.way == convWinograd {
		weights, in, out, temp := p.winogradLens()
		if p.fast.blocks == 1 {
			return weights + in + out + threads*temp
		}
		return weights + threads*(in+out+temp)
	}
	n := threads * p.slotLen()
	if p.way == convShared {
		n += p.depth * p.n * p.outPlane
	}
	return n
}

// outShape appends the shape of the output.
func (p *convPlan) outShape(dst []int) []int {
	dst = append(dst, p.n, p.m)
	return append(dst, p.win.out[maxWindowAxes-p.win.rank:]...)
}

// workspace returns the bytes that run takes.
func (k *convCore[T]) workspace() int {
	var e T
	return executor.RoundUp(k.workLen(k.threads) * int(unsafe.Sizeof(e)))
}

// run computes y. The plan and the operands are set.
func (k *convCore[T]) run(c *executor.Ctx) {
	if len(k.y) == 0 {
		return
	}
	if k.depth == 0 {
		clear(k.y)
		c.Parallel(k.n*k.m, 1+1<<14/k.outPlane, (*convFinish[T])(k))
		return
	}
	if k.way == convWinograd {
		k.runWinograd(c)
		return
	}
	k.work = nil
	if n := k.workLen(k.threads); n > 0 {
		k.work = executor.ScratchOf[T](c, n)
	}
	k.slots.reset(k.threads)
	switch k.way {
	case convDepth:
		c.Parallel(k.n*k.m, 1+1<<14/(k.outPlane*k.taps), (*convDepthwise[T])(k))
	case convShared:
		c.Parallel(k.cg, 1+1<<14/(k.n*k.outPlane*k.taps), (*convColumns[T])(k))
		c.Parallel(k.sharedTiles()*k.filterBlocks(), 1, (*convProducts[T])(k))
	default:
		c.Parallel(k.tiles*k.group, 1, (*convTiles[T])(k))
	}
}

// filterBlock returns the number of filters of a piece of a shared product.
func (p *convPlan) filterBlock() int {
	if p.m >= 2*convFilterBlockOfMany {
		return convFilterBlockOfMany
	}
	return convFilterBlock
}

func (p *convPlan) filterBlocks() int { return (p.m + p.filterBlock() - 1) / p.filterBlock() }

func (k *convCore[T]) sharedTiles() int { return (k.n*k.outPlane + k.tile - 1) / k.tile }

// slot returns the workspace of a thread.
func (k *convCore[T]) slot(i int) []T {
	n := k.slotLen()
	return k.work[i*n : (i+1)*n]
}

// convTiles computes tiles of groups, each on its own.
type convTiles[T convFloat] convCore[T]

// Range computes the pieces lo..hi-1: piece i is tile i/group of group i%group.
func (t *convTiles[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	s := k.slots.take()
	defer k.slots.give(s)
	work := k.slot(s)
	for i := lo; i < hi; i++ {
		g := i % k.group
		from, to := k.columnsOf(i / k.group)
		b, ldb := work[k.splitLen()+k.tempLen():], to-from
		if k.way == convPoint {
			n := from / k.outPlane
			b, ldb = k.x[(n*k.c+g*k.cg)*k.inPlane+from-n*k.outPlane:], k.inPlane
		} else {
			k.pack(b, work[k.tempLen():], ldb, g*k.cg, (g+1)*k.cg, from, to)
		}
		k.multiply(g*k.mg, (g+1)*k.mg, from, to, b, ldb, work)
	}
}

// convColumns makes all columns, channel by channel.
type convColumns[T convFloat] convCore[T]

// Range makes the rows of the channels lo..hi-1.
func (t *convColumns[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	s := k.slots.take()
	defer k.slots.give(s)
	n := k.n * k.outPlane
	k.pack(k.shared()[lo*k.taps*n:], k.slot(s)[k.tempLen():], n, lo, hi, 0, n)
}

// shared returns the columns of all threads.
func (k *convCore[T]) shared() []T { return k.work[k.threads*k.slotLen():] }

// convProducts multiplies blocks of filters with tiles of the shared columns.
type convProducts[T convFloat] convCore[T]

// Range computes the pieces lo..hi-1: piece i is a block of filters of a tile.
func (t *convProducts[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	s := k.slots.take()
	defer k.slots.give(s)
	blocks, n := k.filterBlocks(), k.n*k.outPlane
	for i := lo; i < hi; i++ {
		m := i % blocks * k.filterBlock()
		from := i / blocks * k.tile
		to := min(from+k.tile, n)
		k.multiply(m, min(m+k.filterBlock(), k.m), from, to, k.shared()[from:], n, k.slot(s))
	}
}

// multiply computes the filters m0..m1-1 at the columns from..to-1, which are in b. Where the
// columns are of several images, the product is made in temp first.
func (k *convCore[T]) multiply(m0, m1, from, to int, b []T, ldb int, temp []T) {
	w := k.w[m0*k.depth : m1*k.depth]
	plane := k.outPlane
	n := from / plane
	if to <= (n+1)*plane {
		y := k.y[(n*k.m+m0)*plane+from-n*plane:]
		k.math.gemm(false, false, m1-m0, to-from, k.depth, 1, w, k.depth, b, ldb, 0, y, plane)
		for m := m0; m < m1; m++ {
			k.finish(m, (n*k.m+m)*plane+from-n*plane, to-from)
		}
		return
	}
	ld := to - from
	k.math.gemm(false, false, m1-m0, ld, k.depth, 1, w, k.depth, b, ldb, 0, temp, ld)
	for m := m0; m < m1; m++ {
		row := temp[(m-m0)*ld:][:ld]
		for j := from; j < to; j += plane {
			at := (j/plane*k.m + m) * plane
			copy(k.y[at:at+plane], row[j-from:])
			k.finish(m, at, plane)
		}
	}
}

// convFinish finishes whole planes.
type convFinish[T convFloat] convCore[T]

// Range finishes the planes lo..hi-1.
func (t *convFinish[T]) Range(lo, hi int) {
	k := (*convCore[T])(t)
	for i := lo; i < hi; i++ {
		k.finish(i%k.m, i*k.outPlane, k.outPlane)
	}
}

// finish adds bias and z to n elements of filter m and applies the activation.
func (k *convCore[T]) finish(m, at, n int) {
	y := k.y[at : at+n]
	if k.bias != nil {
		k.math.addScalar(y, y, k.bias[m])
	}
	if k.z != nil {
		k.math.add(y, y, k.z[at:at+n])
	}
	if k.act.kind != convNoActivation {
		convActivate(k.math.relu, &k.act, y)
	}
}
