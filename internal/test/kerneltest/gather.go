package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(moveGatherCases)
	register(moveGatherElementsCases)
	register(moveGatherNDCases)
}

// movePlace counts an index of an axis from the front.
func movePlace(at *executor.Tensor, i, d int) int {
	n := 0
	if at.DType == graph.Int32 {
		n = int(executor.Of[int32](at)[i])
	} else {
		n = int(executor.Of[int64](at)[i])
	}
	if n < 0 {
		n += d
	}
	return n
}

// moveIndices returns n indices in some order, every third one counted from the end.
func moveIndices(n, d int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(i * 7919 % d)
		if i%3 == 0 {
			list[i] -= int64(d)
		}
	}
	return list
}

// moveGathered computes a Gather index by index.
func moveGathered(x, at *executor.Tensor, axis int) *executor.Tensor {
	shape := append(append(append([]int{}, x.Shape[:axis]...), at.Shape...), x.Shape[axis+1:]...)
	return movePick(x, shape, func(index []int) int {
		end := axis + at.Rank()
		place := movePlace(at, moveAt(at.Shape, index[axis:end]...), x.Shape[axis])
		from := append(append(append([]int{}, index[:axis]...), place), index[end:]...)
		return moveAt(x.Shape, from...)
	})
}

func moveGatherCases() []Case {
	var all []Case
	add := func(name string, axis int64, x, at *executor.Tensor) {
		k := int(axis)
		if k < 0 {
			k += x.Rank()
		}
		all = append(all, moveCase(op.Gather, name, moveGathered(x, at, k), moveAttrs("axis", axis), x, at))
	}
	at := executor.NewTensor(graph.Int64, []int{2, 2}, int64(0), int64(-1), int64(2), int64(0))
	for _, d := range moveTypes {
		add(fmt.Sprint("rows ", d), 0, moveCount(d, 3, 4), at)
		add(fmt.Sprint("elements ", d), 1, moveCount(d, 2, 3), at)
	}
	x := moveCount(graph.Float32, 4, 3, 5)
	add("scalar", 1, x, moveScalar(-2))
	add("axis -1", -1, x, moveLongs(4, 0, -5))
	add("int32", 0, x, moveShorts(3, 0, -1))
	add("no indices", 0, x, moveLongs())
	add("empty rows", 0, moveEmpty(graph.Float32, 3, 0), moveLongs(1, 2))
	add("large", 0, moveCount(graph.Float32, 90, 70), moveLongs(moveIndices(600, 90)...))
	add("large rows", 0, moveCount(graph.Float32, 3, 40000), moveLongs(2, 0, 1))
	add("large elements", 1, moveCount(graph.Float32, 20, 50), moveLongs(moveIndices(3000, 50)...))
	shrunk := moveCase(op.ShrunkenGather, "rows", moveGathered(x, moveLongs(3, 1), 0), moveAttrs("axis", int64(0)), x,
		moveLongs(3, 1))
	return append(all, shrunk,
		moveOpset(7, moveCase(op.Gather, "default axis", moveGathered(x, at, 0), nil, x, at)),
		moveFails(op.Gather, "outside", "index 4, which is outside an axis of length 4", nil, x, moveLongs(0, 4)),
		moveFails(op.Gather, "outside below", "index -5", nil, x, moveLongs(0, -5, 9)),
		moveFails(op.Gather, "of nothing", "outside", nil, moveEmpty(graph.Float32, 0, 2), moveLongs(0)),
		moveFails(op.Gather, "float indices", "wanted int32 or int64", nil, x, x),
		moveFails(op.Gather, "of a scalar", "axis 0", nil, moveCount(graph.Float32), moveLongs(0)),
		moveFails(op.ShrunkenGather, "too many", "at most 4", nil, x, moveLongs(0, 1, 2, 3, 0)),
		moveFails(op.ShrunkenGather, "no list", "list", nil, x, at))
}

func moveGatherElementsCases() []Case {
	var all []Case
	add := func(name string, axis int64, x, at *executor.Tensor) {
		k := int(axis)
		if k < 0 {
			k += x.Rank()
		}
		want := movePick(x, at.Shape, func(index []int) int {
			from := append([]int{}, index...)
			from[k] = movePlace(at, moveAt(at.Shape, index...), x.Shape[k])
			return moveAt(x.Shape, from...)
		})
		all = append(all, moveCase(op.GatherElements, name, want, moveAttrs("axis", axis), x, at))
	}
	indices := func(d int, shape ...int) *executor.Tensor {
		n := 1
		for _, s := range shape {
			n *= s
		}
		return moveReshaped(moveLongs(moveIndices(n, d)...), shape...)
	}
	for _, d := range moveTypes {
		add(fmt.Sprint("axis 0 ", d), 0, moveCount(d, 3, 4), indices(3, 2, 4))
		add(fmt.Sprint("axis 1 ", d), 1, moveCount(d, 3, 4), indices(4, 3, 5))
	}
	x := moveCount(graph.Float32, 3, 4, 5)
	add("shorter", 1, x, indices(4, 2, 6, 3))
	add("middle axis", -2, x, indices(4, 3, 2, 5))
	add("rank 1", 0, moveCount(graph.Float32, 6), moveShorts(5, -6, 2))
	add("empty", 1, x, moveEmpty(graph.Int64, 3, 0, 5))
	add("large", 1, moveCount(graph.Float32, 60, 40, 30), indices(40, 60, 25, 20))
	add("large last", 2, moveCount(graph.Float32, 40, 30, 50), indices(50, 40, 30, 33))
	return append(all,
		moveOpset(11, all[0]),
		moveFails(op.GatherElements, "outside", "outside an axis of length 4", moveAttrs("axis", int64(1)), x,
			indices(5, 3, 4, 5)),
		moveFails(op.GatherElements, "longer", "longer than", nil, x, indices(3, 3, 5, 5)),
		moveFails(op.GatherElements, "rank", "rank", nil, x, moveLongs(0)))
}

func moveGatherNDCases() []Case {
	var all []Case
	add := func(name string, batch int, x, at *executor.Tensor) {
		lead := at.Shape[:at.Rank()-1]
		depth := at.Shape[at.Rank()-1]
		shape := append(append([]int{}, lead...), x.Shape[batch+depth:]...)
		want := movePick(x, shape, func(index []int) int {
			from := append([]int{}, index[:batch]...)
			for k := range depth {
				row := append(append([]int{}, index[:len(lead)]...), k)
				from = append(from, movePlace(at, moveAt(at.Shape, row...), x.Shape[batch+k]))
			}
			return moveAt(x.Shape, append(from, index[len(lead):]...)...)
		})
		all = append(all, moveCase(op.GatherND, name, want, moveAttrs("batch_dims", int64(batch)), x, at))
	}
	tuples := func(v []int64, shape ...int) *executor.Tensor { return moveReshaped(moveLongs(v...), shape...) }
	for _, d := range moveTypes {
		add(fmt.Sprint("type ", d), 0, moveCount(d, 3, 4), tuples([]int64{0, 3, -1, -4}, 2, 2))
	}
	x := moveCount(graph.Float32, 3, 4, 5)
	add("rows", 0, x, tuples([]int64{2, 1, 0, -4, 1, 1}, 3, 2))
	add("slices", 0, x, tuples([]int64{2, -3}, 2, 1))
	add("batch", 1, x, tuples([]int64{3, 0, -1, 2, 0, 1}, 3, 2, 1))
	add("batch of rows", 1, x, tuples([]int64{3, 4, -1, 0, 0, 1}, 3, 2))
	add("two batch axes", 2, x, tuples([]int64{0, 1, 2, 3, 4, -1, -2, -3, -4, -5, 0, 1}, 3, 4, 1))
	add("no tuples", 0, x, moveEmpty(graph.Int64, 0, 2))
	add("large", 0, moveCount(graph.Float32, 70, 60), tuples(moveIndices(30000, 60), 15000, 2))
	return append(all,
		moveOpset(11, moveCase(op.GatherND, "old", moveGathered(x, moveLongs(2, 0), 0), nil, x,
			tuples([]int64{2, 0}, 2, 1))),
		moveFails(op.GatherND, "outside", "index 4", nil, x, tuples([]int64{2, 4}, 1, 2)),
		moveFails(op.GatherND, "too deep", "more axes", nil, x, tuples([]int64{0, 0, 0, 0}, 1, 4)),
		moveFails(op.GatherND, "batch differs", "first 1 dims", moveAttrs("batch_dims", int64(1)), x,
			tuples([]int64{0, 0}, 2, 1)),
		moveFails(op.GatherND, "batch_dims", "batch_dims", moveAttrs("batch_dims", int64(-1)), x,
			tuples([]int64{0, 0}, 2, 1)))
}
