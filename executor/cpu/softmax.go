package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// Softmax is e^(x-m)/s along an axis, m being the maximum and s the sum of e^(x-m); LogSoftmax is
// x-m-log(s). https://onnx.ai/onnx/operators/onnx__Softmax.html
//
// Before version 13 the input counts as a matrix whose rows are all dims from the axis on.
//
// A row of -∞ alone, or one with NaN or +∞, gives NaN, as the formula does.

// softmaxAxis is the axis of softmaxes and their gradients.
type softmaxAxis struct {
	attr    int64
	given   bool
	coerced bool // the input counts as a matrix

	outer, n, inner int // the input is [outer, n, inner]
	tiles           int // of softmaxTile columns in inner
}

// softmaxTile is how many neighbouring columns are done together.
const softmaxTile = 256

func newSoftmaxAxis(p *executor.Prep, coerced bool) softmaxAxis {
	def := int64(-1)
	if coerced {
		def = 1
	}
	return softmaxAxis{attr: p.Node.Int("axis", def), given: p.Node.Attr("axis") != nil, coerced: coerced}
}

// read finds outer, n and inner for a shape.
func (a *softmaxAxis) read(c *executor.Ctx, shape []int) error {
	rank := len(shape)
	axis := rank
	if !a.coerced || a.attr != int64(rank) && (a.given || rank > 1) {
		var err error
		if axis, err = normAxis(c, a.attr, rank); err != nil {
			return err
		}
	}
	a.outer = product(shape[:axis])
	if a.coerced {
		a.n, a.inner = product(shape[axis:]), 1
	} else {
		a.n, a.inner = shape[axis], product(shape[axis+1:])
	}
	a.tiles = (a.inner + softmaxTile - 1) / softmaxTile
	return nil
}

// parallel runs a task over all rows, or over all tiles of columns.
func (a *softmaxAxis) parallel(c *executor.Ctx, t executor.Task) {
	if a.n*a.inner > 0 {
		c.Parallel(a.outer*a.tiles, normGrain(4*a.n*min(a.inner, softmaxTile)), t)
	}
}

// tile returns where item i begins and how many columns it has.
func (a *softmaxAxis) tile(i int) (base, columns int) {
	column := i % a.tiles * softmaxTile
	return i/a.tiles*a.n*a.inner + column, min(a.inner-column, softmaxTile)
}

// softmaxKernel is Softmax or LogSoftmax.
type softmaxKernel[T normElem] struct {
	softmaxAxis
	log  bool
	x, y []T
}

func newSoftmax(log bool) func(*executor.Prep) (executor.Kernel, error) {
	return widened(func(p *executor.Prep) (executor.Kernel, error) {
		axis := newSoftmaxAxis(p, p.Version < 13)
		switch p.DType(0) {
		case graph.Float32:
			return &softmaxKernel[float32]{softmaxAxis: axis, log: log}, nil
		case graph.Float64:
			return &softmaxKernel[float64]{softmaxAxis: axis, log: log}, nil
		}
		return nil, unsupportedTypes(p)
	})
}

// Run computes the softmax.
func (k *softmaxKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.read(c, x.Shape); err != nil {
		return err
	}
	y := c.Out(0, x.Shape...)
	if y == nil {
		return nil
	}
	k.x, k.y = executor.Cast[T](x.Data), executor.Cast[T](y.Data)
	k.parallel(c, k)
	return nil
}

// Range does rows, or tiles of columns, lo..hi-1.
func (k *softmaxKernel[T]) Range(lo, hi int) {
	for ; lo < hi; lo++ {
		base, columns := k.tile(lo)
		switch {
		case k.inner > 1:
			k.columns(base, columns)
		case k.log:
			logSoftmaxRow(k.y[base:base+k.n], k.x[base:base+k.n])
		default:
			softmaxRow(k.y[base:base+k.n], k.x[base:base+k.n])
		}
	}
}

func softmaxRow[T normElem](y, x []T) {
	s := normExpSum(y, x, normMax(x))
	normMulScalar(y, y, 1/s)
}

func logSoftmaxRow[T normElem](y, x []T) {
	m, s := logSumExpRow(x)
	for lo := 0; lo < len(x); lo += 1024 {
		hi := min(lo+1024, len(x))
		// Two steps: m may be so large that m+log(s) would round log(s) away.
		normAddScalar(y[lo:hi], x[lo:hi], -m)
		normAddScalar(y[lo:hi], y[lo:hi], -s)
	}
}

// logSumExpRow returns the maximum m of x and the logarithm of the sum of e^(x-m). The sum is made
// in blocks.
func logSumExpRow[T normElem](x []T) (m, s T) {
	var buf [1024]T
	m = normMax(x)
	for lo := 0; lo < len(x); lo += len(buf) {
		n := min(len(x)-lo, len(buf))
		s += normExpSum(buf[:n], x[lo:lo+n], m)
	}
	return m, T(math.Log(float64(s)))
}

// columns does neighbouring columns, row by row.
func (k *softmaxKernel[T]) columns(base, n int) {
	var ms, ss, bs [softmaxTile]T
	m, s, buf := ms[:n], ss[:n], bs[:n]
	if k.log {
		columnSums(nil, k.x[base:], k.n, k.inner, m, s, buf)
		logSoftmaxColumns(k.y[base:], k.x[base:], k.n, k.inner, m, s)
		return
	}
	columnSums(k.y[base:], k.x[base:], k.n, k.inner, m, s, buf)
	for i, v := range s {
		s[i] = 1 / v
	}
	for j := range k.n {
		y := k.y[base+j*k.inner:][:n]
		normMul(y, y, s)
	}
}

// columnSums sets m and s to the maxima of len(m) columns of n elements, and to the sums of
// e^(x-m); rows are inner elements apart. The exponentials go to y unless it is nil; buf has room
// for a row.
func columnSums[T normElem](y, x []T, n, inner int, m, s, buf []T) {
	copy(m, x)
	for j := 1; j < n; j++ {
		normMaxWith(m, x[j*inner:])
	}
	clear(s)
	for j := range n {
		e := buf
		if y != nil {
			e = y[j*inner:][:len(m)]
		}
		normSub(e, x[j*inner:][:len(m)], m)
		normExp(e, e)
		normAdd(s, s, e)
	}
}

// logSoftmaxColumns sets y = x-m-log(s) and s to log(s).
func logSoftmaxColumns[T normElem](y, x []T, n, inner int, m, s []T) {
	normLog(s, s)
	for j := range n {
		d := y[j*inner:][:len(m)]
		normSub(d, x[j*inner:][:len(m)], m)
		normSub(d, d, s)
	}
}
