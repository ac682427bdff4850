package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// reduceEdges are reductions of empty axes, of small types, and of numbers that are not finite.
func reduceEdges() []Case {
	var cases []Case
	inf := math.Inf(1)
	empty := map[graph.Kind]float64{op.ReduceSum: 0, op.ReduceL1: 0, op.ReduceL2: 0, op.ReduceSumSquare: 0,
		op.ReduceProd:   1,
		op.ReduceLogSum: -inf, op.ReduceLogSumExp: -inf, op.ReduceMax: -inf, op.ReduceMin: inf,
		op.ReduceMean: math.NaN()}
	for _, k := range []graph.Kind{op.ReduceSum, op.ReduceL1, op.ReduceL2, op.ReduceSumSquare, op.ReduceProd,
		op.ReduceLogSum,
		op.ReduceLogSumExp, op.ReduceMax, op.ReduceMin, op.ReduceMean} {
		for _, shape := range [][]int{{2, 0}, {0, 2}} {
			axis := int64(0)
			if shape[1] == 0 {
				axis = 1
			}
			c := reduceTest{kind: k, opset: 18, dtype: graph.Float32, input: true, shape: shape,
				axes: []int64{axis}, drop: true,
				x: []float64{}}.build(fmt.Sprintf("nothing in %v", shape))
			c.Want = []*executor.Tensor{reduceTensor(graph.Float32, []int{2}, []float64{empty[k], empty[k]})}
			cases = append(cases, c)
		}
		cases = append(cases,
			reduceTest{kind: k, opset: 18, dtype: graph.Float32, input: true, shape: []int{0, 3}, axes: []int64{1},
				x: []float64{}}.build("no results"))
	}
	exact := func(name string, k graph.Kind, d graph.DType, x []float64, want float64) {
		c := reduceTest{kind: k, dtype: d, shape: []int{len(x)}, x: x}.build(name)
		c.Want = []*executor.Tensor{reduceTensor(d, []int{1}, []float64{want})}
		cases = append(cases, c)
	}
	exact("int8 least", op.ReduceMax, graph.Int8, []float64{-128, -3}, -3)
	exact("int8 nothing", op.ReduceMax, graph.Int8, []float64{}, -128)
	exact("uint8 nothing", op.ReduceMin, graph.Uint8, []float64{}, 255)
	exact("bool any", op.ReduceMax, graph.Bool, []float64{0, 1, 0}, 1)
	exact("bool all", op.ReduceMin, graph.Bool, []float64{1, 1, 0}, 0)
	exact("bool of nothing", op.ReduceMin, graph.Bool, []float64{}, 1)
	exact("int mean is cut", op.ReduceMean, graph.Int32, []float64{-3, -4}, -3)
	exact("int8 wraps", op.ReduceSum, graph.Int8, []float64{100, 100}, -56)
	exact("uint8 sum", op.ReduceSum, graph.Uint8, []float64{100, 100}, 200)
	exact("int16 product", op.ReduceProd, graph.Int16, []float64{-3, 5, 7}, -105)
	exact("int64 product", op.ReduceProd, graph.Int64, []float64{2, 3, 4}, 24)
	nan := math.NaN()
	exact("NaN", op.ReduceMax, graph.Float32, []float64{1, nan, inf}, nan)
	exact("NaN", op.ReduceMin, graph.Float64, []float64{nan, 1, -inf}, nan)
	exact("large", op.ReduceLogSumExp, graph.Float32, []float64{1000, 1000}, 1000+math.Ln2)
	exact("minus infinity", op.ReduceLogSumExp, graph.Float32, []float64{-inf, -inf}, -inf)
	exact("infinity", op.ReduceLogSumExp, graph.Float32, []float64{inf, 0}, inf)
	bad := reduceTest{kind: op.ReduceMean, dtype: graph.Int32, shape: []int{0}, x: []float64{}}.build("no integers")
	bad.Want, bad.Fails = nil, "is not defined"
	sum := reduceTest{kind: op.ReduceSum, dtype: graph.Bool, shape: []int{1}, x: []float64{1}}.build("bool")
	sum.Want, sum.Fails = nil, "no kernel for input types"
	return append(cases, bad, sum)
}
