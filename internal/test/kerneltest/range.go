package kerneltest

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(moveRangeCases) }

func moveRangeCases() []Case {
	var all []Case
	add := func(name string, d graph.DType, start, limit, delta float64, want ...float64) {
		one := func(v float64) *executor.Tensor { return moveValues(d, []int{}, v) }
		all = append(all,
			moveCase(op.Range, name, moveValues(d, []int{len(want)}, want...), nil, one(start), one(limit), one(delta)))
	}
	add("up", graph.Float32, 1, 5, 2, 1, 3)
	add("up, part", graph.Float32, 1, 5.5, 2, 1, 3, 5)
	add("down", graph.Int32, 10, 4, -2, 10, 8, 6)
	add("down, part", graph.Int64, 10, 4, -4, 10, 6)
	add("none", graph.Int64, 5, 5, 1)
	add("wrong way", graph.Int64, 5, 3, 1)
	add("wrong way down", graph.Float64, 3, 5, -1)
	add("double", graph.Float64, 0, 1, 0.25, 0, 0.25, 0.5, 0.75)
	add("half", graph.Float16, 0, 3, 1, 0, 1, 2)
	n := 40000
	want := make([]float64, n)
	for i := range want {
		want[i] = float64(7 + 3*i)
	}
	add("large", graph.Int64, 7, float64(7+3*n), 3, want...)
	ends := moveCase(op.Range, "far ends", moveLongs(math.MinInt64, -1, math.MaxInt64-1), nil,
		moveScalar(math.MinInt64), moveScalar(math.MaxInt64), moveScalar(math.MaxInt64))
	return append(all, ends,
		moveFails(op.Range, "no step", "is 0", nil, moveScalar(0), moveScalar(3), moveScalar(0)),
		moveFails(op.Range, "huge", "not a range", nil, moveScalar(math.MinInt64), moveScalar(math.MaxInt64),
			moveScalar(1)),
		moveFails(op.Range, "NaN", "not a range", nil, moveFloats([]int{}, 0), moveFloats([]int{}, float32(math.NaN())),
			moveFloats([]int{}, 1)),
		moveFails(op.Range, "endless", "not a range", nil, moveFloats([]int{}, 0),
			moveFloats([]int{}, float32(math.Inf(1))), moveFloats([]int{}, 1)),
		moveFails(op.Range, "list", "one element", nil, moveLongs(0, 1), moveScalar(1), moveScalar(1)))
}
