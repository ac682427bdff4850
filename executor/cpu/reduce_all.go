package cpu

import (
	"math"

	"memopt/executor"
	"memopt/graph"
)

// allL2Kernel is ONNX Runtime's ReduceAllL2: the square root of the sum of the squares of all
// elements of all inputs. Blocks of reduceBlock elements are added up in their own type, the blocks
// in order in float64.
type allL2Kernel struct {
	t    *executor.Tensor // current input
	sums []float64        // of its blocks
}

func newReduceAllL2(p *executor.Prep) (executor.Kernel, error) {
	for _, d := range append(p.In[:len(p.In):len(p.In)], p.Out...) {
		if !isHalf(d) && d != graph.Float32 && d != graph.Float64 {
			return nil, unsupportedTypes(p)
		}
	}
	return &allL2Kernel{}, nil
}

// Run adds up.
func (k *allL2Kernel) Run(c *executor.Ctx) error {
	total := 0.0
	for i := range c.Inputs() {
		k.t = c.In(i)
		blocks := (k.t.Len() + reduceBlock - 1) / reduceBlock
		if cap(k.sums) < blocks {
			k.sums = make([]float64, blocks)
		}
		k.sums = k.sums[:blocks]
		c.Parallel(blocks, 16, k)
		for _, s := range k.sums {
			total += s
		}
	}
	y := c.Out(0)
	if y == nil {
		return nil
	}
	norm := math.Sqrt(total)
	one := [1]float32{float32(norm)}
	switch y.DType {
	case graph.Float32:
		executor.Of[float32](y)[0] = one[0]
	case graph.Float64:
		executor.Of[float64](y)[0] = norm
	default:
		narrow(y.DType, y.Data, one[:])
	}
	return nil
}

// Range adds up the squares in blocks lo..hi-1.
func (k *allL2Kernel) Range(lo, hi int) {
	var buf [reduceBlock]float32
	n := k.t.Len()
	for ; lo < hi; lo++ {
		from, to := lo*reduceBlock, min((lo+1)*reduceBlock, n)
		switch k.t.DType {
		case graph.Float32:
			k.sums[lo] = float64(reduceSquares(executor.Of[float32](k.t)[from:to]))
		case graph.Float64:
			k.sums[lo] = reduceSquares(executor.Of[float64](k.t)[from:to])
		default:
			widen(buf[:to-from], k.t.DType, k.t.Data[2*from:])
			k.sums[lo] = float64(reduceSquares(buf[:to-from]))
		}
	}
}
