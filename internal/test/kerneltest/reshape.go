package kerneltest

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(viewCases)
	register(moveViewCases)
}

// viewCases are of operators that only name their input's memory anew.
func viewCases() []Case {
	x := executor.NewTensor[float32](graph.Float32, []int{2, 1, 3}, 1, 2, 3, 4, 5, 6)
	empty := executor.NewTensor[float32](graph.Float32, []int{2, 0, 3})
	flat := func(name string, in *executor.Tensor, axis int64, shape ...int) Case {
		return Case{Name: name, Kind: op.Flatten, Attrs: []graph.Attr{Attr("axis", axis)}, In: []*executor.Tensor{in},
			Out:  []graph.DType{graph.Float32},
			Want: []*executor.Tensor{{DType: graph.Float32, Shape: shape, Data: in.Data}}}
	}
	same := Case{Name: "floats", Kind: op.Identity, In: []*executor.Tensor{x}, Out: []graph.DType{graph.Float32},
		Want: []*executor.Tensor{x}}
	bad := flat("axis out of range", x, 4)
	bad.Fails, bad.Want = "axis 4", nil
	return []Case{same, flat("axis 0", x, 0, 1, 6), flat("axis 2", x, 2, 2, 3), flat("axis -1", x, -1, 2, 3),
		flat("empty", empty, 1, 2, 0), bad}
}

func moveViewCases() []Case {
	x := moveCount(graph.Float32, 2, 1, 3)
	empty := moveEmpty(graph.Float32, 2, 0, 3)
	zeros := moveAttrs("allowzero", int64(1))
	reshape := func(name string, want *executor.Tensor, attrs []graph.Attr, in *executor.Tensor, shape ...int64) Case {
		return moveCase(op.Reshape, name, want, attrs, in, moveLongs(shape...))
	}
	return []Case{
		reshape("plain", moveReshaped(x, 3, 2), nil, x, 3, 2),
		reshape("-1", moveReshaped(x, 6), nil, x, -1),
		reshape("0 and -1", moveReshaped(x, 2, 3), nil, x, 0, -1),
		reshape("to a scalar", moveReshaped(moveCount(graph.Float32, 1)), nil, moveCount(graph.Float32, 1)),
		reshape("0 of an empty one", moveReshaped(empty, 2, 0), nil, empty, 2, 0),
		reshape("allowzero", moveReshaped(empty, 0, 7), zeros, empty, 0, 7),
		moveFails(op.Reshape, "-1 of an empty one", "does not hold", nil, moveReshaped(empty, 0, 6), moveLongs(0, -1)),
		moveOpset(7, reshape("old", moveReshaped(x, 3, 2), nil, x, 3, 2)),
		moveFails(op.Reshape, "two -1", "more than one", nil, x, moveLongs(-1, -1)),
		moveFails(op.Reshape, "count", "does not hold", nil, x, moveLongs(4, 2)),
		moveFails(op.Reshape, "no divisor", "does not hold", nil, x, moveLongs(4, -1)),
		moveFails(op.Reshape, "-2", "dim -2", nil, x, moveLongs(-2, 3)),
		moveFails(op.Reshape, "0 beyond", "keeps dim 3", nil, x, moveLongs(2, 3, 1, 0)),
		moveFails(op.Reshape, "overflow", "does not hold", nil, empty, moveLongs(1<<62, 1<<62)),
		moveCase(op.Squeeze, "all", moveReshaped(x, 2, 3), nil, x),
		moveCase(op.Squeeze, "axes", moveReshaped(x, 2, 3), nil, x, moveLongs(-2)),
		moveCase(op.Squeeze, "no axes", x, nil, x, moveLongs()),
		moveOpset(11, moveCase(op.Squeeze, "attribute", moveReshaped(x, 2, 3), moveAttrs("axes", []int64{1}), x)),
		moveFails(op.Squeeze, "long axis", "cannot be squeezed", nil, x, moveLongs(0)),
		moveFails(op.Squeeze, "axis outside", "axis 3", nil, x, moveLongs(3)),
		moveCase(op.Unsqueeze, "axes", moveReshaped(x, 1, 2, 1, 3, 1), nil, x, moveLongs(-1, 0)),
		moveCase(op.Unsqueeze, "scalar", moveCount(graph.Float32, 1), nil, moveCount(graph.Float32), moveLongs(0)),
		moveOpset(11, moveCase(op.Unsqueeze, "attribute", moveReshaped(x, 2, 1, 1, 3),
			moveAttrs("axes", []int64{1}), x)),
		moveFails(op.Unsqueeze, "axis outside", "axis 4", nil, x, moveLongs(4)),
		moveFails(op.Unsqueeze, "axis twice", "twice", nil, x, moveLongs(0, -5)),
	}
}
