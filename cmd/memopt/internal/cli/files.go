package cli

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/internal/fileio"
)

// ReadsFiles describes the arguments of verbs that read files.
var ReadsFiles = map[string]string{"plan": "the model", "apply": "the model", "grad": "the model", "run": "the model",
	"train": "the model", "estimate": "the model", "fit": "the model", "explain": "the model",
	"trace": "the model", "report": "the model",
	"optimize": "the model", "quantize": "the model",
	"verify": "a model", "diff": "a side", "inspect": "the model",
	"export": "the checkpoint", "sweep": "the grid", "solve": "the instance", "pack": "the buffers",
	"check": "a file"}

// The flags whose values are files, or folders of files. A test looks for others.
var (
	InputFlags = []string{"config", "plan", "cost", "device", "aliases", "data-dir", "model", "mpi-library",
		"module-map", "trace"}
	OutputFlags = []string{"out", "apply-out", "save-config", "save-plan", "save-steps", "save-instance",
		"save-outputs", "profile", "plot", "moments"}
)

// writesFolder has the verbs whose --out is a folder, which they announce, or package checkpoint keeps.
var writesFolder = map[string]bool{"train": true, "sweep": true, "man": true}

// namesBehind has the verbs whose arguments behind the first are names in the model.
var namesBehind = map[string]bool{"explain": true}

// StreamName is the argument that stands for standard input or output.
const StreamName = "-"

// announceFiles notes all files that the command line names before any of them is read or written,
// so that no input is overwritten under any name, and no hour is spent on an output that cannot be
// written. Files that these refer to, external data and folders of data, are noted when they are
// found.
func (a *App) announceFiles(cmd *cobra.Command, args []string) error {
	if what, ok := ReadsFiles[cmd.Name()]; ok {
		if namesBehind[cmd.Name()] {
			args = args[:min(1, len(args))]
		}
		for _, path := range args {
			if err := a.Reads(what, path); err != nil {
				return err
			}
		}
	}
	for _, name := range InputFlags {
		if path := flagValue(cmd, name); path != "" {
			if err := a.Reads("--"+name, path); err != nil {
				return err
			}
		}
	}
	for _, name := range OutputFlags {
		if path := flagValue(cmd, name); path != "" && path != StreamName && !writesFolder[cmd.Name()] {
			if err := a.Writes("--"+name, path); err != nil {
				return err
			}
		}
	}
	return nil
}

func flagValue(cmd *cobra.Command, name string) string {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// Reads notes an input.
func (a *App) Reads(what, path string) error {
	var err error
	switch {
	case strings.HasPrefix(path, memopt.ExamplePrefix):
	case path == StreamName:
		if f, ok := a.In.(*os.File); ok {
			err = a.Files.InputFile("standard input", f)
		}
	default:
		err = a.Files.Input(what, path)
	}
	return refused(err)
}

// Writes announces an output.
func (a *App) Writes(what, path string) error { return refused(a.Files.Output(what, path)) }

func refused(err error) error {
	if err == nil {
		return nil
	}
	return &ExitError{ExitUsage, err}
}

// Spare keeps messages off a stream that goes to an input: they go to the other stream, or are
// dropped.
func (a *App) Spare(streams Stdio, err error) {
	var e *fileio.StreamError
	if !errors.As(err, &e) || !concerns(e, streams.Err) {
		return
	}
	a.Err = io.Discard
	if !concerns(e, streams.Out) {
		a.Err = streams.Out
	}
}

func concerns(e *fileio.StreamError, stream io.Writer) bool {
	f, ok := stream.(*os.File)
	return ok && e.Concerns(f)
}

// NoteStreams notes where standard output and error go.
func (a *App) NoteStreams(streams Stdio) {
	for _, s := range []struct {
		name string
		w    io.Writer
	}{{"standard output", streams.Out}, {"standard error", streams.Err}} {
		if f, ok := s.w.(*os.File); ok {
			a.Files.Stream(s.name, f)
		}
	}
}

// PathFlags are flags that may be paths, beside the files that inputFlags and outputFlags list.
var PathFlags = []string{"data", "eval-data", "init", "resume", "host-dir"}
