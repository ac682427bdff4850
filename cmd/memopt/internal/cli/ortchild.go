package cli

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"memopt/executor/ort"
	"memopt/executor/ort/ortengine"
)

// OrtName is the value of -e that means ONNX Runtime.
const OrtName = ortengine.Name

// OrtChildVerb is the verb of the second process. It is not for users; the environment marks that
// memopt started it, with the pipes that it needs.
const (
	OrtChildVerb = "ort-child"
	ortChildMark = "MEMOPT_STARTED_ORT_CHILD"
)

func OrtProgram(path string) ort.Program {
	return ort.Program{Path: path, Args: []string{"memopt", OrtChildVerb}, Env: []string{ortChildMark + "=1"}}
}

func (a *App) OrtChildCommand() *cobra.Command {
	return &cobra.Command{
		Use:    OrtChildVerb,
		Short:  "Run models in ONNX Runtime on behalf of the parent process",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, ok := a.Env(ortChildMark); !ok {
				return Usage("memopt %s is started by memopt itself, for -e ort", OrtChildVerb)
			}
			if code := ort.Serve(os.Stdin, os.NewFile(3, "answers")); code != 0 {
				return &ExitError{code, errors.New("ONNX Runtime's process failed")}
			}
			return nil
		},
	}
}
