package cpu

import (
	"math"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// Softmax is e^(x-m)/s along an axis, where m is the maximum and s the sum of e^(x-m); LogSoftmax
// is x-m-log(s). https://onnx.ai/onnx/operators/onnx__Softmax.html
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
		if axis, err = operand.DataAxis(c, a.attr, rank); err != nil {
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
	x, y normTensor[T]
}

func newSoftmax(log bool) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		axis := newSoftmaxAxis(p, p.Version < 13)
		switch normAccumulates(p.DType(0)) {
		case graph.Float32:
			return &softmaxKernel[float32]{softmaxAxis: axis, log: log}, nil
		case graph.Float64:
			return &softmaxKernel[float64]{softmaxAxis: axis, log: log}, nil
		}
		return nil, unsupportedTypes(p)
	}
}

// Run computes the softmax.
func (k *softmaxKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.read(c, x.Shape); err != nil {
		return err
	}
	k.x, k.y = normOpen[T](x), normOpen[T](c.Out(0, x.Shape...))
	if k.y.given() {
		k.parallel(c, k)
	}
	return nil
}

// Range does rows, or tiles of columns, lo..hi-1.
func (k *softmaxKernel[T]) Range(lo, hi int) {
	var block [normBlock]T
	buf := block[:]
	for ; lo < hi; lo++ {
		base, columns := k.tile(lo)
		switch {
		case k.inner > 1:
			k.columns(buf, base, columns)
		case k.log:
			m, s := logSumExp(buf, &k.x, base, k.n)
			logSoftmaxRow(buf, &k.y, &k.x, base, k.n, m, s)
		default:
			softmaxRow(buf, &k.y, &k.x, base, k.n)
		}
	}
}

// softmaxRow does n neighbouring elements. The exponentials wait in y for their sum; 16-bit
// elements would lose bits there and are computed twice.
func softmaxRow[T normElem](buf []T, y, x *normTensor[T], base, n int) {
	m := x.max(buf, base, n)
	var s T
	for lo := 0; lo < n; lo += normBlock {
		at, w := base+lo, min(n-lo, normBlock)
		s += normExpSum(y.place(buf, at, w), x.load(buf, at, w), m)
	}
	for lo := 0; lo < n; lo += normBlock {
		at, w := base+lo, min(n-lo, normBlock)
		b := y.place(buf, at, w)
		if y.raw != nil {
			normExpSum(b, x.load(buf, at, w), m)
		}
		normMulScalar(b, b, 1/s)
		y.store(at, b)
	}
}

// logSumExp returns the maximum m of n neighbouring elements and the logarithm of the sum of
// e^(x-m).
func logSumExp[T normElem](buf []T, x *normTensor[T], base, n int) (m, s T) {
	m = x.max(buf, base, n)
	for lo := 0; lo < n; lo += normBlock {
		w := min(n-lo, normBlock)
		s += normExpSum(buf[:w], x.load(buf, base+lo, w), m)
	}
	return m, T(math.Log(float64(s)))
}

// logSoftmaxRow sets n neighbouring elements of y to x-m-s. Two steps: m may be so large that m+s
// would round s away.
func logSoftmaxRow[T normElem](buf []T, y, x *normTensor[T], base, n int, m, s T) {
	for lo := 0; lo < n; lo += normBlock {
		at, w := base+lo, min(n-lo, normBlock)
		b := y.place(buf, at, w)
		normAddScalar(b, x.load(buf, at, w), -m)
		normAddScalar(b, b, -s)
		y.store(at, b)
	}
}

// columns does neighbouring columns, row by row.
func (k *softmaxKernel[T]) columns(buf []T, base, n int) {
	var ms, ss [softmaxTile]T
	m, s := ms[:n], ss[:n]
	if k.log {
		columnSums(buf, nil, &k.x, base, k.n, k.inner, m, s)
		normLog(s, s)
		logSoftmaxColumns(buf, &k.y, &k.x, base, k.n, k.inner, m, s)
		return
	}
	columnSums(buf, k.y.data, &k.x, base, k.n, k.inner, m, s)
	for i, v := range s {
		s[i] = 1 / v
	}
	for j := range k.n {
		at := base + j*k.inner
		y := k.y.place(buf, at, n)
		if k.y.raw != nil {
			normSub(y, k.x.load(buf, at, n), m)
			normExp(y, y)
		}
		normMul(y, y, s)
		k.y.store(at, y)
	}
}

// columnSums sets m and s to the maxima of len(m) columns of n elements, and to the sums of
// e^(x-m); rows are inner elements apart. The exponentials stay in y unless it is nil.
func columnSums[T normElem](buf, y []T, x *normTensor[T], base, n, inner int, m, s []T) {
	copy(m, x.load(buf, base, len(m)))
	for j := 1; j < n; j++ {
		normMaxWith(m, x.load(buf, base+j*inner, len(m)))
	}
	clear(s)
	e := buf[:len(m)]
	for j := range n {
		if y != nil {
			e = y[base+j*inner:][:len(m)]
		}
		normSub(e, x.load(buf, base+j*inner, len(m)), m)
		normExp(e, e)
		normAdd(s, s, e)
	}
}

// logSoftmaxColumns sets y = x-m-s in len(m) columns.
func logSoftmaxColumns[T normElem](buf []T, y, x *normTensor[T], base, n, inner int, m, s []T) {
	for j := range n {
		at := base + j*inner
		b := y.place(buf, at, len(m))
		normSub(b, x.load(buf, at, len(m)), m)
		normSub(b, b, s)
		y.store(at, b)
	}
}
