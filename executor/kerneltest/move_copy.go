package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(moveTransposeCases)
	register(moveExpandCases)
	register(moveConcatCases)
	register(moveSplitCases)
	register(moveDepthSpaceCases)
}

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

// moveJoined computes a concatenation index by index.
func moveJoined(axis int, in ...*executor.Tensor) *executor.Tensor {
	shape := append([]int{}, in[0].Shape...)
	shape[axis] = 0
	var data []byte // all inputs one after the other
	for _, x := range in {
		shape[axis] += x.Shape[axis]
		data = append(data, x.Data...)
	}
	all := &executor.Tensor{DType: in[0].DType, Data: data}
	return movePick(all, shape, func(index []int) int {
		before, at := 0, append([]int{}, index...)
		for _, x := range in {
			if at[axis] < x.Shape[axis] {
				return before + moveAt(x.Shape, at...)
			}
			before += x.Len()
			at[axis] -= x.Shape[axis]
		}
		return -1
	})
}

func moveConcatCases() []Case {
	var all []Case
	add := func(name string, axis int64, in ...*executor.Tensor) {
		at := int(axis)
		if at < 0 {
			at += in[0].Rank()
		}
		all = append(all, moveCase(op.Concat, name, moveJoined(at, in...), moveAttrs("axis", axis), in...))
	}
	for _, d := range moveTypes {
		add(fmt.Sprint("type ", d), 1, moveCount(d, 2, 3, 2), moveCount(d, 2, 1, 2), moveCount(d, 2, 4, 2))
	}
	add("axis 0", 0, moveCount(graph.Float32, 2, 3), moveCount(graph.Float32, 1, 3))
	add("axis -1", -1, moveCount(graph.Float32, 2, 3), moveCount(graph.Float32, 2, 5))
	add("one input", 0, moveCount(graph.Float32, 2, 3))
	add("empty part", 1, moveCount(graph.Float32, 2, 3), moveCount(graph.Float32, 2, 0), moveCount(graph.Float32, 2, 2))
	add("all empty", 0, moveCount(graph.Float32, 2, 0), moveCount(graph.Float32, 3, 0))
	add("large", 2, moveCount(graph.Float32, 3, 40, 100), moveCount(graph.Float32, 3, 40, 130))
	add("long rows", 0, moveCount(graph.Float32, 40000), moveCount(graph.Float32, 30001))
	x, y := moveCount(graph.Float32, 2, 3), moveCount(graph.Float32, 2, 1)
	training := moveCase(op.ConcatTraining, "lengths", moveJoined(1, x, y), moveAttrs("axis", int64(1)), x, y)
	training.Out, training.Want = append(training.Out, graph.Int64), append(training.Want, moveLongs(3, 1))
	bare := moveCase(op.ConcatTraining, "default axis", moveJoined(0, x, x), nil, x, x)
	return append(all, training, bare,
		moveOpset(7, moveCase(op.Concat, "old", moveJoined(1, x, y), moveAttrs("axis", int64(1)), x, y)),
		moveFails(op.Concat, "other shape", "input 1", moveAttrs("axis", int64(0)), x, y),
		moveFails(op.Concat, "other rank", "rank", moveAttrs("axis", int64(0)), x, moveCount(graph.Float32, 3)),
		moveFails(op.Concat, "other type", "type", moveAttrs("axis", int64(0)), x, moveCount(graph.Int32, 2, 3)),
		moveFails(op.Concat, "axis outside", "axis 2", moveAttrs("axis", int64(2)), x, x),
		moveFails(op.Concat, "no axis", "axis", nil, x, x))
}

func moveSplitCases() []Case {
	part := func(x *executor.Tensor, axis, from, n int) *executor.Tensor {
		shape := append([]int{}, x.Shape...)
		shape[axis] = n
		return movePick(x, shape, func(index []int) int {
			at := append([]int{}, index...)
			at[axis] += from
			return moveAt(x.Shape, at...)
		})
	}
	split := func(kind graph.Kind, name string, opset, axis int, attrs []graph.Attr, sizes []int,
		in ...*executor.Tensor) Case {
		c := Case{Name: name, Kind: kind, Opset: opset, Attrs: append(attrs, Attr("axis", int64(axis))), In: in}
		from := 0
		for _, n := range sizes {
			c.Out = append(c.Out, in[0].DType)
			c.Want = append(c.Want, part(in[0], axis, from, n))
			from += n
		}
		return c
	}
	x := moveCount(graph.Float32, 2, 6, 2)
	var all []Case
	for _, d := range moveTypes {
		all = append(all,
			split(op.Split, fmt.Sprint("type ", d), 0, 1, nil, []int{2, 3, 1}, moveCount(d, 2, 6, 2),
				moveLongs(2, 3, 1)))
	}
	left := split(op.Split, "output left out", 13, 1, nil, []int{2, 4}, x, moveLongs(2, 4))
	left.Out[0], left.Want[0] = graph.Undefined, nil
	fails := func(name, message string, opset int, attrs []graph.Attr, in ...*executor.Tensor) Case {
		c := split(op.Split, name, opset, 1, attrs, []int{1, 1}, in...)
		c.Want, c.Fails = nil, message
		return c
	}
	return append(all, left,
		split(op.Split, "attribute", 11, 1, moveAttrs("split", []int64{1, 5}), []int{1, 5}, x),
		split(op.Split, "equal by opset 7", 7, 1, nil, []int{3, 3}, x),
		split(op.Split, "equal by opset 13", 13, 1, nil, []int{2, 2, 2}, x),
		split(op.Split, "num_outputs, uneven", 18, 1, moveAttrs("num_outputs", int64(4)), []int{2, 2, 2, 0}, x),
		split(op.Split, "num_outputs, smaller last", 18, 0, moveAttrs("num_outputs", int64(2)), []int{3, 2},
			moveCount(graph.Int64, 5)),
		split(op.Split, "empty part", 13, 1, nil, []int{0, 6}, x, moveLongs(0, 6)),
		split(op.Split, "empty", 13, 0, nil, []int{0, 0}, moveCount(graph.Float32, 0, 3)),
		split(op.Split, "large", 18, 1, nil, []int{100, 130}, moveCount(graph.Float32, 120, 230), moveLongs(100, 130)),
		split(op.SplitTraining, "sizes", 0, 1, nil, []int{4, 2}, x, moveLongs(4, 2)),
		fails("uneven before 18", "equal parts", 13, nil, moveCount(graph.Float32, 2, 5)),
		fails("wrong sum", "sizes", 13, nil, x, moveLongs(2, 5)),
		fails("short sum", "add up", 13, nil, x, moveLongs(2, 3)),
		fails("negative", "sizes", 13, nil, x, moveLongs(-1, 7)),
		fails("wrong count", "sizes", 13, nil, x, moveLongs(1, 2, 3)),
		fails("num_outputs differs", "num_outputs", 18, moveAttrs("num_outputs", int64(3)), x))
}

func moveDepthSpaceCases() []Case {
	var all []Case
	add := func(x *executor.Tensor, b int) {
		n, ch, h, w := x.Shape[0], x.Shape[1]/(b*b), x.Shape[2], x.Shape[3]
		shape := []int{n, ch, h * b, w * b}
		attrs := func(mode string) []graph.Attr { return moveAttrs("blocksize", int64(b), "mode", mode) }
		dcr := movePick(x, shape, func(i []int) int {
			return moveAt(x.Shape, i[0], (i[2]%b*b+i[3]%b)*ch+i[1], i[2]/b, i[3]/b)
		})
		crd := movePick(x, shape, func(i []int) int {
			return moveAt(x.Shape, i[0], i[1]*b*b+i[2]%b*b+i[3]%b, i[2]/b, i[3]/b)
		})
		all = append(all,
			moveCase(op.DepthToSpace, fmt.Sprint("DCR ", x), dcr, attrs("DCR"), x),
			moveCase(op.DepthToSpace, fmt.Sprint("CRD ", x), crd, attrs("CRD"), x),
			moveCase(op.SpaceToDepth, fmt.Sprint(dcr), x, moveAttrs("blocksize", int64(b)), dcr))
	}
	for _, d := range moveTypes {
		add(moveCount(d, 2, 8, 2, 3), 2)
	}
	add(moveCount(graph.Float32, 1, 9, 3, 2), 3)
	add(moveCount(graph.Float32, 2, 3, 2, 2), 1)
	add(moveCount(graph.Float32, 0, 4, 2, 2), 2)
	add(moveCount(graph.Float32, 2, 16, 40, 30), 2)
	x := moveCount(graph.Float32, 1, 6, 2, 3)
	return append(all,
		moveFails(op.DepthToSpace, "channels", "multiple", moveAttrs("blocksize", int64(2)), x),
		moveFails(op.SpaceToDepth, "plane", "multiple", moveAttrs("blocksize", int64(2)), x),
		moveFails(op.SpaceToDepth, "no blocksize", "blocksize", nil, x),
		moveFails(op.DepthToSpace, "mode", "mode", moveAttrs("blocksize", int64(2), "mode", "RCD"), x),
		moveFails(op.DepthToSpace, "rank", "rank", moveAttrs("blocksize", int64(2)), moveCount(graph.Float32, 4, 4)))
}
