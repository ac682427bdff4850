//go:build linux && (amd64 || arm64) && !nodl

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/plancmd"
	"memopt/executor/ort"
	"memopt/executor/ort/ortengine"
	"memopt/graph/onnx"
	"memopt/internal/fileio"
	"memopt/planner"
)

// TestTryStock opens a file that apply writes in stock ONNX Runtime: a file that it refuses is warned about,
// unless it refuses the graph as it was, too.
func TestTryStock(t *testing.T) {
	needORT(t)
	rewritten := func() (*cli.App, *bytes.Buffer, *memopt.Rewritten) {
		m, err := memopt.Example("mlp", memopt.Options{Dims: map[string]int64{"batch": 64}})
		require.NoError(t, err)
		p, err := m.Plan(t.Context(), planner.Layerwise, memopt.PlanOptions{})
		require.NoError(t, err)
		r, err := p.Rewrite(memopt.RewriteOptions{Stock: true})
		require.NoError(t, err)
		said := &bytes.Buffer{}
		return &cli.App{Stdio: cli.Stdio{In: nil, Out: io.Discard, Err: said}, Ctx: t.Context(),
			Files: &fileio.Ledger{}}, said, r
	}
	try := func(a *cli.App, r *memopt.Rewritten) {
		file := filepath.Join(t.TempDir(), "out.onnx")
		require.NoError(t, onnx.WriteFile(file, r.Model, onnx.Options{}))
		plancmd.TryStock(a, file, r)
	}
	a, said, r := rewritten()
	try(a, r)
	require.Empty(t, said.String())

	a, said, r = rewritten()
	r.Model.Graph.Nodes[0].Op = "NoSuchThing"
	try(a, r)
	require.Regexp(t, `stock ONNX Runtime [0-9.]+ takes the graph as it was, but not the file: .*NoSuchThing`, said)
	said.Reset()
	plancmd.TryStock(a, cli.StreamName, r)
	require.Contains(t, said.String(), "NoSuchThing")

	said.Reset()
	r.By.Of.Graph.Nodes[0].Op = "NoSuchThing"
	try(a, r)
	require.Empty(t, said.String())

	said.Reset()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.Ctx = ctx
	try(a, r)
	require.Empty(t, said.String(), "interrupted")
}

// TestRefusedBy tells refusals of a file from failures of the runtime.
func TestRefusedBy(t *testing.T) {
	refusal := &ortengine.Error{Err: &ort.RuntimeError{Phase: ort.PhaseOpen, Message: "no such thing"}}
	require.Equal(t, refusal, plancmd.RefusedBy(refusal))
	crash := &ortengine.Error{Err: &ort.CrashError{Cause: "signal SIGSEGV", While: "loaded the model"}}
	require.Equal(t, crash, plancmd.RefusedBy(crash))
	for _, err := range []error{nil, context.DeadlineExceeded, errors.New("a file is gone"),
		&ortengine.Error{Err: &ort.MissingError{}}, &ortengine.Error{Err: &ort.CrashError{Cause: "signal: killed"}},
	} {
		require.NoError(t, plancmd.RefusedBy(err))
	}
}
