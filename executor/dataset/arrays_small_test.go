package dataset

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/npz"
	"memopt/graph"
	"memopt/internal/fileio"
)

// TestSmallTypes writes and reads types that numpy does not have, and generates and reads them as ONNX does.
func TestSmallTypes(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 11, opset_import: ["" : 23]> g (int4[3] a, float8e5m2[2] b, uint2[5] c) => (d)
		{ d = Identity(a) }`, "g")
	require.NoError(t, err)
	tensors := []Named{
		{"a", &executor.Tensor{DType: graph.Int4, Shape: []int{3}, Data: []byte{0x8f, 0x07}}},
		{"b", &executor.Tensor{DType: graph.Float8E5M2, Shape: []int{2}, Data: []byte{0x3c, 0xfc}}},
		{"c", &executor.Tensor{DType: graph.Uint2, Shape: []int{5}, Data: []byte{0x93, 0x01}}},
	}
	file := filepath.Join(t.TempDir(), "x.npz")
	require.NoError(t, Write(file, tensors, &fileio.Ledger{}))
	arrays, err := npz.Read(file)
	require.NoError(t, err)
	require.Equal(t, []byte{0xff, 0xf8, 7}, arrays[0].Tensor.Data)
	require.Equal(t, graph.Int8, arrays[0].Tensor.DType)
	dir := t.TempDir()
	require.NoError(t, Write(dir, tensors, &fileio.Ledger{}))
	for _, path := range []string{file, dir} {
		set, err := Load(path, m.Graph)
		require.NoError(t, err)
		for _, want := range tensors {
			require.Equal(t, want.Tensor, set.Inputs[want.Name], "%s %s", path, want.Name)
		}
	}
	_, err = fromArray(executor.NewTensor[int8](graph.Int8, []int{2}, 1, 8), graph.Int4)
	require.EqualError(t, err, "element 1 is 8, which int4 does not have")

	filler := NewFiller(m.Graph, nil, 1)
	for _, d := range m.Graph.Inputs {
		filled, err := filler.Fill(d.Value)
		require.NoError(t, err)
		n, _ := executor.Bytes(filled.DType, filled.Shape)
		require.Len(t, filled.Data, n)
	}
}
