package executor

import (
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

// evalShapes returns the shape of every value at the bindings, nil where it is not
// known in full.
func evalShapes(g *graph.Graph, env symbolic.Env) [][]int {
	shapes := make([][]int, len(g.Values))
	for i := range g.Values {
		shapes[i] = EvalShape(g.Values[i].Type, env)
	}
	return shapes
}

// EvalShape returns the shape of a tensor type at the bindings, or nil where it is not
// known in full.
func EvalShape(t graph.Type, env symbolic.Env) []int {
	if t.Form != graph.FormTensor || !t.Shape.Ranked {
		return nil
	}
	shape := make([]int, 0, len(t.Shape.Dims))
	for _, d := range t.Shape.Dims {
		n, ok := d.Const()
		if !ok {
			v, err := d.Eval(env)
			if err != nil {
				return nil
			}
			n = v
		}
		if n < 0 {
			return nil
		}
		shape = append(shape, int(n))
	}
	return shape
}

func equalShapes(a, b []int) bool { return slices.Equal(a, b) }
