package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// ONNX Runtime's gradients of norms over the last axes. With h = (x-m)*r and g = dY*scale, means
// over a row and sums over all rows:
//
//	dX     = r*(g - mean(g) - h*mean(g*h))    without mean(g) for the simplified norm
//	dscale = sum(dY*h), dbias = sum(dY)
//
// The forms differ in their operands: dY, X, scale, m, r; the simplified dY, X, scale, r; the
// invertible dY, Y, scale, bias, r, where h = (Y-bias)/scale; and Deeploy's dY, X, scale and a bias
// that is not read, where m and r are computed as LayerNormalization does, with the attribute
// epsilon.

// layerNormForm is one of these.
type layerNormForm uint8

const (
	layerNormPlain layerNormForm = iota
	layerNormSimplified
	layerNormInvertible
	layerNormDeeploy
)

// layerNormGradKernel adds up the rows in blocks of fixed bounds, each with its own sums, which are
// finally added in order.
type layerNormGradKernel[T normElem] struct {
	form    layerNormForm
	attr    int64
	epsilon float64

	rows, n       int
	blocks, block int // rows per block
	dy, x, dx     normTensor[T]
	scale, bias   []T
	mean, inv     *executor.Tensor
	dscale, dbias normTensor[T]
	work          []T // per block: h, g, and the sums for dscale and dbias
}

// layerNormBlocks is the largest number of blocks of rows.
const layerNormBlocks = 32

func newLayerNormGrad(form layerNormForm) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		need, stats := 5, 3
		switch form {
		case layerNormSimplified:
			need = 4
		case layerNormInvertible:
			stats = 4
		case layerNormDeeploy:
			need, stats = 3, len(p.In)
		}
		for i := range need {
			if !p.Has(i) {
				return nil, p.Unsupported("input %d is left out; the kernel needs all %d", i, need)
			}
		}
		if !normTypes(p, stats, 3) {
			return nil, unsupportedTypes(p)
		}
		switch normAccumulates(p.DType(0)) {
		case graph.Float32:
			return &layerNormGradKernel[float32]{form: form, attr: p.Node.Int("axis", -1), epsilon: normEpsilon(p)}, nil
		case graph.Float64:
			return &layerNormGradKernel[float64]{form: form, attr: p.Node.Int("axis", -1), epsilon: normEpsilon(p)}, nil
		}
		return nil, unsupportedTypes(p)
	}
}

// divide sets rows, n and the blocks; ok is false for an axis out of range.
func (k *layerNormGradKernel[T]) divide(shape []int) (ok bool) {
	axis := int(k.attr)
	if axis < 0 {
		axis += len(shape)
	}
	if axis < 0 || axis >= len(shape) {
		return false
	}
	k.rows, k.n = product(shape[:axis]), product(shape[axis:])
	k.block = max((k.rows+layerNormBlocks-1)/layerNormBlocks, 16)
	k.blocks = (k.rows + k.block - 1) / k.block
	return true
}

// Workspace counts four rows per block, and converted operands.
func (k *layerNormGradKernel[T]) Workspace(in, _ [][]int) int {
	if len(in) < 2 || !k.divide(in[1]) {
		return 0
	}
	return executor.RoundUp(8*4*k.blocks*k.n) + normWideSpace(in, 2, 3)
}

// Run computes the gradients.
func (k *layerNormGradKernel[T]) Run(c *executor.Ctx) error {
	x, scale := c.In(1), c.In(2)
	if err := normSameShape(c, 0, 1); err != nil {
		return err
	}
	if !k.divide(x.Shape) {
		return c.Errorf("axis %d; input 1 has rank %d", k.attr, x.Rank())
	}
	if scale.Len() != k.n {
		return c.Errorf("input 2, the scale, is %v, wanted %d elements", scale, k.n)
	}
	if err := k.readStats(c); err != nil {
		return err
	}
	k.dy, k.x, k.scale = normOpen[T](c.In(0)), normOpen[T](x), normWide[T](c, 2)
	k.dx = normOpen[T](c.Out(0, x.Shape...))
	k.dscale = normOpen[T](c.Out(1, scale.Shape...))
	k.dbias = normTensor[T]{}
	switch k.form {
	case layerNormPlain, layerNormDeeploy:
		k.dbias = normOpen[T](c.Out(2, scale.Shape...))
	case layerNormInvertible:
		k.dbias = normOpen[T](c.Out(2, c.In(3).Shape...))
	}
	k.work = executor.ScratchOf[T](c, 4*k.blocks*k.n)
	c.Parallel(k.blocks, normGrain(4*k.block*k.n), k)
	c.Parallel(k.n, normGrain(2*k.blocks), (*layerNormGradSums[T])(k))
	return nil
}

// readStats gets the operands from input 3 on.
func (k *layerNormGradKernel[T]) readStats(c *executor.Ctx) error {
	last := 4
	k.mean, k.bias = nil, nil
	switch k.form {
	case layerNormDeeploy:
		return nil
	case layerNormPlain:
		k.mean = c.In(3)
		if k.mean.Len() != k.rows {
			return c.Errorf("input 3, the mean, is %v, wanted %d elements", k.mean, k.rows)
		}
	case layerNormSimplified:
		last = 3
	case layerNormInvertible:
		k.bias = normWide[T](c, 3)
		if len(k.bias) != k.n {
			return c.Errorf("input 3, the bias, is %v, wanted %d elements", c.In(3), k.n)
		}
	}
	k.inv = c.In(last)
	if k.inv.Len() != k.rows {
		return c.Errorf("input %d, the inverse deviation, is %v, wanted %d elements", last, k.inv, k.rows)
	}
	return nil
}

// Range does blocks lo..hi-1.
func (k *layerNormGradKernel[T]) Range(lo, hi int) {
	var block [normBlock]T
	n := k.n
	for ; lo < hi; lo++ {
		w := k.work[lo*4*n : (lo+1)*4*n]
		h, g, ds, db := w[:n], w[n:2*n], w[2*n:3*n], w[3*n:]
		clear(ds)
		clear(db)
		for row := lo * k.block; row < min((lo+1)*k.block, k.rows); row++ {
			inv := k.normed(block[:], h, row)
			for from := 0; from < n; from += normBlock {
				to := min(from+normBlock, n)
				dy := k.dy.load(block[:], row*n+from, to-from)
				normMulAdd(ds[from:to], dy, h[from:to], ds[from:to])
				normAdd(db[from:to], db[from:to], dy)
				normMul(g[from:to], dy, k.scale[from:to])
			}
			if k.dx.given() {
				k.rowGrad(block[:], row, h, g, inv)
			}
		}
	}
}

// normed sets h to the normed row before scale and bias, and returns its inverse deviation.
func (k *layerNormGradKernel[T]) normed(buf, h []T, row int) (inv T) {
	var m T
	switch k.form {
	case layerNormDeeploy:
		m, inv = normRowStats(buf, &k.x, row*k.n, k.n, false, k.epsilon)
	case layerNormPlain:
		m, inv = normStat[T](k.mean, row), normStat[T](k.inv, row)
	default:
		inv = normStat[T](k.inv, row)
	}
	for lo := 0; lo < k.n; lo += normBlock {
		hi := min(lo+normBlock, k.n)
		x, b := k.x.load(buf, row*k.n+lo, hi-lo), h[lo:hi]
		switch k.form {
		case layerNormPlain, layerNormDeeploy:
			normAddScalar(b, x, -m)
			normMulScalar(b, b, inv)
		case layerNormSimplified:
			normMulScalar(b, x, inv)
		case layerNormInvertible:
			normSub(b, x, k.bias[lo:hi])
			normDiv(b, b, k.scale[lo:hi])
		}
	}
	return inv
}

// rowGrad sets a row of dX = r*(g - mean(g)) - h*r*mean(g*h). It overwrites g.
func (k *layerNormGradKernel[T]) rowGrad(buf []T, row int, h, g []T, inv T) {
	n := T(k.n)
	var mean T
	if k.form != layerNormSimplified {
		mean = normSum(g) / n
	}
	corr := normDot(g, h) / n
	for lo := 0; lo < k.n; lo += normBlock {
		hi := min(lo+normBlock, k.n)
		dx := k.dx.place(buf, row*k.n+lo, hi-lo)
		normScaleShift(g[lo:hi], g[lo:hi], inv, -mean*inv)
		normMulScalar(dx, h[lo:hi], -corr*inv)
		normAdd(dx, dx, g[lo:hi])
		k.dx.store(row*k.n+lo, dx)
	}
}

// layerNormGradSums adds up the blocks' sums.
type layerNormGradSums[T normElem] layerNormGradKernel[T]

// Range finishes elements lo..hi-1 of dscale and dbias.
func (k *layerNormGradSums[T]) Range(lo, hi int) {
	var block [normBlock]T
	for ; lo < hi; lo += normBlock {
		n := min(hi-lo, normBlock)
		k.add(block[:], &k.dscale, lo, n, 2)
		k.add(block[:], &k.dbias, lo, n, 3)
	}
}

// add sets n elements of dst to the sums of a row of each block's work.
func (k *layerNormGradSums[T]) add(buf []T, dst *normTensor[T], lo, n, row int) {
	if !dst.given() {
		return
	}
	d := dst.place(buf, lo, n)
	clear(d)
	for b := range k.blocks {
		normAdd(d, d, k.work[(4*b+row)*k.n+lo:][:n])
	}
	dst.store(lo, d)
}
