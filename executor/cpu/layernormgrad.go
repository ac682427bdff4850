package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// ONNX Runtime's gradients of norms over the last axes. With h = (x-m)*r and g = dY*scale, means being
// taken over a row and sums over all rows:
//
//	dX     = r*(g - mean(g) - h*mean(g*h))    without mean(g) for the simplified norm
//	dscale = sum(dY*h), dbias = sum(dY)
//
// The forms differ in their operands: dY, X, scale, m, r; the simplified dY, X, scale, r; the
// invertible dY, Y, scale, bias, r, where h = (Y-bias)/scale.

// layerNormForm is one of these.
type layerNormForm uint8

const (
	layerNormPlain layerNormForm = iota
	layerNormSimplified
	layerNormInvertible
)

// layerNormGradKernel adds up the rows in blocks of fixed bounds, each with its own sums, which are added
// in order at last.
type layerNormGradKernel[T normElem] struct {
	form layerNormForm
	attr int64

	rows, n       int
	blocks, block int // rows per block
	dy, x, dx     []T
	scale, bias   []T
	mean, inv     *executor.Tensor
	dscale, dbias []T
	work          []T // per block: h, g, and the sums for dscale and dbias
}

// layerNormBlocks is how many blocks of rows there are at most.
const layerNormBlocks = 32

func newLayerNormGrad(form layerNormForm) func(*executor.Prep) (executor.Kernel, error) {
	return widened(func(p *executor.Prep) (executor.Kernel, error) {
		need, stats := 5, 3
		switch form {
		case layerNormSimplified:
			need = 4
		case layerNormInvertible:
			stats = 4
		}
		for i := range need {
			if !p.Has(i) {
				return nil, p.Unsupported("input %d is left out; the kernel needs all %d", i, need)
			}
		}
		if !normTypes(p, stats, 3) {
			return nil, unsupportedTypes(p)
		}
		switch p.DType(0) {
		case graph.Float32:
			return &layerNormGradKernel[float32]{form: form, attr: p.Node.Int("axis", -1)}, nil
		case graph.Float64:
			return &layerNormGradKernel[float64]{form: form, attr: p.Node.Int("axis", -1)}, nil
		}
		return nil, unsupportedTypes(p)
	})
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

// Workspace counts four rows per block.
func (k *layerNormGradKernel[T]) Workspace(in, _ [][]int) int {
	if len(in) < 2 || !k.divide(in[1]) {
		return 0
	}
	return executor.RoundUp(8 * 4 * k.blocks * k.n)
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
	k.dy, k.x, k.scale = normData[T](c, 0), normData[T](c, 1), normData[T](c, 2)
	k.dx = normOut[T](c, 0, x.Shape...)
	k.dscale = normOut[T](c, 1, scale.Shape...)
	k.dbias = nil
	switch k.form {
	case layerNormPlain:
		k.dbias = normOut[T](c, 2, scale.Shape...)
	case layerNormInvertible:
		k.dbias = normOut[T](c, 2, c.In(3).Shape...)
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
	case layerNormPlain:
		k.mean = c.In(3)
		if k.mean.Len() != k.rows {
			return c.Errorf("input 3, the mean, is %v, wanted %d elements", k.mean, k.rows)
		}
	case layerNormSimplified:
		last = 3
	case layerNormInvertible:
		k.bias = normData[T](c, 3)
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
	n := k.n
	for ; lo < hi; lo++ {
		w := k.work[lo*4*n : (lo+1)*4*n]
		h, g, ds, db := w[:n], w[n:2*n], w[2*n:3*n], w[3*n:]
		clear(ds)
		clear(db)
		for row := lo * k.block; row < min((lo+1)*k.block, k.rows); row++ {
			inv := normStat[T](k.inv, row)
			k.normed(h, row, inv)
			dy := k.dy[row*n : (row+1)*n]
			normMulAdd(ds, dy, h, ds)
			if k.dbias != nil {
				normAdd(db, db, dy)
			}
			if k.dx != nil {
				k.rowGrad(k.dx[row*n:(row+1)*n], dy, h, g, inv)
			}
		}
	}
}

// normed sets h to the normed row before scale and bias.
func (k *layerNormGradKernel[T]) normed(h []T, row int, inv T) {
	x := k.x[row*k.n : (row+1)*k.n]
	switch k.form {
	case layerNormPlain:
		normAddScalar(h, x, -normStat[T](k.mean, row))
		normMulScalar(h, h, inv)
	case layerNormSimplified:
		normMulScalar(h, x, inv)
	case layerNormInvertible:
		normSub(h, x, k.bias)
		normDiv(h, h, k.scale)
	}
}

// rowGrad sets dx; g has room for a row.
func (k *layerNormGradKernel[T]) rowGrad(dx, dy, h, g []T, inv T) {
	normMul(g, dy, k.scale)
	n := T(len(g))
	var mean T
	if k.form != layerNormSimplified {
		mean = normSum(g) / n
	}
	corr := normDot(g, h) / n
	normScaleShift(g, g, inv, -mean*inv)
	normMulScalar(dx, h, -corr*inv)
	normAdd(dx, dx, g)
}

// layerNormGradSums adds up the blocks' sums.
type layerNormGradSums[T normElem] layerNormGradKernel[T]

// Range finishes elements lo..hi-1 of dscale and dbias.
func (k *layerNormGradSums[T]) Range(lo, hi int) {
	for which, dst := range [2][]T{k.dscale, k.dbias} {
		if dst == nil {
			continue
		}
		d := dst[lo:hi]
		clear(d)
		for b := range k.blocks {
			at := (4*b + 2 + which) * k.n
			normAdd(d, d, k.work[at+lo:at+hi])
		}
	}
}
