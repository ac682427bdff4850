package kerneltest

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(viewCases) }

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
