package kerneltest

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(movePaddingCases) }

func movePaddingCases() []Case {
	var all []Case
	for _, d := range moveTypes {
		x, at := moveCount(d, 2, 3, 4), moveLongs(5, 0, 2)
		rows := moveGathered(moveReshaped(x, 6, 4), at, 0)
		unpad := moveCase(op.FlattenAndUnpad, fmt.Sprint(d), rows, nil, x, at)
		unpad.Out, unpad.Want = append(unpad.Out, graph.Int64), append(unpad.Want, moveLongs(2, 3))
		padded := movePick(rows, []int{2, 3, 4}, func(i []int) int {
			for n, o := range []int{5, 0, 2} {
				if o == i[0]*3+i[1] {
					return n*4 + i[2]
				}
			}
			return -1
		})
		all = append(all, unpad, moveCase(op.PadAndUnflatten, fmt.Sprint(d), padded, nil, rows, at, moveLongs(2, 3)))
	}
	x := moveCount(graph.Float32, 2, 3)
	bare := moveCount(graph.Float32, 2, 3)
	return append(all,
		moveCase(op.FlattenAndUnpad, "rank 2", moveGathered(moveReshaped(bare, 6), moveLongs(1), 0), nil, bare,
			moveLongs(1)),
		moveCase(op.PadAndUnflatten, "twice the same", movePick(x, []int{1, 2, 3}, func(i []int) int {
			if i[1] == 1 {
				return 3 + i[2]
			}
			return -1
		}), nil, x, moveLongs(1, 1), moveLongs(1, 2)),
		moveFails(op.FlattenAndUnpad, "outside", "index 6", nil, x, moveLongs(6)),
		moveFails(op.FlattenAndUnpad, "rank", "rank", nil, moveCount(graph.Float32, 3), moveLongs(1)),
		moveFails(op.PadAndUnflatten, "outside", "index 2", nil, x, moveLongs(0, 2), moveLongs(1, 2)),
		moveFails(op.PadAndUnflatten, "count", "as many", nil, x, moveLongs(0), moveLongs(1, 2)),
		moveFails(op.PadAndUnflatten, "huge", "memory", nil, x, moveLongs(0, 1), moveLongs(1<<40, 1<<40)))
}
