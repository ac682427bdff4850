//go:build !unix

package onnx

import (
	"io"
	"os"
)

// mapping is a file in memory.
type mapping struct{ data []byte }

// mapFile reads the file: this system has no mappings that x/sys/unix knows.
func mapFile(f *os.File) (mapping, error) {
	data, err := io.ReadAll(f)
	return mapping{data}, err
}

func (m mapping) close() error { return nil }
