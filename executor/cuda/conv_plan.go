package cuda

import (
	"memopt/executor"
	"memopt/executor/cpu"
)

// convColumnBytes bounds the columns that are made at once, unless one place of one image, or one
// channel, takes more.
var convColumnBytes = 32 << 20

// convWay names a way to compute a convolution.
type convWay uint8

const (
	convColumns convWay = iota // columns of some images, or of some places of one, times the weights
	convWide                   // columns of several small images side by side, and one product
	convPoint                  // the input itself has the columns
	convDepth                  // one channel per group: no columns
	convDeep                   // few filters per group, with kernels as large as planes: no columns
)

// convPlan says how a convolution is computed. It follows from the shapes.
type convPlan struct {
	window
	n, c, m, group, cg, mg int // images, channels, filters, groups, and channels and filters of a group
	depth                  int // of a column: cg*taps
	size                   int // bytes of an element of columns
	elem                   int // bytes of an operand's element, of the transpose
	act                    cpu.ConvActivation
	way                    convWay
	images, places         int // whose columns are made at once
	channels               int // of a group, whose columns are made at once by the transpose
}

func newConvPlan(g *cpu.ConvGeometry, x, w []int, size int) (p convPlan, err error) {
	s, err := g.Shape(x, w)
	if err != nil {
		return p, err
	}
	if p.window, err = newWindow(s.Window); err != nil {
		return p, err
	}
	p.n, p.c, p.m, p.group = s.N, s.C, s.M, s.Group
	p.cg, p.mg = s.C/s.Group, s.M/s.Group
	p.depth, p.size, p.act = p.cg*p.taps, size, g.Activation
	return p, nil
}

// forward chooses the way of a convolution.
func (p *convPlan) forward() {
	p.images, p.places = max(p.n, 1), p.outPlane
	switch {
	case p.cg == 1 && p.taps <= 128:
		p.way = convDepth
	case p.point():
		p.way = convPoint
	case p.mg < 8 && p.group > 1 && p.outPlane <= 64 && p.depth >= 256:
		p.way = convDeep
	default:
		p.way = convColumns
		if p.outPlane < 128 && p.n > 1 {
			p.way = convWide
		}
		p.share()
		if p.images == 1 {
			p.way = convColumns
		}
	}
}

// share bounds the images or the places whose columns are made at once.
func (p *convPlan) share() {
	image := p.c * p.taps * p.outPlane * p.size
	p.images, p.places = min(max(p.n, 1), max(1, convColumnBytes/max(image, 1))), p.outPlane
	if image > convColumnBytes {
		p.places = min(p.outPlane, max(1, convColumnBytes/(p.c*p.taps*p.size)))
	}
}

// backward chooses the way of the transpose. Its columns are float32 for all types: each element of
// the result is a sum of several, which is rounded once.
func (p *convPlan) backward(elem int) {
	p.elem, p.size = elem, 4
	p.images, p.channels = max(p.n, 1), p.cg
	switch {
	case p.cg == 1 && p.taps <= 128:
		p.way = convDepth
	case p.point():
		p.way = convPoint
	default:
		p.way = convColumns
		p.share()
		if p.places < p.outPlane {
			p.channels = min(p.cg, max(1, convColumnBytes/(p.taps*p.outPlane*p.size)))
		}
	}
}

// whole reports whether the transpose makes the columns of all channels of an image at once.
func (p *convPlan) whole() bool { return p.channels == p.cg && p.places == p.outPlane }

// columnBytes returns the bytes of the columns and, of convWide, of the product before it is
// brought to its places.
func (p *convPlan) columnBytes() (columns, rows int) {
	switch p.way {
	case convColumns:
		return p.images * p.c * p.taps * p.places * p.size, 0
	case convWide:
		return p.images * p.c * p.taps * p.outPlane * p.size, p.images * p.m * p.outPlane * p.size
	}
	return 0, 0
}

// forwardBytes returns the workspace of a convolution besides the library's.
func (p *convPlan) forwardBytes() int {
	columns, rows := p.columnBytes()
	return executor.RoundUp(columns) + executor.RoundUp(rows)
}

// spreadColumns returns the bytes of the columns of the transpose.
func (p *convPlan) spreadColumns() int {
	if p.whole() {
		return p.images * p.c * p.taps * p.outPlane * p.size
	}
	return p.channels * p.taps * p.outPlane * p.size
}

// backwardBytes returns the workspace of the transpose besides the library's: columns, and halves
// as float32.
func (p *convPlan) backwardBytes() int {
	if p.way != convColumns {
		return 0
	}
	n := executor.RoundUp(p.spreadColumns())
	if p.elem < 4 {
		n += executor.RoundUp(p.m*p.depth*4) + executor.RoundUp(p.images*p.m*p.outPlane*4)
	}
	return n
}

// depthwise reports whether the gradient of the weights is formed without columns.
func (p *convPlan) depthwise() bool { return p.cg == 1 && p.group > 1 }

// backwardWeights shares out the gradient of the weights. Where it is formed in several pieces they
// are added up in float32.
func (p *convPlan) backwardWeights(elem int) {
	p.elem, p.size = elem, elem
	if p.share(); elem < 4 && (p.images < p.n || p.places < p.outPlane) {
		p.size = 4
		p.share()
	}
}

// weightBytes returns the workspace of the gradient of the weights besides the library's: columns,
// dY with the images of a filter side by side, and where halves are added up, dY and dW as float32.
func (p *convPlan) weightBytes() int {
	if p.depthwise() {
		return 0
	}
	n, dy := executor.RoundUp(p.images*p.c*p.taps*p.places*p.size), executor.RoundUp(p.images*p.m*p.outPlane*p.size)
	if p.images > 1 {
		n += dy
	}
	if p.elem != p.size {
		n += dy + executor.RoundUp(p.m*p.depth*4)
	}
	return n
}
