package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(moveExpandCases) }

func moveExpandCases() []Case {
	var all []Case
	expand := func(x *executor.Tensor, shape []int, want ...int64) {
		rank := len(shape)
		y := movePick(x, shape, func(index []int) int {
			from := make([]int, x.Rank())
			for k := range from {
				if from[k] = index[rank-x.Rank()+k]; x.Shape[k] == 1 {
					from[k] = 0
				}
			}
			return moveAt(x.Shape, from...)
		})
		all = append(all, moveCase(op.Expand, fmt.Sprint(x, want), y, nil, x, moveLongs(want...)))
	}
	for _, d := range moveTypes {
		expand(moveCount(d, 3, 1), []int{2, 3, 6}, 2, 1, 6)
	}
	expand(moveCount(graph.Float32, 3, 1, 4), []int{3, 5, 4}, 5, 1)
	expand(moveCount(graph.Float32), []int{2, 3}, 2, 3)
	expand(moveCount(graph.Float32, 2, 3), []int{2, 3})
	expand(moveCount(graph.Float32), []int{})
	expand(moveCount(graph.Float32, 1, 3), []int{0, 3}, 0, 1)
	expand(moveCount(graph.Float32, 64, 1, 32), []int{64, 20, 32}, 64, 20, 32)
	expand(moveCount(graph.Float32, 64, 1), []int{64, 700}, 1, 700)
	tile := func(x *executor.Tensor, shape []int, repeats ...int64) {
		y := movePick(x, shape, func(index []int) int {
			from := make([]int, x.Rank())
			for k := range from {
				from[k] = index[k] % x.Shape[k]
			}
			return moveAt(x.Shape, from...)
		})
		all = append(all, moveCase(op.Tile, fmt.Sprint(x, repeats), y, nil, x, moveLongs(repeats...)))
	}
	for _, d := range moveTypes {
		tile(moveCount(d, 2, 3), []int{4, 9}, 2, 3)
	}
	tile(moveCount(graph.Float32, 2, 3, 2), []int{2, 6, 2}, 1, 2, 1)
	tile(moveCount(graph.Float32), []int{})
	tile(moveCount(graph.Float32, 2, 3), []int{0, 3}, 0, 1)
	tile(moveCount(graph.Float32, 30, 1), []int{60, 900}, 2, 900)
	x := moveCount(graph.Float32, 2, 3)
	return append(all,
		moveOpset(7, moveCase(op.Tile, "opset 6",
			movePick(x, []int{2, 6}, func(i []int) int { return i[0]*3 + i[1]%3 }), nil, x, moveLongs(1, 2))),
		moveFails(op.Expand, "no broadcast", "do not broadcast", nil, x, moveLongs(2, 2)),
		moveFails(op.Expand, "negative", "dim -1", nil, x, moveLongs(-1, 3)),
		moveFails(op.Expand, "huge", "shape", nil, x, moveLongs(1<<40, 1<<40, 1, 1)),
		moveFails(op.Tile, "negative", "repeat -1", nil, x, moveLongs(-1, 1)),
		moveFails(op.Tile, "other rank", "repeats", nil, x, moveLongs(1)),
		moveFails(op.Tile, "huge", "shape", nil, x, moveLongs(1<<62, 1<<62)))
}
