package onnx

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/encoding/protowire"

	"memopt/graph"
	"memopt/internal/inputfile"
	"memopt/internal/mapfile"
)

// MaxStreamBytes is the largest model that [Read] takes: protocol buffer
// libraries write no larger one. Larger files are opened by path.
const MaxStreamBytes = 2 << 30

// Open maps a file and reads the model in it. The model, its strings excepted, refers to the
// mapping until that is closed; files of external data are mapped when their contents are asked for
// and released with it. A pipe is read as by [Read]; it refuses a folder, a device or a socket.
//
// The error is a *FormatError if the file is not a valid model, and a *mapfile.ChangedError if it
// is written to meanwhile. Contents that are read later must be read under mapfile.Guard.
func Open(path string) (*graph.Model, *Opened, error) {
	f, info, err := inputfile.Open(path, inputfile.Unlimited)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the model: %w", err)
	}
	files := newExternals(path)
	if !info.Mode().IsRegular() {
		defer f.Close()
		files.dir = ""
		m, err := read(f, path, files, MaxStreamBytes)
		if err != nil {
			return nil, nil, err
		}
		return m, files.closer(nil), nil
	}
	return openRegular(f, path, files)
}

// openRegular is Open for a regular file, which is its own.
func openRegular(f *os.File, path string, files *externals) (m *graph.Model, _ *Opened, err error) {
	main, err := mapfile.Map(f)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the model: %w", err)
	}
	defer func() {
		if err == nil {
			return
		}
		if changed := main.Check(); changed != nil {
			err = changed // so its faults are meaningless
		}
		_ = main.Close() // the error of the file counts
	}()
	defer mapfile.Guard(&err)()
	if m, err = decode(main.Data, path, files); err == nil {
		err = main.Check()
	}
	if err != nil {
		return nil, nil, err
	}
	return m, files.closer(main), nil
}

// closer releases a model's file and its external data.
func (x *externals) closer(main *mapfile.File) *Opened {
	return &Opened{main: main, files: x}
}

// Opened holds the files of a model's contents: its own, and those of its external data.
type Opened struct {
	main  *mapfile.File
	files *externals
}

// External lists the files of external data that the model refers to, by their paths.
func (m *Opened) External() []string {
	var paths []string
	for _, location := range m.files.named {
		if m.files.dir != "" {
			paths = append(paths, m.files.pathOf(location))
		}
	}
	return paths
}

// Close releases the mappings; the model is not to be used afterwards.
func (m *Opened) Close() error {
	err := errors.Join(m.files.close(), m.main.Close())
	m.main = nil
	return err
}

// Read reads a model from a stream, all of it; more than [MaxStreamBytes] is an
// error. name has the meaning that path has for [Decode]: give "-" for a model
// without a folder.
func Read(r io.Reader, name string) (*graph.Model, error) {
	return read(r, name, newExternals(name), MaxStreamBytes)
}

// longestTag is the most bytes of the tag of a field.
const longestTag = 10

func read(r io.Reader, name string, files *externals, limit int64) (*graph.Model, error) {
	// A stream that does not begin like a model is not read to its end, which may never come.
	head := bufio.NewReader(r)
	if start, _ := head.Peek(longestTag); len(start) == longestTag {
		if _, _, n := protowire.ConsumeTag(start); n < 0 {
			all, _ := head.Peek(head.Buffered())
			return decode(all, name, files)
		}
	}
	data, err := inputfile.ReadAll(head, 0, limit)
	if large := (*inputfile.SizeError)(nil); errors.As(err, &large) {
		return nil, fmt.Errorf("reading the model %s: it has more than %d bytes, which a stream cannot have; give "+
			"the path of a file", name, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the model %s: %w", name, err)
	}
	return decode(data, name, files)
}
