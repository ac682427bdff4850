package main

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

// writeArtefact writes a file that a verb makes, which a flag names.
func (a *app) writeArtefact(flag, path string, data []byte) error {
	if path == streamName {
		_, err := a.out.Write(data)
		return err
	}
	if err := a.writes(flag, path); err != nil {
		return err
	}
	if err := fileio.WriteFile(path, data); err != nil {
		return usage("%w", err)
	}
	a.files.Written(flag, path)
	return nil
}

// streamArtefact writes a file that a verb makes piece by piece, which a flag names.
func (a *app) streamArtefact(flag, path string, write func(io.Writer) error) error {
	if path == streamName {
		return writeFault(flag, write(a.out))
	}
	if err := a.writes(flag, path); err != nil {
		return err
	}
	if err := fileio.Write(path, write); err != nil {
		return writeFault(flag, err)
	}
	a.files.Written(flag, path)
	return nil
}

// writeFault gives an error of writing what a flag names its code: usage, unless it is one of what
// is written.
func writeFault(flag string, err error) error {
	var fault *memopt.Error
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, &fault) {
		return classify(err)
	}
	return usage("%w", fmt.Errorf("%s: %w", flag, err))
}

// parseThreshold reads the size of --external-data; "" is no threshold.
func parseThreshold(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := report.ParseBytes(text)
	if err != nil || n <= 0 {
		return 0, usage("--external-data %q: wanted a positive size such as 1MiB or 4096", text)
	}
	return n, nil
}

// wrap puts the model's name in front of an error, once.
func wrap(name string, err error) error {
	if strings.HasPrefix(err.Error(), name) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

func (a *app) writeModel(flag, out string, m *graph.Model, opts onnx.Options) error {
	var err error
	if out == streamName {
		err = onnx.Write(a.stdio.out, m)
	} else {
		opts.Check = func(path string) error { return a.files.Output(flag, path) }
		err = onnx.WriteFile(out, m, opts)
	}
	if err != nil {
		return fileError("%w", err)
	}
	return nil
}
