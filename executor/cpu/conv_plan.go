package cpu

import "fmt"

// convPlan says how a convolution is cut into pieces.
type convPlan struct {
	win               slidingWindow
	n, c, m, group    int
	cg, mg            int // channels and filters per group
	taps, depth       int // of the kernel; depth is cg*taps, the length of a column
	inPlane, outPlane int
	way               convWay
	tile              int // columns of a tile
	perPlane          int // tiles per image, or 0 if a tile holds several images
	tiles             int // per group
	fast              winogradCut
	deepChannels      int // of convDeep: channels whose columns are made at a time
	// For packSplit: rows of the input that a tile sees, or 0, and elements of half a row.
	splitRows, splitHalf int
}

// convWay names a way to compute a convolution.
type convWay uint8

const (
	convTiled    convWay = iota // every piece makes the columns of its tile
	convShared                  // all columns are made first, then multiplied by blocks of filters
	convPoint                   // the input already is the columns: one tap, no stride, no padding
	convWinograd                // 3x3 kernels: fewer multiplications, by tiles of the output
	convDeep                    // large kernels over small outputs: long columns, made as rows
	convDepth                   // one channel per group: row by row, without columns
	convOneDNN                  // by a library
)

const (
	// convTileBytes bounds the columns of a tile: half of a common second-level cache.
	convTileBytes = 1 << 20
	// products with fewer columns are slow
	convLeastTile = 192
	// convSharedBytes bounds the columns that are made at once.
	convSharedBytes = 16 << 20
	// convSharedTile is about how many of them a piece multiplies if planes are small.
	convSharedTile = 512
	// with fewer pieces, threads would starve
	convFewPieces = 8
	// convFilterBlock is the number of filters of a piece of a shared product, of few or many
	// filters.
	convFilterBlock, convFilterBlockOfMany = 128, 256
)

// newConvPlan checks the shapes against each other and makes the plan.
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
		return p, fmt.Errorf("the data has %d channels in %d groups; the weights have %d channels per group",
			c, group, cg)
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
	if p.deep() {
		p.cutDeep(size)
		return
	}
	want := max(convLeastTile, convTileBytes/(size*max(p.depth, 1)))
	if p.outPlane >= want/2 {
		count := max(1, (p.outPlane+want/4)/want)
		// Smaller tiles are better than too few of them.
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
	p.choose(size)
	switch p.way {
	case convTiled, convShared:
		p.cutSplit()
	case convDepth:
		if p.win.stride[2] == 2 && p.win.kernel[2] > 1 {
			p.splitRows, p.splitHalf = 1, (p.win.in[2]+1)/2
		}
	}
}

// choose sets the way.
func (p *convPlan) choose(size int) {
	columns := p.n * p.outPlane
	switch {
	case p.cg == 1 && p.mg <= 4:
		p.way = convDepth
	case p.pointwise() && p.perPlane > 0 && p.tiles*p.group >= convFewPieces:
		p.way = convPoint
	case p.group == 1 && p.tiles < convFewPieces && p.depth*columns*size <= convSharedBytes:
		p.way = convShared
		// A tile holds whole images: one if that is enough for a product.
		images := 1
		if p.perPlane == 0 {
			images = max(1, convSharedTile/max(1, p.outPlane))
		}
		p.tile = min(columns, images*p.outPlane)
	default:
		p.way = convTiled
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
	switch p.way {
	case convTiled:
		n += p.depth * p.tile
	case convDeep:
		n += p.m*p.tile + p.deepChannels*p.taps*p.tile
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

// filterBlock returns the number of filters of a piece of a shared product.
func (p *convPlan) filterBlock() int {
	if p.m >= 2*convFilterBlockOfMany {
		return convFilterBlockOfMany
	}
	return convFilterBlock
}

func (p *convPlan) filterBlocks() int { return (p.m + p.filterBlock() - 1) / p.filterBlock() }
