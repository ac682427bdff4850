package kerneltest

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(moveCropCases) }

func moveCropCases() []Case {
	x := moveCount(graph.Float32, 5, 3, 2)
	crop := func(shape ...int) *executor.Tensor {
		return movePick(x, shape, func(index []int) int {
			from := make([]int, 3)
			for k, i := range index {
				d := x.Shape[k]
				if i += max(d-shape[k], 0) / 2; d < shape[k] {
					i -= (shape[k] - d) / 2
				}
				if i < 0 || i >= d {
					return -1
				}
				from[k] = i
			}
			return moveAt(x.Shape, from...)
		})
	}
	return []Case{
		moveCase(op.CenterCropPad, "crop", crop(2, 2, 2), nil, x, moveLongs(2, 2, 2)),
		moveCase(op.CenterCropPad, "pad", crop(8, 4, 3), nil, x, moveLongs(8, 4, 3)),
		moveCase(op.CenterCropPad, "axes", crop(4, 3, 5), moveAttrs("axes", []int64{-1, 0}), x, moveLongs(5, 4)),
		moveCase(op.CenterCropPad, "empty", crop(0, 3, 2), moveAttrs("axes", []int64{0}), x, moveLongs(0)),
		moveFails(op.CenterCropPad, "count", "lengths", nil, x, moveLongs(1)),
		moveFails(op.CenterCropPad, "negative", "dim -1", moveAttrs("axes", []int64{0}), x, moveLongs(-1)),
	}
}
