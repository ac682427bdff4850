package cpu

import (
	"memopt/executor"
	"memopt/executor/cpu/dnnl"
)

// convLibrary computes convolutions with oneDNN where that is quicker: in float32, with one group
// and at most two spatial axes. The shapes alone decide. This package's own methods remain for
// pointwise convolutions without strides, which already are products, for few channels, which do
// not fill a vector, and for everything without a fast implementation in the library.
type convLibrary struct {
	threads int
	problem dnnl.Problem // that conv is for
	settled bool
	conv    *dnnl.Conv // nil if other methods are better

	a, b, out, work []float32 // of a run
	slots           slotList
	round           int
}

// Below convLibraryLeast channels, oneDNN's blocks of 16 are mostly padding. Only input images may
// have fewer.
const convLibraryLeast = 16

// prepare decides whether the library computes a problem, and if so makes the Conv for it.
func (k *convLibrary) prepare(p dnnl.Problem) bool {
	if !k.settled || k.problem != p {
		k.problem, k.settled, k.conv = p, true, nil
		if conv, err := dnnl.New(p, k.threads); err == nil {
			k.conv = conv
		}
	}
	return k.conv != nil
}

// workspace returns the bytes that run takes.
func (k *convLibrary) workspace() int { return executor.RoundUp(4 * k.conv.Workspace()) }

// convByLibrary computes out from a and b, all of them float32.
func convByLibrary[T convFloat](k *convLibrary, c *executor.Ctx, a, b, out []T) {
	k.a, k.b, k.out = floats32(a), floats32(b), floats32(out)
	k.work = executor.ScratchOf[float32](c, k.conv.Workspace())
	k.slots.reset(k.threads)
	for k.round = range k.conv.Rounds() {
		c.Parallel(k.conv.Packs(k.round), 1, (*convLibraryPacks)(k))
		c.Parallel(k.conv.Pieces(k.round), 1, (*convLibraryPieces)(k))
	}
}

type convLibraryPacks convLibrary

// Range makes the copies lo..hi-1.
func (t *convLibraryPacks) Range(lo, hi int) {
	k := (*convLibrary)(t)
	s := k.slots.take()
	defer k.slots.give(s)
	for i := lo; i < hi; i++ {
		k.conv.Pack(k.round, i, s, k.a, k.b, k.work)
	}
}

type convLibraryPieces convLibrary

// Range computes the pieces lo..hi-1.
func (t *convLibraryPieces) Range(lo, hi int) {
	k := (*convLibrary)(t)
	s := k.slots.take()
	defer k.slots.give(s)
	for i := lo; i < hi; i++ {
		k.conv.Piece(k.round, i, s, k.out, k.work)
	}
}

// library returns a plan's problem in a direction, and whether oneDNN may be better at it.
func (p *convPlan) library(d dnnl.Direction, size int) (q dnnl.Problem, ok bool) {
	w := &p.win
	if size != 4 || p.group != 1 || w.in[0] != 1 || w.out[0] != 1 || w.kernel[0] != 1 || w.begin[0] != 0 ||
		p.m < convLibraryLeast ||
		p.c < convLibraryLeast && (d == dnnl.BackwardData || p.c > 4) || p.pointwise() {
		return q, false
	}
	q = dnnl.Problem{Direction: d, N: p.n, C: p.c, M: p.m, In: w.plane(&w.in), Out: w.plane(&w.out),
		Kernel: w.plane(&w.kernel),
		Stride: w.plane(&w.stride), Dilation: w.plane(&w.dilation), Begin: w.plane(&w.begin),
		X: dnnl.Strides{Outer: p.c * p.inPlane, Inner: p.inPlane}, W: dnnl.Strides{Outer: p.c * p.taps, Inner: p.taps},
		Y: dnnl.Strides{Outer: p.m * p.outPlane, Inner: p.outPlane}}
	return q, true
}

// plane returns the last two entries of one of the window's lists.
func (w *slidingWindow) plane(list *[maxWindowAxes]int) [2]int { return [2]int{list[1], list[2]} }

// libraryDeep returns a deep convolution as a problem: the gradient of the weights, where
//
//	images of the data    are channels
//	channels              are images
//	the kernel            is the gradient of the output, its filters being channels
//	the output            is the gradient of the weights
//
// and strides and dilations are swapped. Only the two axes before the spatial ones are in a
// different order.
func (p *convPlan) libraryDeep(size int) (q dnnl.Problem, ok bool) {
	if !p.deep() {
		return q, false
	}
	turned := *p
	turned.n, turned.c, turned.m, turned.cg, turned.mg = p.c, p.n, p.m, p.n, p.m
	w := &turned.win
	w.kernel, w.out, w.stride, w.dilation = w.out, w.kernel, w.dilation, w.stride
	turned.taps, turned.outPlane = p.outPlane, p.taps
	if q, ok = turned.library(dnnl.BackwardWeights, size); !ok {
		return q, false
	}
	q.X, q.Y = dnnl.Strides{Outer: p.inPlane, Inner: p.c * p.inPlane}, dnnl.Strides{Outer: p.taps, Inner: p.c * p.taps}
	q.W = dnnl.Strides{Outer: p.outPlane, Inner: p.m * p.outPlane}
	return q, true
}

// preferLibrary gives a convolution to oneDNN if that is quicker.
func (k *convCore[T]) preferLibrary() {
	size := sizeOfElem[T]()
	q, ok := k.libraryDeep(size)
	if !ok {
		q, ok = k.library(dnnl.Forward, size)
	}
	if ok && k.lib.prepare(q) {
		k.way = convOneDNN
	}
}

// takenByLibrary is preferLibrary for gradients.
func (k *convCore[T]) takenByLibrary(d dnnl.Direction) bool {
	if k.lib == nil {
		return false
	}
	q, ok := k.library(d, sizeOfElem[T]())
	return ok && k.lib.prepare(q)
}
