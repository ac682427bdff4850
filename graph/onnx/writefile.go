package onnx

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"memopt/graph"
	"memopt/internal/fileio"
	"memopt/internal/mapfile"
)

// Options says how WriteFile stores tensors. The zero value leaves every tensor
// where the input had it.
type Options struct {
	// ExternalDataThreshold is the least size in bytes of an initializer that is stored outside the
	// model, in a file with the model's name and ".data" added; 0 means that all stay in the model.
	// Attributes' tensors and strings always stay in the model.
	ExternalDataThreshold int64
	// Apart copies external data that the model has to the output's own, also where the output lies in
	// the model's folder: it does not need the old file then.
	Apart bool
	// Check, if not nil, is called for each file before anything is written; its error ends the
	// write.
	Check func(path string) error
}

// ErrInput says that a write would replace a file that the model was read from.
var ErrInput = errors.New("the output would overwrite an input of the model; choose another name")

// WriteFile writes the model to a file, as package fileio says: whole or not at all. A model with
// data in a file beside it appears with it, and where it takes the place of an older pair, the old
// pair or the new one is there whenever the process is killed ([fileio.Pair]). A file that the
// model was read from, or external data that it refers to, is never replaced (ErrInput); other
// existing files are.
//
// External data stays where it is when the output lies in the model's own folder (but see Options.Apart).
// Otherwise the parts that the model uses are copied to a file beside the output, named as the output with
// ".data" added, so that the output can be read. It is copied from file to file and takes no memory.
//
// A device, a pipe or a descriptor (/dev/stdout) is written to directly.
//
// The error is a *mapfile.ChangedError if a file that is read for it has changed since it was
// mapped; the output is then not kept.
func WriteFile(path string, m *graph.Model, opts Options) (err error) {
	defer func() {
		// Errors that follow from it are meaningless: the system reports "bad address" for a write
		// from a mapping that has become shorter.
		if changed := mapfile.Check(); err != nil && changed != nil {
			err = changed
		}
	}()
	defer mapfile.Guard(&err)()
	move := newMover(path, m, opts)
	defer move.from.close()
	e, err := encode(m, move)
	if err != nil {
		return err
	}
	if len(move.chunks) > 0 && !fileio.Replaceable(path) {
		return fmt.Errorf("cannot write the model to %s: it has external data, which needs a file beside it; give "+
			"the name of a regular file", path)
	}
	outputs := []string{path}
	if len(move.chunks) > 0 {
		outputs = append(outputs, path+dataSuffix)
	}
	for _, o := range outputs {
		if err := move.checkInput(o, m.Path); err != nil {
			return err
		}
		if opts.Check != nil {
			if err := opts.Check(o); err != nil {
				return err
			}
		}
	}
	if len(outputs) == 1 {
		return fileio.Write(path, unchanged(e.writeTo))
	}
	pair := fileio.Pair{Main: path, Data: path + dataSuffix, WriteData: unchanged(move.writeData),
		WriteMain: func(w io.Writer, data string) error {
			if data == move.name {
				return unchanged(e.writeTo)(w)
			}
			other := newMover(path, m, opts)
			defer other.from.close()
			other.name = data
			e, err := encode(m, other)
			if err != nil {
				return err
			}
			return unchanged(e.writeTo)(w)
		}}
	return pair.Write()
}

// unchanged is a function that writes, and fails where a file that it may have read from has
// changed since it was mapped.
func unchanged(write func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		if err := write(w); err != nil {
			return err
		}
		return mapfile.Check()
	}
}

// dataSuffix is added to a model's name to make that of its data.
const dataSuffix = ".data"

func newMover(path string, m *graph.Model, opts Options) *mover {
	return &mover{
		name:      filepath.Base(path) + dataSuffix,
		threshold: opts.ExternalDataThreshold,
		sameDir:   !opts.Apart && sameFolder(path, m.Path),
		from:      newExternals(m.Path),
		used:      map[string]bool{},
		moved:     map[graph.External]int64{},
	}
}

// sameFolder reports whether two files lie in one folder. A stream is in no folder.
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
