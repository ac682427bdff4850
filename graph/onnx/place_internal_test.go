package onnx

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// contents returns the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	out := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		out[e.Name()] = string(data)
	}
	return out
}

// TestPairIsWhole: a model and its data take the place of older ones together, whichever of the two were there, and after a
// fault at any point all is as it was.
func TestPairIsWhole(t *testing.T) {
	for _, before := range []map[string]string{
		{},
		{"m": "old model"},
		{"m.data": "old data"},
		{"m": "old model", "m.data": "old data"},
	} {
		for missing := -1; missing < 2; missing++ { // the temporary file that cannot be renamed; -1: all can
			dir := t.TempDir()
			for name, text := range before {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
			}
			var temps []string
			outputs := []output{{path: filepath.Join(dir, "m.data")}, {path: filepath.Join(dir, "m")}}
			for i, text := range []string{"new data", "new model"} {
				name, _, err := writeTemp(output{outputs[i].path, func(w io.Writer) error {
					_, err := io.WriteString(w, text)
					return err
				}})
				require.NoError(t, err)
				if i == missing {
					require.NoError(t, os.Remove(name))
				}
				temps = append(temps, name)
			}
			err := place(outputs, temps)
			if missing < 0 {
				require.NoError(t, err)
				require.Equal(t, map[string]string{"m": "new model", "m.data": "new data"}, contents(t, dir))
				continue
			}
			require.ErrorContains(t, err, "cannot write "+outputs[missing].path)
			for _, name := range temps {
				os.Remove(name) // as writeAll does
			}
			require.Equal(t, before, contents(t, dir), "missing %d", missing)
		}
	}
}

// TestDataFolder: a folder that bears the name of the data is left alone, and so is the older model.
func TestDataFolder(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "m.data"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m"), []byte("old model"), 0o666))
	write := func(w io.Writer) error { return nil }
	err := writeAll([]output{{filepath.Join(dir, "m.data"), write}, {filepath.Join(dir, "m"), write}})
	require.ErrorContains(t, err, "m.data: is a directory")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	text, err := os.ReadFile(filepath.Join(dir, "m"))
	require.NoError(t, err)
	require.Equal(t, "old model", string(text))
}
