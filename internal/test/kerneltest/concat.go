package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(moveConcatCases)
	register(moveSplitCases)
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
