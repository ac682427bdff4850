package executor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// TestBindDims: symbols follow from the data, those of derived dims where they are linear.
func TestBindDims(t *testing.T) {
	for _, c := range []struct {
		inputs string
		shapes [][]int
		given  symbolic.Env
		want   symbolic.Env
		err    string
	}{
		{"float[n, m] x", [][]int{{2, 3}}, nil, symbolic.Env{"n": 2, "m": 3}, ""},
		{"float[\"s0 + 1\", 3] x, float[\"s0 + 1\", 3] z", [][]int{{6, 3}, {6, 3}}, nil, symbolic.Env{"s0": 5}, ""},
		{"float[\"2*s0 + 1\"] x, float[\"s0 + s1\"] y", [][]int{{7}, {5}}, nil, symbolic.Env{"s0": 3, "s1": 2}, ""},
		{"float[\"s0 + s1\"] x, float[\"2*s0 + 1\"] y", [][]int{{5}, {7}}, nil, symbolic.Env{"s0": 3, "s1": 2}, ""},
		{"float[\"4*(s0 + s1) - s1\"] x, float[s1] y", [][]int{{26}, {2}}, nil, symbolic.Env{"s0": 5, "s1": 2}, ""},
		{"float[\"b*t\"] x, float[b] y", [][]int{{12}, {3}}, nil, symbolic.Env{"b": 3, "t": 4}, ""},
		{"float[\"10 - s0\"] x", [][]int{{4}}, nil, symbolic.Env{"s0": 6}, ""},
		{"float[\"s0 // 2\"] x", [][]int{{3}}, nil, symbolic.Env{}, ""},
		{"float[\"s0 // 2\"] x", [][]int{{3}}, symbolic.Env{"s0": 7}, symbolic.Env{"s0": 7}, ""},
		{"float[\"s0 // 2\", s0] x", [][]int{{3, 7}}, nil, symbolic.Env{"s0": 7}, ""},
		{"float[\"s0 // 1048577 + s0\"] x", [][]int{{3}}, nil, symbolic.Env{"s0": 3}, ""},
		{"float[\"s0*s0\"] x", [][]int{{9}}, nil, symbolic.Env{}, ""},
		{"float[\"s0 + s1\"] x", [][]int{{9}}, nil, symbolic.Env{}, ""},
		{"float[\"2*s0\"] x", [][]int{{7}}, nil, nil,
			`input "x": the data are float[7], wanted float[2*s0]: dim 0: is 7: no size s0`},
		{"float[\"s0 + 9\"] x", [][]int{{7}}, nil, nil, "dim 0: is 7: no size s0 gives that"},
		{"float[\"s0 + 1\"] x, float[\"2*s0\"] y", [][]int{{4}, {8}}, nil, nil,
			`input "y": the data are float[8], wanted float[2*s0]: dim 0: is 8, wanted 6`},
		{"float[\"s0 // 2\"] x", [][]int{{3}}, symbolic.Env{"s0": 5}, nil, "dim 0: is 3, wanted 2"},
		{"float[n] x, float[n] y", [][]int{{3}, {4}}, nil, nil,
			`input "y": the data are float[4], wanted float[n]: dim 0: n is 4 here and 3 by input x`},
	} {
		m, err := graph.Parse("<ir_version: 8, opset_import: [\"\": 17]> g ("+c.inputs+") => (r) { r = Neg(x) }", "g")
		require.NoError(t, err, c.inputs)
		derive(t, m.Graph)
		tensors := make([]*executor.Tensor, len(m.Graph.Values))
		for i, d := range m.Graph.Inputs {
			tensors[d.Value] = executor.NewTensor[float32](graph.Float32, c.shapes[i])
		}
		got, err := executor.BindDims(m.Graph, tensors, c.given)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.inputs)
			continue
		}
		require.NoError(t, err, c.inputs)
		require.Equal(t, c.want, got, c.inputs)
	}
}

// derive makes expressions of the symbols that are called like some, as files are read.
func derive(t *testing.T, g *graph.Graph) {
	for _, d := range g.Inputs {
		dims := g.Values[d.Value].Type.Shape.Dims
		for i, dim := range dims {
			for _, name := range dim.Symbols() {
				e, err := symbolic.Parse(name)
				require.NoError(t, err)
				dims[i] = e
			}
		}
	}
}
