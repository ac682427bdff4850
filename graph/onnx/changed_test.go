package onnx_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/internal/mapfile"
)

// TestWriteOfChangedFiles: a file of the model that becomes shorter, or is written to, after it was
// mapped makes an error of the write, wherever the weight lies and wherever it goes, and leaves
// nothing behind.
func TestWriteOfChangedFiles(t *testing.T) {
	const elements = 64 << 10
	text := fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17]>
m (float[%d] x) => (float[%d] y) <float[%d] w = {0%s}> { y = Add(x, w) }`, elements, elements, elements, bytes.Repeat([]byte(", 0"), elements-1))
	plain, err := graph.Parse(text, "m")
	require.NoError(t, err)
	changes := map[string]func(path string) error{
		"shorter": func(path string) error { return os.Truncate(path, 512) },
		"written": func(path string) error { return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)) },
	}
	for _, inFile := range []int64{0, 1} { // the weight lies in external data or in the model's own file
		for _, outFile := range []int64{0, 1} {
			for name, change := range changes {
				t.Run(fmt.Sprintf("%s %d %d", name, inFile, outFile), func(t *testing.T) {
					from, to := t.TempDir(), t.TempDir()
					path := filepath.Join(from, "model.onnx")
					require.NoError(t, onnx.WriteFile(path, plain, onnx.Options{ExternalDataThreshold: inFile}))
					m, opened, err := onnx.Open(path)
					require.NoError(t, err)
					defer opened.Close()
					_, err = weight(m) // maps the file of external data
					require.NoError(t, err)
					changed := path
					if inFile > 0 {
						changed += ".data"
					}
					require.NoError(t, change(changed))
					err = onnx.WriteFile(filepath.Join(to, "out.onnx"), m, onnx.Options{ExternalDataThreshold: outFile})
					var fault *mapfile.ChangedError
					require.ErrorAs(t, err, &fault)
					require.Equal(t, changed, fault.Path)
					entries, err := os.ReadDir(to)
					require.NoError(t, err)
					require.Empty(t, entries)
					if name == "shorter" {
						return
					}
					var b bytes.Buffer
					require.NoError(t, onnx.Write(&b, m), "what is streamed is not kept back")
				})
			}
		}
	}
}
