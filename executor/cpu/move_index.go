package cpu

import (
	"math"
	"sync/atomic"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// moveIndexer turns tuples of indices into offsets, once, before data is moved: tuple r
// becomes Σ index*step, plus batch for every full round of each tuples. A negative index counts
// from the end of its axis. One that is out of range is an error.
type moveIndexer struct {
	operand.Index
	each, batch int
	strict      bool // negative indices are out of range

	t       *executor.Tensor
	offsets []int64
	bad     atomic.Int64 // the first element that is out of range
}

// single prepares for count tuples of one index into an axis.
func (x *moveIndexer) single(count, n, step int) {
	x.Single(count, n, step)
	x.each, x.batch = math.MaxInt, 0
}

// moveIndexBytes is the workspace that offsets of n tuples take.
func moveIndexBytes(n int) int { return executor.RoundUp(8 * max(n, 0)) }

// run computes the offsets of the tuples of input i in workspace.
func (x *moveIndexer) run(c *executor.Ctx, i int) error {
	x.t = c.In(i)
	if x.t == nil || x.t.DType != graph.Int64 && x.t.DType != graph.Int32 {
		return c.Errorf("input %d is %v, wanted int32 or int64", i, x.t)
	}
	x.offsets = executor.ScratchOf[int64](c, x.Count)
	x.bad.Store(math.MaxInt64)
	c.Parallel(x.Count, 1<<13, x)
	if bad := x.bad.Load(); bad != math.MaxInt64 {
		return c.Errorf("input %d has the index %d, which is outside an axis of length %d",
			i, moveIndexAt(x.t, int(bad)), x.Dims[int(bad)%len(x.Dims)])
	}
	return nil
}

// moveIndexAt returns element i of an index tensor.
func moveIndexAt(t *executor.Tensor, i int) int64 {
	if t.DType == graph.Int32 {
		return int64(executor.Of[int32](t)[i])
	}
	return executor.Of[int64](t)[i]
}

// Range computes offsets.
func (x *moveIndexer) Range(lo, hi int) {
	if x.t.DType == graph.Int32 {
		moveIndexRange[int32](x, lo, hi)
	} else {
		moveIndexRange[int64](x, lo, hi)
	}
}

func moveIndexRange[I int32 | int64](x *moveIndexer, lo, hi int) {
	in := executor.Of[I](x.t)
	depth := len(x.Dims)
	for k := range depth {
		n, step := int64(x.Dims[k]), int64(x.Steps[k])
		for r := lo; r < hi; r++ {
			v := int64(in[r*depth+k])
			if v < 0 && !x.strict {
				v += n
			}
			if uint64(v) >= uint64(n) {
				x.fail(int64(r*depth + k))
				return
			}
			if k == 0 {
				x.offsets[r] = v * step
			} else {
				x.offsets[r] += v * step
			}
		}
	}
	if depth == 0 {
		clear(x.offsets[lo:hi])
	}
	if x.batch != 0 {
		for r := lo; r < hi; r++ {
			x.offsets[r] += int64(r / x.each * x.batch)
		}
	}
}

// fail keeps the first position that is out of range, whichever thread finds it.
func (x *moveIndexer) fail(at int64) {
	for {
		old := x.bad.Load()
		if at >= old || x.bad.CompareAndSwap(old, at) {
			return
		}
	}
}
