package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(moveTransposeCases) }

// moveTransposed computes a permutation index by index.
func moveTransposed(x *executor.Tensor, perm []int64) *executor.Tensor {
	shape, from := make([]int, len(perm)), make([]int, len(perm))
	for i, axis := range perm {
		shape[i] = x.Shape[axis]
	}
	return movePick(x, shape, func(index []int) int {
		for i, axis := range perm {
			from[axis] = index[i]
		}
		return moveAt(x.Shape, from...)
	})
}

func moveTransposeCases() []Case {
	var all []Case
	add := func(name string, x *executor.Tensor, perm ...int64) {
		all = append(all,
			moveCase(op.Transpose, fmt.Sprintf("%s %v %v", name, x, perm), moveTransposed(x, perm),
				moveAttrs("perm", perm), x))
	}
	for _, d := range moveTypes {
		add("type", moveCount(d, 3, 4, 5), 2, 0, 1)
		add("type", moveCount(d, 19, 33), 1, 0)
		add("type", moveCount(d, 2, 5, 3, 4), 0, 2, 1, 3)
	}
	x := moveCount(graph.Float32, 2, 3, 4, 5)
	for _, perm := range [][]int64{{0, 1, 2, 3}, {0, 1, 3, 2}, {0, 2, 1, 3}, {0, 3, 1, 2}, {3, 0, 1, 2}, {1, 2, 3, 0},
		{3, 2, 1, 0}, {2, 3, 0, 1}} {
		add("rank 4", x, perm...)
	}
	add("ones", moveCount(graph.Float32, 1, 6, 1, 7), 2, 3, 0, 1)
	add("attention", moveCount(graph.Float32, 2, 40, 4, 96), 0, 2, 1, 3)
	add("planes", moveCount(graph.Float32, 6, 70, 66), 0, 2, 1)
	add("wide", moveCount(graph.Float32, 2, 30000), 1, 0)
	add("narrow", moveCount(graph.Float32, 30000, 3), 1, 0)
	add("empty", moveCount(graph.Float32, 2, 0, 3), 2, 1, 0)
	add("rank 1", moveCount(graph.Float32, 5), 0)
	add("rank 6", moveCount(graph.Float64, 2, 3, 2, 2, 3, 2), 5, 1, 3, 0, 4, 2)
	y := moveCount(graph.Float32, 2, 3, 4)
	scalar := moveCount(graph.Float32)
	return append(all,
		moveCase(op.Transpose, "default", moveTransposed(y, []int64{2, 1, 0}), nil, y),
		moveCase(op.Transpose, "scalar", scalar, nil, scalar),
		moveOpset(7, moveCase(op.Transpose, "types of opset 1", moveTransposed(y, []int64{1, 0, 2}),
			moveAttrs("perm", []int64{1, 0, 2}), y)),
		moveFails(op.Transpose, "no permutation", "no permutation", moveAttrs("perm", []int64{0, 0, 1}), y),
		moveFails(op.Transpose, "other rank", "perm", moveAttrs("perm", []int64{1, 0}), y))
}
