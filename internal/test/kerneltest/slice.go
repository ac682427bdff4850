package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(moveSliceCases) }

// movePlaces lists the places that a slice takes, as Python's range does.
func movePlaces(first, end, step int) []int {
	var at []int
	for i := first; step > 0 && i < end || step < 0 && i > end; i += step {
		at = append(at, i)
	}
	return at
}

// moveSliced takes the given places of each axis.
func moveSliced(x *executor.Tensor, places ...[]int) *executor.Tensor {
	shape := make([]int, len(places))
	for i, at := range places {
		shape[i] = len(at)
	}
	return movePick(x, shape, func(index []int) int {
		from := make([]int, len(index))
		for k, i := range index {
			from[k] = places[k][i]
		}
		return moveAt(x.Shape, from...)
	})
}

func moveSliceCases() []Case {
	x := moveCount(graph.Float32, 5, 6, 2)
	all, two := movePlaces(0, 6, 1), movePlaces(0, 2, 1)
	var cases []Case
	add := func(name string, want *executor.Tensor, in ...*executor.Tensor) {
		cases = append(cases, moveCase(op.Slice, name, want, nil, in...))
	}
	for _, d := range moveTypes {
		y := moveCount(d, 5, 6, 2)
		add(fmt.Sprint("type ", d), moveSliced(y, []int{1, 2, 3}, []int{5, 3, 1}, two), y, moveLongs(1, -1),
			moveLongs(4, -7), moveLongs(0, 1), moveLongs(1, -2))
	}
	add("defaults", moveSliced(x, []int{2, 3, 4}, []int{0, 1}, two), x, moveLongs(2, 0), moveLongs(100, 2))
	add("int32", moveSliced(x, []int{2, 3, 4}, all, two), x, moveShorts(-3), moveShorts(math.MaxInt32), moveShorts(0),
		moveShorts(1))
	add("negative axis", moveSliced(x, movePlaces(0, 5, 1), all, []int{1}), x, moveLongs(-1), moveLongs(math.MaxInt64),
		moveLongs(-1))
	add("to before the start", moveSliced(x, []int{4, 3, 2, 1, 0}, all, two), x, moveLongs(math.MaxInt64),
		moveLongs(math.MinInt64), moveLongs(0), moveLongs(-1))
	add("reversed last", moveSliced(x, movePlaces(0, 5, 1), all, []int{1, 0}), x, moveLongs(1), moveLongs(-3),
		moveLongs(2), moveLongs(-1))
	add("empty", moveSliced(x, nil, all, two), x, moveLongs(3), moveLongs(2), moveLongs(0))
	add("start beyond", moveSliced(x, nil, all, two), x, moveLongs(7), moveLongs(9), moveLongs(0))
	add("large step", moveSliced(x, []int{1}, all, two), x, moveLongs(1), moveLongs(5), moveLongs(0),
		moveLongs(math.MaxInt64))
	add("large step down", moveSliced(x, []int{4}, all, two), x, moveLongs(-1), moveLongs(-6), moveLongs(0),
		moveLongs(math.MinInt64))
	add("of nothing", moveEmpty(graph.Float32, 0, 2), moveEmpty(graph.Float32, 0, 3), moveLongs(0, 1), moveLongs(2, 3),
		moveLongs(0, 1), moveLongs(-1, 1))
	large := moveCount(graph.Float32, 200, 300)
	add("large", moveSliced(large, movePlaces(10, 190, 1), movePlaces(1, 300, 2)), large, moveLongs(10, 1),
		moveLongs(190, 300), moveLongs(0, 1), moveLongs(1, 2))
	attrs := moveAttrs("starts", []int64{0, -4}, "ends", []int64{-1, 1000}, "axes", []int64{0, 1})
	bare := moveAttrs("starts", []int64{1}, "ends", []int64{3})
	return append(cases,
		moveOpset(7, moveCase(op.Slice, "attributes",
			moveSliced(x, []int{0, 1, 2, 3}, []int{2, 3, 4, 5}, two), attrs, x)),
		moveOpset(7, moveCase(op.Slice, "attributes without axes", moveSliced(x, []int{1, 2}, all, two), bare, x)),
		moveCase(op.DynamicSlice, "bounds", moveSliced(x, []int{1, 2}, all, []int{1}), nil, x, moveLongs(1, -1),
			moveLongs(3, 9), moveLongs(0, 2)),
		moveFails(op.Slice, "step 0", "step 0 is 0", nil, x, moveLongs(0), moveLongs(1), moveLongs(0), moveLongs(0)),
		moveFails(op.Slice, "counts", "equally many", nil, x, moveLongs(0), moveLongs(1, 2)),
		moveFails(op.Slice, "axis outside", "axis 3", nil, x, moveLongs(0), moveLongs(1), moveLongs(3)),
		moveFails(op.Slice, "axis twice", "twice", nil, x, moveLongs(0, 0), moveLongs(1, 1), moveLongs(0, -3)))
}
