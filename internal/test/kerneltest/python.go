package kerneltest

import (
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(movePythonCases) }

func movePythonCases() []Case {
	x := moveCount(graph.Float32, 2)
	return []Case{
		moveFails(op.PythonOp, "call", "calls Python", nil, x),
		moveFails(op.PythonOpGrad, "call", "calls Python", nil, x),
	}
}
