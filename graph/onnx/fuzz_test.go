package onnx_test

import (
	"os"
	"testing"

	"memopt/internal/test/graphtest"
)

// FuzzDecode: any bytes give a model that holds its invariants and survives a
// round trip, or a FormatError of one line.
func FuzzDecode(f *testing.F) {
	f.Add(everything(f))
	f.Add(nested(3))
	f.Add(fromText(f, "ModelProto", weightModel("location", "w.bin", "offset", "4")))
	f.Add([]byte("text"))
	samples, err := graphtest.AllSamples.Find()
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range samples {
		const largest = 30_000 // larger seeds slow the mutations down
		if data, err := os.ReadFile(s.File); err == nil && len(data) < largest {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkStable(t, data) })
}
