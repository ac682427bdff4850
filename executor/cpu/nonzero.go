package cpu

import (
	"memopt/executor"
	"memopt/graph"
)

// nonZeroKernel lists where elements are not 0: a row per axis, a column per element, in the order
// of the elements. A scalar counts as a vector of one. For example, [[0 5] [7 0]] gives [[0 1] [1
// 0]]. NaN is not 0. https://onnx.ai/onnx/operators/onnx__NonZero.html
type nonZeroKernel[T reduceElem] struct {
	also  T // a second zero: -0 of 16-bit floats
	shape []int
	x     []T
	y     []int64
	total int
	ends  []int // how many there are up to the end of each block
}

// nonZeroBlock is how many elements are counted together.
const nonZeroBlock = 1 << 14

func newNonZero(p *executor.Prep) (executor.Kernel, error) {
	switch p.DType(0) {
	case graph.Float32:
		return &nonZeroKernel[float32]{}, nil
	case graph.Float64:
		return &nonZeroKernel[float64]{}, nil
	case graph.Int8, graph.Uint8, graph.Bool:
		return &nonZeroKernel[uint8]{}, nil
	case graph.Float16, graph.BFloat16:
		return &nonZeroKernel[uint16]{also: 0x8000}, nil
	case graph.Int16, graph.Uint16:
		return &nonZeroKernel[uint16]{}, nil
	case graph.Int32, graph.Uint32:
		return &nonZeroKernel[uint32]{}, nil
	case graph.Int64, graph.Uint64:
		return &nonZeroKernel[uint64]{}, nil
	}
	return nil, unsupportedTypes(p)
}

// Run counts and lists.
func (k *nonZeroKernel[T]) Run(c *executor.Ctx) error {
	x := c.In(0)
	k.shape = append(k.shape[:0], x.Shape...)
	if len(k.shape) == 0 {
		k.shape = append(k.shape, 1)
	}
	k.x = executor.Cast[T](x.Data)
	blocks := (len(k.x) + nonZeroBlock - 1) / nonZeroBlock
	if cap(k.ends) < blocks {
		k.ends = make([]int, blocks)
	}
	k.ends = k.ends[:blocks]
	c.Parallel(blocks, 1, (*nonZeroCount[T])(k))
	k.total = 0
	for i, n := range k.ends {
		k.total += n
		k.ends[i] = k.total
	}
	y := c.Out(0, len(k.shape), k.total)
	if y == nil || y.Len() == 0 {
		return nil
	}
	k.y = executor.Of[int64](y)
	c.Parallel(blocks, 1, (*nonZeroList[T])(k))
	return nil
}

type nonZeroCount[T reduceElem] nonZeroKernel[T]

// Range counts in blocks lo..hi-1.
func (k *nonZeroCount[T]) Range(lo, hi int) {
	for ; lo < hi; lo++ {
		n := 0
		for _, v := range k.x[lo*nonZeroBlock : min((lo+1)*nonZeroBlock, len(k.x))] {
			if v != 0 && v != k.also {
				n++
			}
		}
		k.ends[lo] = n
	}
}

type nonZeroList[T reduceElem] nonZeroKernel[T]

// Range lists the nonzeros of blocks lo..hi-1: first flat places in the last row, then row by row
// the index along each axis.
func (k *nonZeroList[T]) Range(lo, hi int) {
	first := 0
	if lo > 0 {
		first = k.ends[lo-1]
	}
	last := k.y[(len(k.shape)-1)*k.total:]
	at := first
	for i := lo * nonZeroBlock; i < min(hi*nonZeroBlock, len(k.x)); i++ {
		if v := k.x[i]; v != 0 && v != k.also {
			last[at] = int64(i)
			at++
		}
	}
	step := int64(len(k.x))
	for axis, d := range k.shape[:len(k.shape)-1] {
		step /= int64(d)
		row := k.y[axis*k.total:]
		for j := first; j < at; j++ {
			row[j] = last[j] / step
			last[j] -= row[j] * step
		}
	}
}
