package kerneltest

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(moveSliceGradCases) }

func moveSliceGradCases() []Case {
	// The gradient puts each element back where the slice took it from.
	back := func(dy *executor.Tensor, shape []int, places ...[]int) *executor.Tensor {
		return movePick(dy, shape, func(index []int) int {
			at := make([]int, len(index))
			for k, i := range index {
				at[k] = -1
				for n, p := range places[k] {
					if p == i {
						at[k] = n
					}
				}
				if at[k] < 0 {
					return -1
				}
			}
			return moveAt(dy.Shape, at...)
		})
	}
	dy := moveCount(graph.Float32, 2, 3)
	large := moveCount(graph.Float32, 180, 150)
	return []Case{
		moveCase(op.SliceGrad, "rows", back(dy, []int{4, 3}, []int{1, 2}, []int{0, 1, 2}), nil, dy, moveLongs(4, 3),
			moveLongs(1), moveLongs(3)),
		moveCase(op.SliceGrad, "steps", back(dy, []int{4, 7}, []int{3, 1}, []int{1, 3, 5}), nil,
			dy, moveLongs(4, 7), moveLongs(-1, 1), moveLongs(0, 7), moveLongs(0, 1), moveLongs(-2, 2)),
		moveCase(op.SliceGrad, "double",
			back(moveCount(graph.Float64, 2, 3), []int{2, 4}, []int{0, 1}, []int{0, 1, 2}), nil,
			moveCount(graph.Float64, 2, 3), moveLongs(2, 4), moveLongs(0), moveLongs(-1), moveLongs(1), moveLongs(1)),
		moveCase(op.SliceGrad, "half", back(moveCount(graph.Float16, 1, 3), []int{2, 3}, []int{1}, []int{0, 1, 2}), nil,
			moveCount(graph.Float16, 1, 3), moveLongs(2, 3), moveLongs(1), moveLongs(2)),
		moveCase(op.SliceGrad, "empty", moveEmpty(graph.Float32, 2, 3), nil, moveEmpty(graph.Float32, 0, 3),
			moveLongs(2, 3), moveLongs(1), moveLongs(1)),
		moveCase(op.SliceGrad, "large",
			back(large, []int{200, 300}, movePlaces(10, 190, 1), movePlaces(1, 300, 2)), nil,
			large, moveLongs(200, 300), moveLongs(10, 1), moveLongs(190, 300), moveLongs(0, 1), moveLongs(1, 2)),
		moveFails(op.SliceGrad, "other shape", "input 0 has shape", nil, dy, moveLongs(4, 3), moveLongs(1),
			moveLongs(4)),
	}
}
