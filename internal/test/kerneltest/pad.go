package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(movePadCases) }

// movePadded computes a padding: for each axis, where places before 0 and from d on lie.
func movePadded(x *executor.Tensor, mode string, pads ...int) *executor.Tensor {
	rank := x.Rank()
	shape, from := make([]int, rank), make([]int, rank)
	for i := range rank {
		shape[i] = x.Shape[i] + pads[i] + pads[i+rank]
	}
	return movePick(x, shape, func(index []int) int {
		for k, i := range index {
			d := x.Shape[k]
			for i -= pads[k]; i < 0 || i >= d; {
				switch {
				case mode == "constant":
					return -1
				case mode == "edge":
					i = min(max(i, 0), d-1)
				case mode == "wrap" && i < 0:
					i += d
				case mode == "wrap":
					i -= d
				case i < 0: // reflect
					i = -i
				default:
					i = 2*(d-1) - i
				}
			}
			from[k] = i
		}
		return moveAt(x.Shape, from...)
	})
}

func movePadCases() []Case {
	var all []Case
	add := func(x *executor.Tensor, mode string, pads ...int64) {
		ints := make([]int, len(pads))
		for i, p := range pads {
			ints[i] = int(p)
		}
		all = append(all,
			moveCase(op.Pad, fmt.Sprint(mode, x, pads), movePadded(x, mode, ints...), moveAttrs("mode", mode), x,
				moveLongs(pads...)))
	}
	for _, mode := range []string{"constant", "edge", "reflect", "wrap"} {
		for _, d := range moveTypes {
			add(moveCount(d, 3, 4), mode, 1, 2, 0, 3)
		}
		add(moveCount(graph.Float32, 2, 3, 4), mode, 1, 0, 0, 1, 2, 0)
		add(moveCount(graph.Float32, 2, 3, 4), mode, 0, 0, 0, 0, 0, 0)
		add(moveCount(graph.Float32, 5), mode, 9, 12)
		add(moveCount(graph.Float32, 40, 50, 16), mode, 1, 2, 0, 3, 1, 0)
		add(moveCount(graph.Float32, 0, 3), mode, 0, 1, 0, 1)
	}
	add(moveCount(graph.Float32, 4, 5), "constant", -1, 2, -1, -3)
	add(moveCount(graph.Float32, 0, 3), "constant", 1, 0, 2, 0)
	x := moveFloats([]int{2, 3}, 1, 2, 3, 4, 5, 6)
	scalar := moveCount(graph.Float32)
	minus := executor.NewTensor(graph.Float32, []int{}, float32(-1))
	return append(all,
		moveCase(op.Pad, "scalar", scalar, nil, scalar, moveLongs()),
		moveCase(op.Pad, "value", moveFloats([]int{2, 5}, -1, 1, 2, 3, -1, -1, 4, 5, 6, -1), nil, x,
			moveLongs(0, 1, 0, 1), minus),
		moveCase(op.Pad, "axes", moveFloats([]int{2, 4}, -1, 1, 2, 3, -1, 4, 5, 6), nil, x, moveLongs(1, 0), minus,
			moveLongs(-1)),
		// Cut first, then mirrored: 2 3 -> 3 2 3.
		moveCase(op.Pad, "cut and reflected", moveFloats([]int{2, 3}, 2, 3, 2, 5, 6, 5), moveAttrs("mode", "reflect"),
			x, moveLongs(0, -1, 0, 1)),
		moveOpset(7, moveCase(op.Pad, "attributes", moveFloats([]int{2, 4}, 9, 1, 2, 3, 9, 4, 5, 6),
			moveAttrs("pads", []int64{0, 1, 0, 0}, "value", float32(9)), x)),
		moveOpset(7, moveCase(op.Pad, "attributes, edge", moveFloats([]int{2, 4}, 1, 1, 2, 3, 4, 4, 5, 6),
			moveAttrs("pads", []int64{0, 1, 0, 0}, "mode", "edge"), x)),
		moveOpset(13, moveCase(op.Pad, "value", moveFloats([]int{3, 3}, 1, 2, 3, 4, 5, 6, -1, -1, -1), nil, x,
			moveLongs(0, 0, 1, 0), minus)),
		moveFails(op.Pad, "count", "pads for 2 axes", nil, x, moveLongs(1, 1)),
		moveFails(op.Pad, "mode", "mode", moveAttrs("mode", "zero"), x, moveLongs(0, 0, 0, 0)),
		moveFails(op.Pad, "cut too much", "pads -2 and -1", nil, x, moveLongs(-2, 0, -1, 0)),
		moveFails(op.Pad, "edge of nothing", "pads", moveAttrs("mode", "edge"), moveEmpty(graph.Float32, 0, 2),
			moveLongs(1, 0, 0, 0)),
		moveFails(op.Pad, "huge", "pads", nil, x, moveLongs(math.MaxInt64, 0, math.MaxInt64, 0)),
		moveFails(op.Pad, "large", "shape", nil, x, moveLongs(1<<40, 1<<40, 0, 0)))
}
