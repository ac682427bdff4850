package onnx

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"memopt/graph"
	"memopt/internal/cleanup"
)

// Options says how WriteFile stores tensors. The zero value leaves every tensor
// where the input had it.
type Options struct {
	// ExternalDataThreshold is the size in bytes from which on an initializer is
	// stored outside the model, in a file with the model's name and ".data" added;
	// 0 moves none there. Attributes' tensors and strings always stay in the model.
	ExternalDataThreshold int64
}

// ErrInput says that a write would replace a file that the model was read from.
var ErrInput = errors.New("the output would overwrite an input of the model; choose another name")

// WriteFile writes the model to a file. The file appears whole or not at all: it
// is written under a temporary name in the same folder, flushed to the disk and
// renamed. Of a model with a file of data beside it both appear or none, in place of
// an older pair; where the process is killed right between, there is no model at all
// and what was there before lies beside it under a temporary name: never does a
// model stand beside the data of another. A file that the model was read from, or external data that it refers
// to, is never replaced (ErrInput); other existing files are.
//
// External data stays where it is when the output lies in the model's own
// folder. Otherwise what the model uses of it is copied to a file beside the output,
// named as the output with ".data" added, so that the output can be read. It is copied
// from file to file and takes no memory.
//
// A path that is a device or a pipe is written to directly.
func WriteFile(path string, m *graph.Model, opts Options) error {
	move := newMover(path, m, opts)
	defer move.from.close()
	e, err := encode(m, move)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("cannot write the model: %s is a directory; give the name of a file", path)
	case err == nil && !info.Mode().IsRegular():
		return writeDevice(path, e)
	}
	outputs := []output{{path, e.writeTo}}
	if len(move.chunks) > 0 {
		// The data comes first, so that no model ever refers to missing data.
		outputs = slices.Insert(outputs, 0, output{path + ".data", move.writeData})
	}
	for _, o := range outputs {
		if err := move.checkInput(o.path, m.Path); err != nil {
			return err
		}
	}
	return writeAll(outputs)
}

func newMover(path string, m *graph.Model, opts Options) *mover {
	return &mover{
		name:      filepath.Base(path) + ".data",
		threshold: opts.ExternalDataThreshold,
		sameDir:   sameFolder(path, m.Path),
		from:      newExternals(m.Path),
		used:      map[string]bool{},
		moved:     map[graph.External]int64{},
	}
}

// sameFolder reports whether two files lie in one folder. A stream lies in none.
func sameFolder(a, b string) bool {
	if a == "" || b == "" || a == streamName || b == streamName {
		return false
	}
	return sameFile(filepath.Dir(a), filepath.Dir(b))
}

// sameFile reports whether both paths lead to one file that exists.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// checkInput refuses an output that is an input.
func (m *mover) checkInput(output, model string) error {
	if model == "" || model == streamName {
		return nil
	}
	if sameFile(output, model) {
		return fmt.Errorf("%s: %w", output, ErrInput)
	}
	for location := range m.used {
		if sameFile(output, filepath.Join(filepath.Dir(model), location)) {
			return fmt.Errorf("%s: %w", output, ErrInput)
		}
	}
	return nil
}

func writeDevice(path string, e *encoder) error {
	if len(e.move.chunks) > 0 {
		return fmt.Errorf("cannot write the model to %s: it has external data, which needs a file beside it; give the name of a regular file", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("cannot write the model: %w", err)
	}
	err = e.writeTo(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("cannot write the model: %w", err)
	}
	return nil
}

// output is a file to be written and what writes its contents.
type output struct {
	path  string
	write func(io.Writer) error
}

// writeAll writes all files under temporary names and then gives them their own. After an error all is as it was.
func writeAll(outputs []output) error {
	var temps []string
	for _, o := range outputs {
		name, temp, err := writeTemp(o)
		defer temp.Undo() // gone already where the rename succeeded
		if err != nil {
			return fmt.Errorf("cannot write %s: %w", o.path, err)
		}
		temps = append(temps, name)
	}
	if err := cleanup.Whole(func() error { return place(outputs, temps) }); err != nil {
		return err
	}
	syncFolder(filepath.Dir(outputs[0].path))
	return nil
}

// place gives the temporary files their names, in order. What has such a name already is set aside first, from the
// last to the first, and comes back after an error.
func place(outputs []output, temps []string) (err error) {
	aside := make([]string, len(outputs))
	placed := 0
	defer func() {
		for i, o := range outputs {
			switch {
			case err != nil && aside[i] != "":
				os.Rename(aside[i], o.path)
			case err != nil && i < placed:
				os.Remove(o.path)
			case aside[i] != "":
				os.Remove(aside[i])
			}
		}
	}()
	for i := len(outputs) - 1; i >= 0 && len(outputs) > 1; i-- { // a single rename replaces a file by itself
		info, err := os.Lstat(outputs[i].path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil && info.IsDir() {
			err = errors.New("is a directory")
		}
		if err == nil {
			aside[i], err = moveAside(outputs[i].path)
		}
		if err != nil {
			return fmt.Errorf("cannot write %s: %w", outputs[i].path, err)
		}
	}
	for i, o := range outputs {
		if err := os.Rename(temps[i], o.path); err != nil {
			return fmt.Errorf("cannot write %s: %w", o.path, err)
		}
		placed++
	}
	return nil
}

// moveAside gives a file a temporary name.
func moveAside(path string) (string, error) {
	f, err := createTemp(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	name := f.Name()
	f.Close()
	if err := os.Rename(path, name); err != nil {
		os.Remove(name)
		return "", err
	}
	return name, nil
}

// writeTemp writes a file beside the output and flushes it to the disk.
func writeTemp(o output) (name string, temp cleanup.Item, err error) {
	f, temp, err := cleanup.File(func() (*os.File, error) { return createTemp(filepath.Dir(o.path)) })
	if err != nil {
		return "", temp, err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	if err := o.write(f); err != nil {
		return f.Name(), temp, err
	}
	return f.Name(), temp, f.Sync()
}

// createTemp is os.CreateTemp with the permissions that an ordinary file gets.
func createTemp(dir string) (*os.File, error) {
	const attempts = 1000
	var err error
	for range attempts {
		name := filepath.Join(dir, fmt.Sprintf(".memopt-%08x.tmp", rand.Uint32()))
		var f *os.File
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil || !errors.Is(err, os.ErrExist) {
			return f, err
		}
	}
	return nil, err
}

// syncFolder makes the new names durable, where the system can do that.
func syncFolder(dir string) {
	if f, err := os.Open(dir); err == nil {
		_ = f.Sync() // some file systems cannot; the files themselves are flushed
		f.Close()
	}
}
