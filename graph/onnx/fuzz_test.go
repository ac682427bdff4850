package onnx_test

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzDecode: any bytes give a model that holds its invariants and survives a
// round trip, or a FormatError of one line.
func FuzzDecode(f *testing.F) {
	f.Add(everything(f))
	f.Add(nested(3))
	f.Add(fromText(f, "ModelProto", weightModel("location", "w.bin", "offset", "4")))
	f.Add([]byte("text"))
	files, _ := filepath.Glob(filepath.Join(sharedModels, "*", "*.onnx"))
	for _, file := range files {
		const largest = 30_000 // larger seeds slow the mutations down
		if data, err := os.ReadFile(file); err == nil && len(data) < largest {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkStable(t, data) })
}
