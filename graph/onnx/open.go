package onnx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"memopt/graph"
)

// MaxStreamBytes is the largest model that [Read] takes: protocol buffer
// libraries write no larger one. Larger files are opened by path.
const MaxStreamBytes = 2 << 30

// Open maps a file and reads the model in it. The model, its strings excepted,
// refers to the mapping until that is closed; files of external data are
// mapped when their contents are asked for and released with it. What is no
// regular file (a pipe) is read as by [Read].
//
// The error is a *FormatError where the file is no valid model.
func Open(path string) (*graph.Model, *Opened, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the model: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the model: %w", err)
	}
	files := newExternals(path)
	if info.IsDir() {
		return nil, nil, fmt.Errorf("cannot open the model: %s is a directory; give the path of an .onnx file", path)
	}
	if !info.Mode().IsRegular() {
		files.dir = ""
		m, err := read(f, path, files, MaxStreamBytes)
		if err != nil {
			return nil, nil, err
		}
		return m, files.closer(mapping{}), nil
	}
	main, err := mapFile(f)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the model: %w", err)
	}
	m, err := decode(main.data, path, files)
	if err != nil {
		_ = main.close() // the fault in the file is what matters
		return nil, nil, err
	}
	return m, files.closer(main), nil
}

// closer releases a model's file and its external data.
func (x *externals) closer(main mapping) *Opened {
	return &Opened{main: main, files: x}
}

// Opened is what a model's contents lie in: its file, and those of its external data.
type Opened struct {
	main  mapping
	files *externals
}

// External lists the files of external data that the model refers to, by their paths.
func (m *Opened) External() []string {
	var paths []string
	for _, location := range m.files.named {
		if m.files.dir != "" {
			paths = append(paths, filepath.Join(m.files.dir, location))
		}
	}
	return paths
}

// Close releases the mappings; the model is not to be used afterwards.
func (m *Opened) Close() error {
	err := errors.Join(m.files.close(), m.main.close())
	m.main = mapping{}
	return err
}

// Read reads a model from a stream, all of it; more than [MaxStreamBytes] is an
// error. name has the meaning that path has for [Decode]: give "-" for a model
// without a folder.
func Read(r io.Reader, name string) (*graph.Model, error) {
	return read(r, name, newExternals(name), MaxStreamBytes)
}

func read(r io.Reader, name string, files *externals, limit int64) (*graph.Model, error) {
	var buf bytes.Buffer
	n, err := buf.ReadFrom(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading the model %s: %w", name, err)
	}
	if n > limit {
		return nil, fmt.Errorf("reading the model %s: it has more than %d bytes, which a stream cannot have; give the path of a file", name, limit)
	}
	return decode(buf.Bytes(), name, files)
}
