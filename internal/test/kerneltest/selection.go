package kerneltest

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(moveCompressCases)
	register(moveOneHotCases)
}

func moveCompressCases() []Case {
	x := moveCount(graph.Float32, 3, 4)
	cond := func(v ...uint8) *executor.Tensor { return executor.NewTensor(graph.Bool, []int{len(v)}, v...) }
	rows := movePick(x, []int{2, 4}, func(i []int) int { return (i[0]+1)*4*1 + i[1] })
	cols := movePick(x, []int{3, 2}, func(i []int) int { return i[0]*4 + i[1]*2 })
	return []Case{
		moveCase(op.Compress, "rows", rows, moveAttrs("axis", int64(0)), x, cond(0, 1, 1)),
		moveCase(op.Compress, "columns", cols, moveAttrs("axis", int64(-1)), x, cond(1, 0, 1)),
		moveCase(op.Compress, "flat", movePick(x, []int{3}, func(i []int) int { return []int{1, 3, 4}[i[0]] }), nil, x,
			cond(0, 1, 0, 1, 1)),
		moveCase(op.Compress, "none", moveEmpty(graph.Float32, 0, 4), moveAttrs("axis", int64(0)), x, cond(0, 0, 0)),
		moveOpset(9, moveCase(op.Compress, "rows", rows, moveAttrs("axis", int64(0)), x, cond(0, 1, 1))),
		moveFails(op.Compress, "no list", "list", nil, x, executor.NewTensor(graph.Bool, []int{1, 1}, uint8(1))),
		moveFails(op.Compress, "no bools", "bool", nil, x, moveLongs(1)),
	}
}

func moveOneHotCases() []Case {
	values := moveFloats([]int{2}, 2, 5)
	at := moveReshaped(moveLongs(0, -1, 2, 3, -4, 1), 2, 3)
	hot := func(axis int) *executor.Tensor {
		shape := append(append(append([]int{}, at.Shape[:axis]...), 3), at.Shape[axis:]...)
		return movePick(values, shape, func(index []int) int {
			rest := append(append([]int{}, index[:axis]...), index[axis+1:]...)
			if movePlace(at, moveAt(at.Shape, rest...), 3) == index[axis] {
				return 1
			}
			return 0
		})
	}
	// An index of -4 is outside for a depth of 3, as is one of 3.
	floats := moveFloats([]int{2, 3}, 0, -1, 2.5, 3, -4, 1)
	large := moveLongs(moveIndices(5000, 9)...)
	return []Case{
		moveCase(op.OneHot, "last axis", hot(2), nil, at, moveScalar(3), values),
		moveCase(op.OneHot, "axis 0", hot(0), moveAttrs("axis", int64(0)), at, moveLongs(3), values),
		moveCase(op.OneHot, "axis -2", hot(1), moveAttrs("axis", int64(-2)), at, moveScalar(3), values),
		moveCase(op.OneHot, "floats", hot(2), nil, floats, moveFloats([]int{}, 3), values),
		moveCase(op.OneHot, "int64 values", executor.NewTensor(graph.Int64, []int{3}, int64(-7), int64(9), int64(-7)),
			nil, moveScalar(1), moveScalar(3), moveLongs(-7, 9)),
		moveCase(op.OneHot, "bool values", executor.NewTensor(graph.Bool, []int{1, 2}, uint8(0), uint8(1)), nil,
			moveShorts(1), moveScalar(2), executor.NewTensor(graph.Bool, []int{2}, uint8(0), uint8(1))),
		moveCase(op.OneHot, "depth 0", moveEmpty(graph.Float32, 2, 3, 0), nil, at, moveScalar(0), values),
		moveCase(op.OneHot, "large", movePick(values, []int{5000, 9}, func(i []int) int {
			if movePlace(large, i[0], 9) == i[1] {
				return 1
			}
			return 0
		}), nil, large, moveScalar(9), values),
		moveOpset(9, moveCase(op.OneHot, "last axis", hot(2), nil, at, moveScalar(3), values)),
		moveFails(op.OneHot, "negative depth", "depth", nil, values, moveScalar(-1), values),
		moveFails(op.OneHot, "depth list", "one element", nil, values, moveLongs(1, 2), values),
		moveFails(op.OneHot, "axis outside", "axis 2", moveAttrs("axis", int64(2)), values, moveScalar(2), values),
	}
}
