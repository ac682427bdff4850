//go:build linux && (amd64 || arm64) && !nodl

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/option"
	"memopt/cmd/memopt/internal/runcmd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/ort"
	"memopt/executor/ort/ortengine"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/internal/fileio"
)

// TestORTStates trains in ONNX Runtime and on the CPU: after several steps losses, weights and
// moments agree; at the basic level a rewritten step gives the bits of the step as it is; all
// states are written over the old values, and the peaks are those of the simulation, which knows
// that the arena has no next values. Operators that run side by side change nothing.
func TestORTStates(t *testing.T) {
	needORT(t)
	optimizers := map[string][]string{"mlp": {"adamw", "--dim", "batch=128"},
		"convolutions": {"sgd", "--momentum", "0.9"}, "attention": {"adamw", "--max-grad-norm", "1"}}
	for _, f := range ortFamilies {
		optimizer := optimizers[f.name]
		if optimizer == nil {
			continue // the runtime draws other masks; as the others, for more time
		}
		t.Run(f.name, func(t *testing.T) {
			selection := slices.Concat(f.selection, []string{"--learning-rate", "1e-5", "--optimizer"}, optimizer)
			args := familyArgs(t, f.name, f.inputs, f.dims, f.nodes, selection)
			agree(t, ortExecution(t, args[1], "", slices.Concat(args[2:4], args[slices.Index(args, "json")+1:])))
			args = append(args, "-r", "3", "--mem-pattern", "off", "--atol", "1e-4")
			exact := ortPeaks(t, append(args, "--ort-arena", "exact"))
			for i, side := range []string{"baseline", "planned"} {
				require.InEpsilon(t, exact[i].Predicted, exact[i].Measured, 0.03, "%s, live", side)
			}
			ortPeaks(t, append(args, "--ort-opt", "basic", "--bitwise", "on"))
			ortPeaks(t, append(args, "--ort-opt", "disable", "--ort-execution", "parallel"))
		})
	}
}

// agree holds steps of training in the runtime to steps that are given what the step before has
// made, and to the same steps on the CPU.
func agree(t *testing.T, x *runcmd.Execution) {
	t.Helper()
	a := &cli.App{Ctx: t.Context(), Files: &fileio.Ledger{}}
	a.Global.Quiet = true
	engine, err := option.OrtEngine(a)
	require.NoError(t, err)
	o := verify.Options{Engine: engine, Repeat: 4, Warmup: 2, Session: executor.Options{Threads: 1}}
	got, err := x.Run(t.Context(), o)
	require.NoError(t, err)
	st := got.Runtime.States
	require.NotNil(t, st)
	require.Positive(t, st.InPlace)
	require.LessOrEqual(t, st.SecondBytes, int64(4), "%s: %s", st.Input, st.Why) // scalars cannot be held back
	o.Engine = verify.On(cpu.Device{})
	want, err := x.Run(t.Context(), o)
	require.NoError(t, err)
	for i, w := range want.Outputs {
		requireSame(t, got.Outputs[i], w, 5e-3, "on the CPU")
	}

	states, err := live.FindStates(x.Planned.Model)
	require.NoError(t, err)
	alone := verify.Options{Engine: engine, Independent: true, Session: executor.Options{Threads: 1}}
	var last *verify.Run
	for range o.Repeat {
		last, err = x.Run(t.Context(), alone)
		require.NoError(t, err)
		require.Nil(t, last.Runtime.States)
		g := x.Planned.Model.Graph
		for _, s := range states {
			at := slices.IndexFunc(last.Outputs, func(out verify.Output) bool { return out.Name == g.ValueName(s.Out) })
			x.Inputs[g.ValueName(s.In)] = last.Outputs[at].Tensor
		}
	}
	for i, w := range last.Outputs {
		requireSame(t, got.Outputs[i], w, 1e-6, "by hand")
	}
	require.GreaterOrEqual(t, last.Measured.Arena, got.Measured.Arena)
}

// requireSame holds floats to others within a share of the largest, and all else to its bytes.
func requireSame(t *testing.T, got, want verify.Output, share float64, where string) {
	t.Helper()
	if want.Tensor.DType == graph.Float32 {
		requireNear(t, ort.Named(got), ort.Named(want), share, where)
		return
	}
	require.Equal(t, want.Tensor.Data, got.Tensor.Data, "%s: %s", where, want.Name)
}

// TestORTOwnStates has states of a file that memopt did not make: an initializer, one whose old
// value a leaf reads, one that is read after the place where the file writes the next, and one for
// which only a second buffer will do.
func TestORTOwnStates(t *testing.T) {
	needORT(t)
	const model = `g (float[64, 64] x, float[64, 64] m, float[64, 64] h, float[64] v) => ` +
		`(float[64, 64] w_updated, float[64, 64] m_updated, float[64, 64] h_updated, float[64] v_updated, float y, float z) ` +
		`<float[64, 64] w = {%s}, float c = {0.5}> {
  a = Mul(x, c)  m_updated = Sub(m, a)  b = MatMul(m, x)  d = Tanh(b)  y = ReduceSum<keepdims = 0>(d)
  w_updated = Mul(w, c)
  h_updated = MatMul(h, x)
  v_updated = Add(v, c)  e = Exp(v)  z = ReduceSum<keepdims = 0>(e) }`
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+
		fmt.Sprintf(model, strings.TrimSuffix(strings.Repeat("0.25, ", 64*64), ", ")), "own")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "own.onnx")
	require.NoError(t, onnx.WriteFile(path, m, onnx.Options{}))
	x := ortExecution(t, path, "", []string{"--params", "x"})
	a := &cli.App{Ctx: t.Context(), Files: &fileio.Ledger{}}
	engine, err := option.OrtEngine(a)
	require.NoError(t, err)
	for _, level := range []ort.Level{ort.Disable, ort.Basic, ort.All} {
		engine.(*ortengine.Engine).Options.Optimization = level
		o := verify.Options{Engine: engine, Repeat: 3, Session: executor.Options{Threads: 1}}
		got, err := x.Run(t.Context(), o)
		require.NoError(t, err)
		o.Engine = verify.On(cpu.Device{})
		want, err := x.Run(t.Context(), o)
		require.NoError(t, err)
		for i, w := range want.Outputs {
			requireSame(t, got.Outputs[i], w, 1e-5, string(level))
		}
		st := got.Runtime.States
		require.Equal(t, verify.RuntimeStates{InPlace: 2, InPlaceBytes: 2 * 64 * 64 * 4, Second: 2,
			SecondBytes: 64*64*4 + 64*4, Input: "h", Why: st.Why, Waiting: 5}, *st)
		require.Contains(t, st.Why, "(MatMul) reads the old value, and is not known to write over it")
	}
}
