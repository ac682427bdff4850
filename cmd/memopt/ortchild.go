package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"memopt/executor/ort"
	"memopt/executor/ort/ortengine"
)

// ortName is the value of -e that means ONNX Runtime.
const ortName = ortengine.Name

// ortChildVerb is the verb of the second process. It is not for users; the environment marks that
// memopt started it, with the pipes that it needs.
const (
	ortChildVerb = "ort-child"
	ortChildMark = "MEMOPT_STARTED_ORT_CHILD"
)

func ortProgram(path string) ort.Program {
	return ort.Program{Path: path, Args: []string{"memopt", ortChildVerb}, Env: []string{ortChildMark + "=1"}}
}

func (a *app) ortChildCommand() *cobra.Command {
	return &cobra.Command{
		Use:    ortChildVerb,
		Short:  "Run models in ONNX Runtime on behalf of the parent process",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, ok := a.env(ortChildMark); !ok {
				return usage("memopt %s is started by memopt itself, for -e ort", ortChildVerb)
			}
			if code := ort.Serve(os.Stdin, os.NewFile(3, "answers")); code != 0 {
				return &exitError{code, errors.New("ONNX Runtime's process failed")}
			}
			return nil
		},
	}
}
