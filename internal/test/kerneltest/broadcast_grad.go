package kerneltest

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(broadcastArgsCases) }

func broadcastArgsCases() []Case {
	ints := func(v ...int64) *executor.Tensor { return executor.NewTensor(graph.Int64, []int{len(v)}, v...) }
	add := func(name string, a, b, axesA, axesB *executor.Tensor) Case {
		return Case{Name: name, Kind: op.BroadcastGradientArgs, In: []*executor.Tensor{a, b},
			Out: []graph.DType{graph.Int64, graph.Int64}, Want: []*executor.Tensor{axesA, axesB}}
	}
	one := add("second alone", ints(2, 3), ints(3), nil, ints(0))
	one.Out[0] = graph.Undefined
	bad := add("unequal", ints(2, 3), ints(4), nil, nil)
	bad.Want, bad.Fails = nil, "cannot be broadcast"
	matrix := add("matrix", executor.NewTensor[int64](graph.Int64, []int{1, 1}, 2), ints(4), nil, nil)
	matrix.Want, matrix.Fails = nil, "wanted a vector"
	return []Case{one, bad, matrix,
		add("equal", ints(2, 3), ints(2, 3), ints(), ints()),
		add("bias", ints(2, 16, 64), ints(64), ints(), ints(1, 0)),
		add("both", ints(2, 1, 3, 1), ints(16, 1, 5), ints(3, 1), ints(2, 0)),
		add("ones on both sides", ints(2, 1, 3), ints(1, 1, 3), ints(), ints(0)),
		add("scalar", ints(), ints(2, 3), ints(1, 0), ints())}
}
