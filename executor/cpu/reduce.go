package cpu

import (
	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// Reductions. https://onnx.ai/onnx/operators/onnx__ReduceSum.html and its siblings.
//
// float32 is added up in float32: in blocks of reduceBlock neighbouring elements, each in the order
// of simd.Sum, or in blocks of reduceRowBlock rows if the last axis is kept; the blocks are added
// in order. Rows much shorter than reduceWide count as parts of a row of that length, whose parts
// are added at the end of a block. If there are few results and many blocks, the blocks go to up to
// reduceChunks chunks of fixed bounds, which are finally added in order. All of this depends on the
// shape alone.
const (
	reduceBlock    = 1024
	reduceRowBlock = 64
	reduceChunks   = 64
	reduceWide     = 256
)

// reduceKernel is a reduction with accumulators of type A.
type reduceKernel[A reduceElem] struct {
	op       reduceOp
	axes     operand.FoldAxes
	converts bool // elements are not of type A
	identity A

	plan   reducePlan
	dtype  graph.DType
	x, y   []byte
	pieces int // blocks per result, or rows
	chunk  int // pieces per chunk
	chunks int
	tiles  int // per kept row of results, if the last axis is kept
	group  int // rows that are folded as one wide row
	phase  reduceOp
	m      []A // maxima, for foldLogExp
	part   []A // results of chunks: [chunks][results]
}

func newReduce(op reduceOp, since int) func(*executor.Prep) (executor.Kernel, error) {
	return func(p *executor.Prep) (executor.Kernel, error) {
		d := p.DType(0)
		if d == graph.Bool && op != foldMax && op != foldMin {
			return nil, unsupportedTypes(p)
		}
		if op == foldNorm || op == foldLog || op == foldLogExp {
			switch d {
			case graph.Int32, graph.Int64, graph.Uint32, graph.Uint64:
				return makeReduce[float64](p, op, since, true), nil
			}
		}
		switch d {
		case graph.Float32:
			return makeReduce[float32](p, op, since, false), nil
		case graph.Float16, graph.BFloat16:
			return makeReduce[float32](p, op, since, true), nil
		case graph.Float64:
			return makeReduce[float64](p, op, since, false), nil
		case graph.Int8:
			return makeReduce[int8](p, op, since, false), nil
		case graph.Int16:
			return makeReduce[int16](p, op, since, false), nil
		case graph.Int32:
			return makeReduce[int32](p, op, since, false), nil
		case graph.Int64:
			return makeReduce[int64](p, op, since, false), nil
		case graph.Uint8, graph.Bool:
			return makeReduce[uint8](p, op, since, false), nil
		case graph.Uint16:
			return makeReduce[uint16](p, op, since, false), nil
		case graph.Uint32:
			return makeReduce[uint32](p, op, since, false), nil
		case graph.Uint64:
			return makeReduce[uint64](p, op, since, false), nil
		}
		return nil, unsupportedTypes(p)
	}
}

func makeReduce[A reduceElem](p *executor.Prep, op reduceOp, since int, converts bool) executor.Kernel {
	k := &reduceKernel[A]{op: op, axes: operand.NewFoldAxes(p, since), converts: converts, dtype: p.DType(0),
		identity: reduceIdentity[A](op)}
	if p.DType(0) == graph.Bool && op == foldMin {
		k.identity = 1
	}
	return k
}

// Workspace counts the maxima.
func (k *reduceKernel[A]) Workspace(_, out [][]int) int {
	if k.op != foldLogExp || len(out) == 0 {
		return 0
	}
	return executor.RoundUp(8 * product(out[0]))
}

// Run reduces.
func (k *reduceKernel[A]) Run(c *executor.Ctx) error {
	x := c.In(0)
	if err := k.axes.Read(c); err != nil {
		return err
	}
	k.plan.build(x.Shape, k.axes.Folded)
	y := c.Out(0, k.axes.Shape...)
	if y == nil || y.Len() == 0 {
		return nil
	}
	if k.plan.count == 0 && k.op == foldMean && x.DType.IsInteger() {
		return c.Errorf("the mean over no elements of type %v, in shape %v, is not defined", x.DType, x.Shape)
	}
	k.x, k.y = x.Data, y.Data
	k.divide(y.Len())
	if k.op == foldLogExp {
		k.m = executor.ScratchOf[A](c, y.Len())
		k.phase = foldMax
		least, _ := reduceLimits[A]()
		k.identity = least
		k.fold(c, y.Len())
		k.identity = 0
		finiteMaxima(k.m)
	}
	k.phase = k.op
	k.fold(c, y.Len())
	return nil
}

// finiteMaxima replaces maxima that cannot be subtracted with 0: e^(x-0) then gives 0, ∞ or NaN as
// it should.
func finiteMaxima[A reduceElem](m []A) {
	for i, v := range m {
		if v-v != 0 {
			m[i] = 0
		}
	}
}

// divide chooses pieces and chunks for n results.
func (k *reduceKernel[A]) divide(n int) {
	p := &k.plan
	k.pieces, k.tiles = p.runs, 1
	items := p.outs
	if p.innerKept {
		k.tiles = (p.inner + reduceBlock - 1) / reduceBlock
		items *= k.tiles
	} else {
		k.pieces *= (p.inner + reduceBlock - 1) / reduceBlock
	}
	k.chunks, k.chunk, k.group = 1, k.pieces, 1
	least := 16 // blocks that are worth a chunk of their own
	if p.innerKept {
		if p.inner <= reduceWide/4 && len(p.foldDims) == 1 && p.foldSteps[0] == p.inner && k.op != foldLogExp {
			k.group = reduceWide / p.inner // short rows without gaps
		}
		least = reduceRowBlock * k.group
	}
	if items < reduceChunks/2 && k.pieces >= 2*least {
		most := max(reduceChunks/items, 2)
		k.chunk = max(least, (k.pieces+most-1)/most)
		k.chunks = (k.pieces + k.chunk - 1) / k.chunk
		if need := k.chunks * n; cap(k.part) < need {
			k.part = make([]A, need)
		}
		k.part = k.part[:k.chunks*n]
	}
}

// fold runs one phase over all results.
func (k *reduceKernel[A]) fold(c *executor.Ctx, n int) {
	p := &k.plan
	if p.innerKept {
		work := k.chunk * min(p.inner, reduceBlock)
		c.Parallel(p.outs*k.tiles*k.chunks, normGrain(work), (*reduceColumns[A])(k))
	} else {
		work := k.chunk * min(p.inner, reduceBlock)
		c.Parallel(p.outs*k.chunks, normGrain(work), (*reduceRuns[A])(k))
	}
	if k.chunks > 1 {
		c.Parallel(n, normGrain(k.chunks), (*reduceParts[A])(k))
	}
}

// put finishes results at.. and writes them: the maxima to m in the first phase of foldLogExp.
func (k *reduceKernel[A]) put(at int, tile []A) {
	if k.phase != k.op {
		copy(k.m[at:], tile)
		return
	}
	var m []A
	if k.op == foldLogExp {
		m = k.m[at : at+len(tile)]
	}
	reduceFinish(k.op, tile, m, k.plan.count)
	if k.converts {
		reduceStore(k.dtype, k.y, at, tile)
	} else {
		copy(reduceCast[A](k.y)[at:], tile)
	}
}

// load returns n elements from at on, in buf if they must be converted.
func (k *reduceKernel[A]) load(buf []A, at, n int) []A {
	if !k.converts {
		return reduceCast[A](k.x)[at : at+n]
	}
	reduceLoad(buf[:n], k.dtype, k.x, at)
	return buf[:n]
}

// reduceCast is executor.Cast for the smaller set of types.
func reduceCast[A reduceElem](data []byte) []A { return executor.Cast[A](data) }
