package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(moveReorderCases) }

func moveReorderCases() []Case {
	var all []Case
	for _, d := range moveTypes {
		x := moveCount(d, 4, 3, 2)
		all = append(all,
			moveCase(op.ReverseSequence, fmt.Sprint("time first ", d), movePick(x, x.Shape, func(i []int) int {
				if n := []int{4, 2, 1}[i[1]]; i[0] < n {
					return moveAt(x.Shape, n-1-i[0], i[1], i[2])
				}
				return moveAt(x.Shape, i...)
			}), nil, x, moveLongs(4, 2, 1)),
			moveCase(op.ReverseSequence, fmt.Sprint("batch first ", d), movePick(x, x.Shape, func(i []int) int {
				if n := []int{0, 3, 2, 1}[i[0]]; i[1] < n {
					return moveAt(x.Shape, i[0], n-1-i[1], i[2])
				}
				return moveAt(x.Shape, i...)
			}), moveAttrs("batch_axis", int64(0), "time_axis", int64(1)), x, moveLongs(0, 3, 2, 1)))
	}
	trilu := func(name string, x *executor.Tensor, upper, k int, in ...*executor.Tensor) {
		want := movePick(x, x.Shape, func(i []int) int {
			above := i[len(i)-1] - i[len(i)-2] - k
			if upper == 1 && above < 0 || upper == 0 && above > 0 {
				return -1
			}
			return moveAt(x.Shape, i...)
		})
		all = append(all,
			moveCase(op.Trilu, name, want, moveAttrs("upper", int64(upper)), append([]*executor.Tensor{x}, in...)...))
	}
	for _, d := range moveTypes {
		trilu(fmt.Sprint("upper ", d), moveCount(d, 2, 3, 4), 1, 0)
		trilu(fmt.Sprint("lower ", d), moveCount(d, 2, 3, 4), 0, 0)
	}
	for _, k := range []int{-5, -3, -1, 1, 3, 4, 9} {
		trilu(fmt.Sprint("upper by ", k), moveCount(graph.Float32, 2, 3, 4), 1, k, moveScalar(int64(k)))
		trilu(fmt.Sprint("lower by ", k), moveCount(graph.Float32, 2, 4, 3), 0, k, moveScalar(int64(k)))
	}
	trilu("empty", moveEmpty(graph.Float32, 3, 0), 1, 0)
	trilu("large", moveCount(graph.Float32, 4, 90, 80), 0, 0)
	x := moveCount(graph.Float32, 4, 3, 2)
	return append(all,
		moveFails(op.Trilu, "rank 1", "matrices", nil, moveCount(graph.Float32, 3)),
		moveFails(op.ReverseSequence, "length", "length 5", nil, x, moveLongs(5, 0, 0)),
		moveFails(op.ReverseSequence, "count", "3 sequences", nil, x, moveLongs(1)),
		moveFails(op.ReverseSequence, "axes", "batch_axis", moveAttrs("batch_axis", int64(0)), x, moveLongs(1, 1, 1)))
}
