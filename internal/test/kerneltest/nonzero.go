package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(nonZeroCases) }

func nonZeroCases() []Case {
	var cases []Case
	add := func(name string, d graph.DType, shape []int, x []float64) {
		rank := max(len(shape), 1)
		var at []int
		for i, v := range x {
			if v != 0 {
				at = append(at, i)
			}
		}
		y := make([]float64, rank*len(at))
		for j, i := range at {
			for a := len(shape) - 1; a >= 0; a-- {
				y[a*len(at)+j] = float64(i % shape[a])
				i /= shape[a]
			}
		}
		cases = append(cases, Case{Name: name, Kind: op.NonZero, In: []*executor.Tensor{reduceTensor(d, shape, x)},
			Out:  []graph.DType{graph.Int64},
			Want: []*executor.Tensor{reduceTensor(graph.Int64, []int{rank, len(at)}, y)}})
	}
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		add(d.String(), d, []int{2, 3}, []float64{0, math.NaN(), math.Copysign(0, -1), 1, 0, -2})
	}
	for _, d := range []graph.DType{graph.Int8, graph.Int16, graph.Int32, graph.Int64, graph.Uint8, graph.Uint16,
		graph.Uint32, graph.Uint64, graph.Bool} {
		add(d.String(), d, []int{2, 1, 3}, []float64{0, 1, 0, 0, 1, 1})
	}
	for _, shape := range [][]int{{}, {0}, {2, 0, 3}, {5, 7, 1100}} {
		x := reduceValues(reduceLen(shape), 2)
		for i := range x {
			if x[i] < 1 && len(shape) > 0 {
				x[i] = 0
			}
		}
		add(fmt.Sprint(shape), graph.Float32, shape, x)
	}
	add("none", graph.Float32, []int{2, 2}, make([]float64, 4))
	add("scalar 0", graph.Float32, []int{}, []float64{0})
	return cases
}
