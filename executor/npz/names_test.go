package npz_test

import (
	"archive/zip"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/executor/npz"
	"memopt/graph"
	_ "memopt/internal/test/rapidflags"
)

// TestEntriesStayInside: an archive unpacks into its folder, whatever the arrays are called, and
// each is found again.
func TestEntriesStayInside(t *testing.T) {
	for name, want := range map[string]string{
		"loss": "loss", "layer.0/weight": "layer.0/weight", "x:0": "x:0", "/fc/MatMul": "%2Ffc%2FMatMul",
		"../../x": "..%2F..%2Fx", `..\x`: "..%5Cx", `C:\x`: "C:%5Cx", "a/../b": "a%2F..%2Fb",
		"a//b": "a%2F%2Fb", "a/": "a%2F", "..": "..", ".": ".", "a%2Fb": "a%252Fb", "100%": "100%",
		"a\x00": "a%00", "": "",
	} {
		require.Equal(t, []string{want + ".npy"}, entries(t, []string{name}), "%q", name)
	}
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.StringOfN(rapid.SampledFrom([]rune(`ab/.\%2F5C`+"\x00")), 0, 12, -1).Draw(r, "name")
		for _, entry := range entries(t, []string{name}) {
			require.True(t, fs.ValidPath(entry), "%q", entry)
			require.False(t, strings.ContainsAny(entry, "\\\x00"))
		}
	})
	_, err := npz.Create(filepath.Join(t.TempDir(), "no", "such.npz"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// entries writes arrays and returns the names of the archive's entries. Read must find the arrays'
// names.
func entries(t *testing.T, names []string) (list []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.npz")
	w, err := npz.Create(path)
	require.NoError(t, err)
	for _, name := range names {
		require.NoError(t, w.Add(name, executor.NewTensor[float32](graph.Float32, []int{1}, 1)))
	}
	require.NoError(t, w.Close())
	z, err := zip.OpenReader(path)
	require.NoError(t, err)
	defer z.Close()
	for _, f := range z.File {
		list = append(list, f.Name)
	}
	arrays, err := npz.Read(path)
	require.NoError(t, err)
	for i, a := range arrays {
		require.Equal(t, names[i], npz.ValueName(a.Name))
	}
	return list
}
