package dataset

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/graph"
)

// TestMemory: elements lie in the memory that the caller gives, with the numbers that they have on Go's heap.
func TestMemory(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[64, 3] w) => (y) { y = Neg(w) }`, "g")
	require.NoError(t, err)
	in := m.Graph.Inputs[0]
	m.Graph.Values[in.Value].Type = in.Type
	f := NewFiller(m.Graph, nil, 1)
	want, err := f.Fill(in.Value)
	require.NoError(t, err)
	memory := make([]byte, 64*3*4)
	f.Memory = func(n int) ([]byte, error) {
		require.Len(t, memory, n)
		return memory, nil
	}
	got, err := f.Fill(in.Value)
	require.NoError(t, err)
	require.Equal(t, want.Data, memory)
	require.Same(t, &memory[0], &got.Data[0])
	f.Memory = func(int) ([]byte, error) { return nil, executor.ErrOutOfMemory }
	_, err = f.Fill(in.Value)
	require.ErrorIs(t, err, executor.ErrOutOfMemory)
	require.ErrorContains(t, err, `"w"`)
}
