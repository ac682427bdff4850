//go:build linux && (amd64 || arm64) && !nodl

package ort_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/ort"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/graph/op"
)

// start starts a process with the library, or skips.
func start(t *testing.T) *ort.Process {
	t.Helper()
	p, err := ort.Start(t.Context(), program(t, "serve"))
	var missing *ort.MissingError
	if errors.As(err, &missing) {
		t.Skip("ONNX Runtime is missing, which the test runs: npm install --ignore-scripts onnxruntime-node@1.30.0, " +
			"ORT_NODE_DIR names the folder: " + err.Error())
	}
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// parse makes a model of the text of a graph.
func parse(t *testing.T, text string) (*graph.Model, *op.Result) {
	t.Helper()
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> `+text, "test")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	return m, types
}

// made makes up all inputs of a model.
func made(t *testing.T, m *graph.Model) ([]ort.Named, map[string]*executor.Tensor) {
	t.Helper()
	filler := dataset.NewFiller(m.Graph, nil, 1)
	var list []ort.Named
	byName := map[string]*executor.Tensor{}
	for _, d := range m.Graph.Inputs {
		v, err := filler.Fill(d.Value)
		require.NoError(t, err)
		name := m.Graph.Values[d.Value].Name
		list, byName[name] = append(list, ort.Named{Name: name, Tensor: v}), v
	}
	return list, byName
}

// write writes a model's file.
func write(t *testing.T, dir string, m *graph.Model, o onnx.Options) string {
	t.Helper()
	path := filepath.Join(dir, "model.onnx")
	require.NoError(t, onnx.WriteFile(path, m, o))
	return path
}

// step runs a model once in a process and returns its outputs.
func step(t *testing.T, p *ort.Process, path string, inputs []ort.Named, o ort.Options) []ort.Named {
	t.Helper()
	dir := t.TempDir()
	files, err := ort.WriteInputs(dir, inputs)
	require.NoError(t, err)
	_, err = p.Open(path, o, files, nil)
	require.NoError(t, err)
	_, err = p.Step()
	require.NoError(t, err)
	out, err := p.Outputs(dir)
	require.NoError(t, err)
	return out
}

// TestValues holds the runtime's outputs to the reference device's.
func TestValues(t *testing.T) {
	for name, text := range map[string]string{
		"float": `g (float[3, 4] x, float[4, 5] w) => (float[3, 5] y, float[3, 5] s, int64[3] a, float l) {
			y = MatMul(x, w)  s = Softmax(y)  a = ArgMax<axis = 1, keepdims = 0>(s)  l = ReduceSum<keepdims = 0>(s) }`,
		"double":  `g (double[7] x) => (double[7] y) { y = Exp(x) }`,
		"half":    `g (float16[6] x) => (float16[6] y, float[6] f) { y = Neg(x)  f = Cast<to = 1>(x) }`,
		"bfloat":  `g (float[6] x) => (bfloat16[6] y) { y = Cast<to = 16>(x) }`,
		"ints":    `g (int32[5] i, int64[5] k) => (int32[5] a, int64[5] b, uint8[5] c, int8[5] d) { a = Add(i, i)  b = Mul(k, k)  c = Cast<to = 2>(i)  d = Cast<to = 3>(i) }`,
		"more":    `g (int32[5] i) => (int16[5] a, uint16[5] b, uint32[5] c, uint64[5] d) { a = Cast<to = 5>(i)  b = Cast<to = 4>(i)  c = Cast<to = 12>(i)  d = Cast<to = 13>(i) }`,
		"bool":    `g (float[4] x, bool[4] m) => (bool[4] y, bool[4] z) { a = Relu(x)  y = Greater(x, a)  z = Not(m) }`,
		"empty":   `g (float[0, 3] x, float s) => (float[0, 3] y, float t) { y = Neg(x)  t = Neg(s) }`,
		"through": `g (float[3] x) => (float[3] y) { y = Identity(x) }`,
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t)
			m, types := parse(t, text)
			inputs, byName := made(t, m)
			want, err := verify.Execute(t.Context(), verify.Side{Model: m, Types: types}, byName,
				verify.Options{Engine: verify.On(cpu.Device{})})
			require.NoError(t, err)
			got := step(t, p, write(t, t.TempDir(), m, onnx.Options{}), inputs, ort.Options{})
			require.Len(t, got, len(want.Outputs))
			for i, w := range want.Outputs {
				require.Equal(t, w.Name, got[i].Name)
				d, _ := verify.Compare(w.Name, got[i].Tensor, w.Tensor, verify.DefaultTolerance)
				require.Nil(t, d, "%v", d)
			}
		})
	}
}

// TestExternalData runs a model whose weights lie in a file of their own, at every level.
func TestExternalData(t *testing.T) {
	m, _ := parse(t, `g (float[2, 3] x) => (float[2, 3] y) <float[3] w = {1, 2, 3}> { y = Mul(x, w) }`)
	dir := t.TempDir()
	path := write(t, dir, m, onnx.Options{ExternalDataThreshold: 1})
	require.FileExists(t, path+".data")
	x := executor.NewTensor[float32](graph.Float32, []int{2, 3}, 1, 2, 3, 4, 5, 6)
	for _, l := range []ort.Level{ort.Disable, ort.Basic, ort.Extended, ort.All} {
		out := step(t, start(t), path, []ort.Named{{Name: "x", Tensor: x}}, ort.Options{Optimization: l, Threads: 1})
		require.Equal(t, []float32{1, 4, 9, 4, 10, 18}, executor.Of[float32](out[0].Tensor), "%s", l)
	}
}

// chain is a graph of which three values of n floats are alive at once: an output of the graph
// never takes the place of an operand in ONNX Runtime.
func chain(n string) string {
	return `g (float[` + n + `] x) => (float[` + n + `] y) { a = Exp(x)  b = Softmax(a)  y = Mul(a, b) }`
}

// TestArena measures a graph whose peak is known.
func TestArena(t *testing.T) {
	const n = 1 << 20
	m, _ := parse(t, chain("1048576"))
	inputs, _ := made(t, m)
	p := start(t)
	dir := t.TempDir()
	files, err := ort.WriteInputs(dir, inputs)
	require.NoError(t, err)
	opened, err := p.Open(write(t, dir, m, onnx.Options{}), ort.Options{Threads: 1}, files, nil)
	require.NoError(t, err)
	require.True(t, opened.Arena.Known)
	s, err := p.Step()
	require.NoError(t, err)
	require.Positive(t, s.Nanoseconds)
	require.EqualValues(t, 3*4*n, s.Arena.MaxInUse-opened.Arena.InUse)
	require.EqualValues(t, 4*n, s.Arena.InUse-opened.Arena.InUse, "the output lives")
	require.Greater(t, s.Resident-opened.Resident, int64(3*4*n*9/10))
	again, err := p.Step()
	require.NoError(t, err)
	require.GreaterOrEqual(t, again.Arena.MaxInUse, s.Arena.MaxInUse)
}

// TestExactArena counts live bytes, each value rounded up to a multiple of 256, where chunks are
// split to fit; else the arena may count more, never less.
func TestExactArena(t *testing.T) {
	const n, values = 1000001, 3
	m, _ := parse(t, chain("1000001"))
	inputs, _ := made(t, m)
	path := write(t, t.TempDir(), m, onnx.Options{})
	files, err := ort.WriteInputs(t.TempDir(), inputs)
	require.NoError(t, err)
	want := int64(values * ((4*n + 255) / 256 * 256))
	for _, split := range []bool{true, false} {
		p := start(t)
		opened, err := p.Open(path, ort.Options{Threads: 1, Split: split}, files, nil)
		require.NoError(t, err)
		s, err := p.Step()
		require.NoError(t, err)
		got := s.Arena.MaxInUse - opened.Arena.InUse
		require.GreaterOrEqual(t, got, want)
		if split {
			require.Equal(t, want, got)
		}
	}
}

// TestOptions runs with every option set; without an arena nothing is counted.
func TestOptions(t *testing.T) {
	m, _ := parse(t, chain("4096"))
	inputs, _ := made(t, m)
	path := write(t, t.TempDir(), m, onnx.Options{})
	want := step(t, start(t), path, inputs, ort.Options{})
	for _, o := range []ort.Options{
		{Threads: 2, InterOp: 2, Parallel: true, NoPattern: true,
			Config: []string{"session.intra_op.allow_spinning=0"}},
		{NoArena: true},
		{Exact: true, MemLimit: 1 << 20},
		{Split: true},
	} {
		got := step(t, start(t), path, inputs, o)
		d, _ := verify.Compare("y", got[0].Tensor, want[0].Tensor, verify.DefaultTolerance)
		require.Nil(t, d, "%+v: %v", o, d)
	}
	p := start(t)
	files, err := ort.WriteInputs(t.TempDir(), inputs)
	require.NoError(t, err)
	opened, err := p.Open(path, ort.Options{NoArena: true}, files, nil)
	require.NoError(t, err)
	require.False(t, opened.Arena.Known)
}

// TestMemLimit gives the arena less than the graph needs.
func TestMemLimit(t *testing.T) {
	m, _ := parse(t, chain("1048576"))
	inputs, _ := made(t, m)
	dir := t.TempDir()
	files, err := ort.WriteInputs(dir, inputs)
	require.NoError(t, err)
	p := start(t)
	_, err = p.Open(write(t, dir, m, onnx.Options{}), ort.Options{Exact: true, MemLimit: 5 << 20}, files, nil)
	require.NoError(t, err)
	_, err = p.Step()
	var e *ort.RuntimeError
	require.ErrorAs(t, err, &e)
	require.True(t, e.OutOfMemory(), "%v", err)
}

// TestRefusals wants the runtime's own words where it cannot run a model.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct{ text, says string }{
		"domain": {
			`g (float[2] x) => (float[2] y) { y = com.microsoft.YieldOp<non_differentiable_outputs = [0], full_shape_outputs = [0]>(x) }`,
			"YieldOp",
		},
		"kernel": {`g (bfloat16[2] x) => (bfloat16[2] y) { y = Elu(x) }`, "Elu"},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t)
			m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> `+c.text, "test")
			require.NoError(t, err)
			_, err = p.Open(write(t, t.TempDir(), m, onnx.Options{}), ort.Options{}, nil, nil)
			var e *ort.RuntimeError
			require.ErrorAs(t, err, &e)
			require.Equal(t, ort.PhaseOpen, e.Phase)
			require.ErrorContains(t, err, c.says)
		})
	}
}

// TestBadData gives a model what is no model, inputs of the wrong shape, and none.
func TestBadData(t *testing.T) {
	m, _ := parse(t, chain("16"))
	path := write(t, t.TempDir(), m, onnx.Options{})
	junk := filepath.Join(t.TempDir(), "junk.onnx")
	require.NoError(t, os.WriteFile(junk, []byte("no model"), 0o600))
	_, err := start(t).Open(junk, ort.Options{}, nil, nil)
	var e *ort.RuntimeError
	require.ErrorAs(t, err, &e)
	_, err = start(t).Open(path, ort.Options{Config: []string{"no value"}}, nil, nil)
	require.ErrorContains(t, err, "KEY=VALUE")
	p := start(t)
	_, err = p.Step()
	require.ErrorContains(t, err, "cannot be served")
	_, err = p.Open(path, ort.Options{}, nil, nil)
	require.NoError(t, err)
	_, err = p.Step()
	require.ErrorAs(t, err, &e)
	require.Equal(t, ort.PhaseRun, e.Phase)
	wrong, err := ort.WriteInputs(t.TempDir(),
		[]ort.Named{{Name: "x", Tensor: executor.NewTensor[float32](graph.Float32, []int{3}, 1, 2, 3)}})
	require.NoError(t, err)
	p = start(t)
	_, err = p.Open(path, ort.Options{}, wrong, nil)
	require.NoError(t, err)
	_, err = p.Step()
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, "x")
}

// TestMissing wants an error that says how to get the library, whatever is there in its place.
func TestMissing(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libonnxruntime.so")
	require.NoError(t, os.WriteFile(text, []byte("text"), 0o600))
	for _, c := range []struct{ path, says string }{
		{"/nonexistent/libonnxruntime.so", "cannot be loaded"},
		{text, "cannot be loaded"},
		{filepath.Dir(text), "cannot be loaded"},
		{"libc.so.6", "is not ONNX Runtime"},
		{"libm.so.6", "is not ONNX Runtime"},
	} {
		_, err := ort.Start(t.Context(), program(t, "serve", ort.LibraryVariable+"="+c.path))
		var missing *ort.MissingError
		require.ErrorAs(t, err, &missing, c.path)
		require.ErrorContains(t, err, c.says)
		require.ErrorContains(t, err, "npm install onnxruntime-node")
		require.ErrorContains(t, err, ort.LibraryVariable)
	}
}

// TestCrash wants the caller to outlive a process that dies.
func TestCrash(t *testing.T) {
	for how, says := range map[string]string{
		"kill": "signal: killed", "fault": "SIGABRT", "stranger": "exit status 2; its last " +
			"output: no such verb",
	} {
		_, err := ort.Start(t.Context(), program(t, how))
		var crash *ort.CrashError
		require.ErrorAs(t, err, &crash, how)
		require.ErrorContains(t, err, says)
	}
}

// TestCancel ends a process with its context.
func TestCancel(t *testing.T) {
	start(t)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := ort.Start(ctx, program(t, "serve"))
	require.NoError(t, err)
	defer p.Close()
	cancel()
	_, err = p.Step()
	require.ErrorIs(t, err, context.Canceled)
}

// TestCrashAtStep lets a process die when it is asked for a step: the error says when, and so does
// that of every later request.
func TestCrashAtStep(t *testing.T) {
	start(t).Close()
	p, err := ort.Start(t.Context(), program(t, "kill at a step"))
	require.NoError(t, err)
	defer p.Close()
	m, _ := parse(t, chain("16"))
	inputs, _ := made(t, m)
	files, err := ort.WriteInputs(t.TempDir(), inputs)
	require.NoError(t, err)
	_, err = p.Open(write(t, t.TempDir(), m, onnx.Options{}), ort.Options{}, files, nil)
	require.NoError(t, err)
	for range 2 {
		_, err = p.Step()
		var crash *ort.CrashError
		require.ErrorAs(t, err, &crash)
		require.ErrorContains(t, err, "while it ran a step: signal: killed")
	}
	_, err = p.Outputs(t.TempDir())
	require.ErrorContains(t, err, "signal: killed")
}

// TestManyOutputs fetches hundreds of outputs, each with numbers of its own.
func TestManyOutputs(t *testing.T) {
	const n = 300
	var outputs, nodes strings.Builder
	for i := range n {
		fmt.Fprintf(&outputs, ", float[2] y%d", i)
		fmt.Fprintf(&nodes, "c%d = Constant<value = float[1] {%d}>() y%d = Add(x, c%d) ", i, i, i, i)
	}
	m, _ := parse(t, "g (float[2] x) => ("+outputs.String()[2:]+") { "+nodes.String()+"}")
	x := executor.NewTensor[float32](graph.Float32, []int{2}, 0.25, 0.5)
	out := step(t, start(t), write(t, t.TempDir(), m, onnx.Options{}), []ort.Named{{Name: "x", Tensor: x}},
		ort.Options{})
	require.Len(t, out, n)
	for i, o := range out {
		require.Equal(t, fmt.Sprintf("y%d", i), o.Name)
		require.Equal(t, []float32{float32(i) + 0.25, float32(i) + 0.5}, executor.Of[float32](o.Tensor))
	}
}
