package safetensors_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/train/safetensors"
)

// TestBytes: a file is, byte by byte, what the format's documentation and the order of the reference
// implementation say, whatever the order of the entries.
func TestBytes(t *testing.T) {
	entries := []safetensors.Entry{
		{Name: "b", DType: graph.Uint8, Shape: []int{3}},
		{Name: "w", DType: graph.Float32, Shape: []int{1, 2}},
		{Name: "a", DType: graph.Float32, Shape: []int{}},
		{Name: "none", DType: graph.Int64, Shape: []int{0, 7}},
	}
	contents := map[string]string{"b": "\x01\x02\x03", "w": "wwwwxxxx", "a": "aaaa", "none": ""}
	const header = `{"__metadata__":{"k":"v\"<","l":"x"},"none":{"dtype":"I64","shape":[0,7],"data_offsets":[0,0]},` +
		`"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]},` +
		`"b":{"dtype":"U8","shape":[3],"data_offsets":[12,15]}}`
	require.Equal(t, 257, len(header))
	want := append([]byte{264 & 255, 264 >> 8, 0, 0, 0, 0, 0, 0}, header...)
	want = append(want, "       aaaawwwwxxxx\x01\x02\x03"...)
	for range entries {
		entries = append(entries[1:], entries[0])
		var out bytes.Buffer
		require.NoError(t, safetensors.Write(&out, entries, map[string]string{"l": "x", "k": `v"<`},
			func(i int, dst []byte) error {
				require.Len(t, dst, copy(dst, contents[entries[i].Name]))
				return nil
			}))
		require.Equal(t, string(want), out.String())
	}
	path := filepath.Join(t.TempDir(), "a.safetensors")
	require.NoError(t, os.WriteFile(path, want, 0o666))
	f, err := safetensors.Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, map[string]string{"k": `v"<`, "l": "x"}, f.Metadata())
	for _, e := range entries {
		got, ok := f.Tensor(e.Name)
		require.True(t, ok)
		require.Equal(t, e, safetensors.Entry{Name: e.Name, DType: got.DType, Shape: got.Shape})
		require.Equal(t, contents[e.Name], string(got.Data))
	}
	_, ok := f.Tensor("c")
	require.False(t, ok)
}
