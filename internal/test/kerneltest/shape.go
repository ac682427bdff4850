package kerneltest

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(moveShapeCases) }

func moveShapeCases() []Case {
	x := moveCount(graph.Float16, 2, 3, 4)
	shape := func(name string, want *executor.Tensor, pairs ...any) Case {
		return moveCase(op.Shape, name, want, moveAttrs(pairs...), x)
	}
	return []Case{
		shape("all", moveLongs(2, 3, 4)),
		shape("part", moveLongs(3), "start", int64(1), "end", int64(2)),
		shape("from the end", moveLongs(3), "start", int64(-2), "end", int64(-1)),
		shape("held", moveLongs(2, 3, 4), "start", int64(-9), "end", int64(9)),
		shape("none", moveLongs(), "start", int64(2), "end", int64(1)),
		moveOpset(13, shape("without bounds", moveLongs(2, 3, 4), "start", int64(1))),
		moveCase(op.Shape, "scalar", moveLongs(), nil, moveCount(graph.Float32)),
		moveCase(op.Size, "rank 3", moveScalar(24), nil, x),
		moveCase(op.Size, "scalar", moveScalar(1), nil, moveCount(graph.Float32)),
		moveCase(op.Size, "empty", moveScalar(0), nil, moveEmpty(graph.Float32, 3, 0)),
	}
}
