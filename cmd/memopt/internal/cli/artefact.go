package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"memopt"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/internal/fileio"
	"memopt/view/report"
)

// WriteArtefact writes a file that a verb makes, which a flag names.
func (a *App) WriteArtefact(flag, path string, data []byte) error {
	if path == StreamName {
		_, err := a.Out.Write(data)
		return err
	}
	if err := a.Writes(flag, path); err != nil {
		return err
	}
	if err := fileio.WriteFile(path, data); err != nil {
		return Usage("%w", err)
	}
	a.Files.Written(flag, path)
	return nil
}

// StreamArtefact writes a file that a verb makes piece by piece, which a flag names.
func (a *App) StreamArtefact(flag, path string, write func(io.Writer) error) error {
	if path == StreamName {
		return writeFault(flag, write(a.Out))
	}
	if err := a.Writes(flag, path); err != nil {
		return err
	}
	if err := fileio.Write(path, write); err != nil {
		return writeFault(flag, err)
	}
	a.Files.Written(flag, path)
	return nil
}

// writeFault gives an error of writing what a flag names its code: usage, unless it is one of what
// is written.
func writeFault(flag string, err error) error {
	var fault *memopt.Error
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, &fault) {
		return Classify(err)
	}
	return Usage("%w", fmt.Errorf("%s: %w", flag, err))
}

// ParseThreshold reads the size of --external-data; "" is no threshold.
func ParseThreshold(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := report.ParseBytes(text)
	if err != nil || n <= 0 {
		return 0, Usage("--external-data %q: wanted a positive size such as 1MiB or 4096", text)
	}
	return n, nil
}

// Wrap puts the model's name in front of an error, once.
func Wrap(name string, err error) error {
	if strings.HasPrefix(err.Error(), name) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

func (a *App) WriteModel(flag, out string, m *graph.Model, opts onnx.Options) error {
	var err error
	if out == StreamName {
		err = onnx.Write(a.Stdio.Out, m)
	} else {
		opts.Check = func(path string) error { return a.Files.Output(flag, path) }
		err = onnx.WriteFile(out, m, opts)
	}
	if err != nil {
		return FileError("%w", err)
	}
	return nil
}
