package cpu

import (
	"math"
	"sort"

	"memopt/executor"
	"memopt/executor/operand"
	"memopt/graph"
)

// Multinomial draws sample_size classes for each row of unnormalized log-probabilities x [rows,
// classes]: class c with probability e^x[c] / sum of e^x. Sample s of row r is the first class
// whose running sum passes number r*sample_size+s of the node's uniform stream times the sum.
// https://onnx.ai/onnx/operators/onnx__Multinomial.html

type multinomialKernel struct {
	draws   operand.Draws
	samples int

	draw    uniformStream
	x       *executor.Tensor
	classes int
	sums    []float64 // running sums of each row, row after row
	short   []int32   // the output, one of the two
	long    []int64
}

func newMultinomial(p *executor.Prep) (executor.Kernel, error) {
	draws, err := operand.DrawsOf(p)
	if err != nil {
		return nil, err
	}
	k := &multinomialKernel{draws: draws, samples: int(p.Node.Int("sample_size", 1))}
	if k.samples < 0 {
		return nil, p.Errorf("attribute sample_size is %d, wanted no negative number", k.samples)
	}
	if !isReal(p.DType(0)) {
		return nil, unsupportedTypes(p)
	}
	if d := p.Out[0]; d != graph.Int32 && d != graph.Int64 {
		return nil, p.Errorf("attribute dtype is %v, wanted int32 or int64", d)
	}
	return k, nil
}

// Workspace has the running sums.
func (k *multinomialKernel) Workspace(in, out [][]int) int {
	return executor.RoundUp(8 * product(in[0]))
}

// Run checks the operands and draws.
func (k *multinomialKernel) Run(c *executor.Ctx) error {
	x := c.In(0)
	if x.Rank() != 2 {
		return c.Errorf("input 0 is %v, wanted rank 2", x)
	}
	rows := x.Shape[0]
	k.classes = x.Shape[1]
	if k.classes == 0 && rows*k.samples > 0 {
		return c.Errorf("input 0 is %v: there is no class to draw", x)
	}
	k.x, k.sums = x, executor.ScratchOf[float64](c, x.Len())
	k.draw = newUniformStream(k.draws, c.Step)
	y := c.Out(0, rows, k.samples)
	k.short, k.long = nil, nil
	if y.DType == graph.Int32 {
		k.short = executor.Of[int32](y)
	} else {
		k.long = executor.Of[int64](y)
	}
	c.Parallel(rows, max(1, 4096/(k.classes+k.samples+1)), k)
	return nil
}

// Range draws for rows.
func (k *multinomialKernel) Range(lo, hi int) {
	var u [chunkLen]float64
	for r := lo; r < hi; r++ {
		sums := k.sums[r*k.classes : (r+1)*k.classes]
		k.accumulate(sums, r*k.classes)
		for s := 0; s < k.samples; s += chunkLen {
			part := u[:min(chunkLen, k.samples-s)]
			at := r*k.samples + s
			k.draw.fill(part, at)
			for i, v := range part {
				v *= sums[len(sums)-1]
				class := min(sort.Search(len(sums), func(j int) bool { return sums[j] > v }), len(sums)-1)
				if k.short != nil {
					k.short[at+i] = int32(class)
				} else {
					k.long[at+i] = int64(class)
				}
			}
		}
	}
}

// accumulate sets sums to the running sums of e^(x-max) for the classes from element first on.
func (k *multinomialKernel) accumulate(sums []float64, first int) {
	largest := math.Inf(-1)
	var buf [chunkLen]float64
	for i := 0; i < len(sums); i += chunkLen {
		j := min(i+chunkLen, len(sums))
		for n, v := range chunkIn(k.x.DType, k.x.Data, first+i, first+j, buf[:]) {
			sums[i+n] = v
			largest = max(largest, v)
		}
	}
	total := 0.0
	for i, v := range sums {
		total += math.Exp(v - largest)
		sums[i] = total
	}
}
