package dataset

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/npz"
	"memopt/graph"
)

// TestArrays reads folders of arrays: by name, and by the order of inputs and outputs where numpy
// has numbered them.
func TestArrays(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float[1] w, float[3] z) => (p, q)
		<float[1] w = {1}> { p = Add(x, w)  q = Neg(z) }`, "g")
	require.NoError(t, err)
	g := m.Graph
	two, three := executor.NewTensor[float32](graph.Float32, []int{2}, 1, 2), executor.NewTensor[float32](graph.Float32,
		[]int{3}, 3, 4, 5)
	for _, c := range []struct {
		name    string
		in, out []npz.Array
		fails   string
	}{
		{name: "names", in: []npz.Array{{Name: "z", Tensor: three}, {Name: "x", Tensor: two}},
			out: []npz.Array{{Name: "q", Tensor: three}, {Name: "p", Tensor: two}}},
		{name: "numbers", in: []npz.Array{{Name: "arr_0000", Tensor: two}, {Name: "arr_0001", Tensor: three}},
			out: []npz.Array{{Name: "arr_0", Tensor: two}, {Name: "arr_1", Tensor: three}}},
		{name: "numbers, shuffled", in: []npz.Array{{Name: "arr_10", Tensor: three}, {Name: "arr_9", Tensor: two}},
			out: []npz.Array{{Name: "arr_1", Tensor: three}, {Name: "arr_0", Tensor: two}}},
		{name: "no outputs", in: []npz.Array{{Name: "x", Tensor: two}, {Name: "z", Tensor: three}}},
		{name: "too many",
			in: []npz.Array{{Name: "arr_0", Tensor: two}, {Name: "arr_1", Tensor: three},
				{Name: "arr_2", Tensor: two}},
			fails: "inputs.npz: has 3 numbered arrays, the model wants 2: x, z"},
		{name: "unknown input", in: []npz.Array{{Name: "y", Tensor: two}},
			fails: `inputs.npz: array "y": the model has no value of that name`},
		{name: "unknown output", in: []npz.Array{{Name: "x", Tensor: two}},
			out:   []npz.Array{{Name: "z", Tensor: three}},
			fails: `outputs.npz: array "z": the model has no output of that name`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			require.False(t, hasArrays(dir))
			writeArrays(t, filepath.Join(dir, arraysIn), c.in)
			if c.out != nil {
				writeArrays(t, filepath.Join(dir, arraysOut), c.out)
			}
			require.True(t, hasArrays(dir))
			set, err := loadArrays(dir, g)
			if c.fails != "" {
				require.EqualError(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			require.Len(t, set.Inputs, 2)
			require.Equal(t, two.Data, set.Inputs["x"].Data)
			require.Equal(t, three.Data, set.Inputs["z"].Data)
			require.Len(t, set.Outputs, len(c.out))
			if c.out != nil {
				require.Equal(t, two.Data, set.Outputs[0].Tensor.Data)
				require.Equal(t, three.Data, set.Outputs[1].Tensor.Data)
			}
		})
	}
}

func writeArrays(t *testing.T, path string, arrays []npz.Array) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	w, err := npz.Create(path)
	require.NoError(t, err)
	for _, a := range arrays {
		require.NoError(t, w.Add(a.Name, a.Tensor))
	}
	require.NoError(t, w.Close())
}
