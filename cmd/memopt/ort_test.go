package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/cmd/memopt/internal/runcmd"
	"memopt/executor/ort/ortengine"
	"memopt/graph/onnx"
	"memopt/internal/fileio"
)

// stock is what sets ONNX Runtime apart.
var stock = new(ortengine.Engine).Traits()

// TestORTFile holds the file that ONNX Runtime is given to the one that apply writes.
func TestORTFile(t *testing.T) {
	for _, args := range [][]string{
		{"example:mlp", "--level", "1", "--dim", "batch=4096"},
		// Regions in parts, which the runtime is given where asked to, and their anchors.
		{"example:mlp", "--budget", "60%", "--chunk", "exact", "--effort", "0.1", "--time-limit", "5m", "--dim",
			"batch=4096"},
		{"example:mlp", "--budget", "70%", "--budget-in", "ort", "--time-limit", "0", "--dim", "batch=4096"},
		{"example:transformer", "--level", "1", "--dim", "batch=2,seq=16"},
		{"example:transformer", "--budget", "90%", "--chunk", "off", "--time-limit", "0", "--dim", "batch=8,seq=256"},
	} {
		out := filepath.Join(t.TempDir(), "out.onnx")
		require.Zero(t,
			run(append([]string{"apply", "-o", out, "-q"}, args...),
				cli.Stdio{In: nil, Out: io.Discard, Err: os.Stderr}, os.Environ()))
		a := &cli.App{Stdio: cli.Stdio{In: nil, Out: io.Discard, Err: os.Stderr}, Ctx: t.Context(),
			Files: &fileio.Ledger{}}
		var sel option.SelectionFlags
		ex := option.ExecFlags{EngineFlags: option.EngineFlags{Backend: cli.OrtName}, Differentiate: true}
		flags := pflag.NewFlagSet("verify", pflag.ContinueOnError)
		sel.RegisterGraph(flags)
		flags.StringArrayVar(&a.Global.Dims, "dim", nil, "")
		require.NoError(t, flags.Parse(args[1:]))
		a.Limited(flags)
		t.Cleanup(a.StopClock)
		a.Global.Quiet = true
		x, err := runcmd.PrepareExecution(a, args[0], &sel, &ex, stock, option.Planning{})
		require.NoError(t, err)
		require.True(t, x.Changed(), "%v", args)
		m := x.Planned.Model
		given := filepath.Join(t.TempDir(), "given.onnx")
		o := onnx.Options{ExternalDataThreshold: ortengine.ExternalData(m.Graph)}
		require.NoError(t, a.WriteModel("--out", given, m, o))
		want, err := os.ReadFile(out)
		require.NoError(t, err)
		got, err := os.ReadFile(given)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%v", args)
	}
}
