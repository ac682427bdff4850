//go:build linux && (amd64 || arm64) && !nodl

package ortengine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/ort"
	"memopt/executor/ort/ortengine"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

// childVariable makes the test program ONNX Runtime's process.
const childVariable = "MEMOPT_TEST_ORT_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	os.Exit(ort.Serve(os.Stdin, os.NewFile(3, "answers")))
}

// engine returns ONNX Runtime, or skips where there is none.
func engine(t testing.TB) *ortengine.Engine {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	e := &ortengine.Engine{Program: ort.Program{Path: path, Args: []string{path},
		Env: []string{childVariable + "=1"}}}
	err = e.Ready(context.Background())
	var missing *ort.MissingError
	if errors.As(err, &missing) {
		t.Skip("ONNX Runtime is missing, which the test runs: npm install --ignore-scripts onnxruntime-node@1.30.0, " +
			"ORT_NODE_DIR names the folder: " + err.Error())
	}
	require.NoError(t, err)
	return e
}

const netText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 64] x, float[64, 256] w1, float[256] b1, float[256, 64] w2, float[64] scale,
	float[B, 64] target) => (float loss) <int64[1] axis = {0}> {
	a = MatMul(x, w1)  h = Add(a, b1)  r = Relu(h)  o = MatMul(r, w2)  v = Unsqueeze(scale, axis)
	s = Mul(o, v)  d = Sub(s, target)  e = Mul(d, d)  loss = ReduceMean<keepdims = 0>(e)
}`

var (
	ctx     = context.Background()
	options = autograd.Options{Losses: []autograd.Loss{{Name: "loss"}},
		Wrt: []string{"w1", "b1", "w2", "scale"}}
	adamw    = autograd.Optimizer{Kind: "adamw", LR: 0.01, WeightDecay: 0.1}
	loss     = resident.StepOptions{Fetch: []string{"loss"}, Watch: []string{"loss"}}
	atBatch8 = symbolic.Env{"B": 8}
)

// side reads a model in text form.
func side(t testing.TB, text string, dims symbolic.Env) verify.Side {
	t.Helper()
	m, err := graph.Parse(text, "test")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	return verify.Side{Model: m, Types: types, Dims: dims}
}

// training differentiates the network and appends an optimizer.
func training(t testing.TB, dims symbolic.Env) verify.Side {
	t.Helper()
	j, err := autograd.Differentiate(side(t, netText, nil).Model, options)
	require.NoError(t, err)
	require.NoError(t, autograd.AppendOptimizer(j, adamw))
	return verify.Side{Model: j.Model, Types: j.Types, Dims: dims}
}

// made makes up the inputs of sides; those of optimizers are zeros.
func made(t testing.TB, sides ...verify.Side) map[string]*executor.Tensor {
	t.Helper()
	in := map[string]*executor.Tensor{}
	for _, s := range sides {
		f := dataset.NewFiller(s.Model.Graph, s.Dims, 7)
		f.BeginAtZero(live.OptimizerStates(s.Model))
		for _, d := range s.Model.Graph.Inputs {
			if name := s.Model.Graph.ValueName(d.Value); in[name] == nil {
				x, err := f.Fill(d.Value)
				require.NoError(t, err)
				in[name] = x
			}
		}
	}
	return in
}

// started starts a machine with the states of sides.
func started(t testing.TB, e resident.Engine, in map[string]*executor.Tensor,
	sides ...verify.Side) resident.Machine {
	t.Helper()
	machine, err := e.Start(ctx, executor.Options{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(func() { machine.Close() })
	for _, s := range sides {
		pairs, err := live.Pairs(s.Model)
		require.NoError(t, err)
		for _, p := range pairs {
			require.NoError(t, machine.Put(p.Input, in[p.Input]))
		}
	}
	return machine
}

func opened(t testing.TB, m resident.Machine, s verify.Side, o resident.StepOptions) resident.Step {
	t.Helper()
	step, err := m.Open(ctx, s, o)
	require.NoError(t, err)
	return step
}

func given(s resident.Step, in map[string]*executor.Tensor) (list []*executor.Tensor) {
	for _, name := range s.Inputs() {
		list = append(list, in[name])
	}
	return list
}

func read(t testing.TB, m resident.Machine, name string, like *executor.Tensor) *executor.Tensor {
	t.Helper()
	x := &executor.Tensor{DType: like.DType, Shape: like.Shape, Data: make([]byte, len(like.Data))}
	require.NoError(t, m.Read(name, x.Data))
	return x
}

// TestMachineLikeExecute: steps of a machine make what verify.Execute makes in as many steps, bit
// for bit.
func TestMachineLikeExecute(t *testing.T) {
	e := engine(t)
	s := training(t, atBatch8)
	in := made(t, s)
	want, err := verify.Execute(ctx, s, in, verify.Options{Engine: e, Repeat: 5,
		Session: executor.Options{Threads: 1}})
	require.NoError(t, err)
	machine := started(t, e, in, s)
	step := opened(t, machine, s, loss)
	require.Equal(t, []string{"x", "target"}, step.Inputs())
	for k := range 5 {
		require.NoError(t, step.Run(ctx, uint64(k), given(step, in)))
	}
	pairs, err := live.Pairs(s.Model)
	require.NoError(t, err)
	for _, w := range want.Outputs {
		got := step.Output(0)
		is := func(p live.StatePair) bool { return p.Output == w.Name }
		if i := slices.IndexFunc(pairs, is); i >= 0 {
			got = read(t, machine, pairs[i].Input, w.Tensor)
		}
		require.True(t, bytes.Equal(w.Tensor.Data, got.Data), w.Name)
	}
	outside := machine.(resident.Outside).ProcessMemory()
	require.Greater(t, outside.Resident, machine.StateBytes())
	require.GreaterOrEqual(t, outside.Peak, outside.Resident)
	require.Equal(t, 5, step.Measured().Runs)
	require.Positive(t, step.Measured().Arena)
	require.LessOrEqual(t, step.Measured().Arena, step.Predicted().Arena*115/100)
}

// swapText needs second buffers: each next value is read together with the other's old value.
const swapText = `<ir_version: 8, opset_import: ["" : 17]>
swap (float[32] a, float[32] b, float[32, 32] m)
	=> (float[32] a_updated, float[32] b_updated, float loss) {
	a_updated = MatMul(b, m)  b_updated = MatMul(a, m)
	s = Add(a, b)  loss = ReduceMean<keepdims = 0>(s)
}`

// alsoText has one of the states in place, and readText only reads them.
const alsoText = `<ir_version: 8, opset_import: ["" : 17]>
also (float[32] a, float[32] b) => (float[32] a_updated, float loss)
	{ a_updated = Add(a, b)  loss = ReduceMean<keepdims = 0>(a_updated) }`

const readText = `<ir_version: 8, opset_import: ["" : 17]>
reading (float[32] b, float[32] a = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
	19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32}) => (float loss)
	{ d = Sub(a, b)  loss = ReduceMean<keepdims = 0>(d) }`

// TestMachineSwaps: a state that one model moves between two buffers, another writes in place and a
// third reads, even as the value of an input with a default, is the same for all of them, in
// whatever order they run and were opened.
func TestMachineSwaps(t *testing.T) {
	e := engine(t)
	swap, also, reading := side(t, swapText, nil), side(t, alsoText, nil), side(t, readText, nil)
	in := made(t, swap)
	for _, name := range []string{"a", "b", "m"} {
		for i := range executor.Of[float32](in[name]) { // so that no value vanishes
			executor.Of[float32](in[name])[i] = float32(math.Sin(float64(i*i+len(name)))) / 3
		}
	}
	run := func(e resident.Engine, order []int) (losses [][]byte, a, b []byte) {
		machine := started(t, e, in, swap)
		require.GreaterOrEqual(t, machine.StateBytes(), int64(2*32*4))
		var steps []resident.Step
		for _, s := range []verify.Side{reading, also, swap} {
			steps = append(steps, opened(t, machine, s, loss))
		}
		for _, k := range order {
			require.NoError(t, steps[k].Run(ctx, 0, given(steps[k], in)))
			losses = append(losses, bytes.Clone(steps[k].Output(0).Data))
		}
		return losses, read(t, machine, "a", in["a"]).Data, read(t, machine, "b", in["b"]).Data
	}
	for _, order := range [][]int{{0, 2, 0, 1, 0, 2, 2, 1, 0}, {2, 1}, {2, 2, 1, 2, 0, 2, 0},
		{1, 0}} {
		losses, a, b := run(e, order)
		wantLosses, wantA, wantB := run(resident.On(cpu.Device{}), order)
		for i := range losses {
			near(t, wantLosses[i], losses[i])
		}
		near(t, wantA, a)
		near(t, wantB, b)
	}
}

// near compares two lists of float32.
func near(t *testing.T, want, got []byte) {
	t.Helper()
	w, g := executor.Cast[float32](want), executor.Cast[float32](got)
	require.Len(t, g, len(w))
	for i := range w {
		require.InDelta(t, w[i], g[i], 1e-6+1e-4*math.Abs(float64(w[i])))
	}
}

// TestMachineMicroSteps: micro-steps, updates, steps of a smaller batch and evaluations share
// states in one process, and make what they make on the CPU.
func TestMachineMicroSteps(t *testing.T) {
	e := engine(t)
	o := options
	o.Accumulate = true
	j, err := autograd.Differentiate(side(t, netText, nil).Model, o)
	require.NoError(t, err)
	u, err := autograd.UpdateStep(j, adamw)
	require.NoError(t, err)
	micro := verify.Side{Model: j.Model, Types: j.Types, Dims: atBatch8}
	small := verify.Side{Model: j.Model, Types: j.Types, Dims: symbolic.Env{"B": 3}}
	update := verify.Side{Model: u.Model, Types: u.Types}
	eval := side(t, netText, atBatch8)
	in, less := made(t, micro, update), made(t, small)
	run := func(e resident.Engine) (losses [][]byte, machine resident.Machine) {
		machine = started(t, e, in, micro, update)
		for _, s := range []verify.Side{micro, update} {
			for _, v := range live.OptimizerStates(s.Model) {
				name := s.Model.Graph.ValueName(v)
				require.NoError(t, machine.Zero(name, in[name].DType, in[name].Shape))
			}
		}
		steps := []resident.Step{opened(t, machine, micro, loss), opened(t, machine, small, loss),
			opened(t, machine, eval, loss), opened(t, machine, update, resident.StepOptions{})}
		for _, k := range []int{0, 1, 3, 2, 0, 0, 3, 0, 1, 3, 2} {
			data := in
			if k == 1 {
				data = less
			}
			require.NoError(t, steps[k].Run(ctx, 0, given(steps[k], data)))
			if k != 3 {
				losses = append(losses, bytes.Clone(steps[k].Output(0).Data))
			}
		}
		require.NoError(t, steps[1].Close())
		require.NoError(t, steps[1].Close())
		require.NoError(t, steps[0].Run(ctx, 0, given(steps[0], in)))
		return losses, machine
	}
	got, machine := run(e)
	want, host := run(resident.On(cpu.Device{}))
	for i := range want {
		near(t, want[i], got[i])
	}
	for _, name := range []string{"w1", "w2", "b1", "scale"} {
		near(t, read(t, host, name, in[name]).Data, read(t, machine, name, in[name]).Data)
	}
}

// TestMachineNotFinite: what is not finite is told when the step is done, and the CPU finds where
// it came from.
func TestMachineNotFinite(t *testing.T) {
	e := engine(t)
	s := training(t, atBatch8)
	in := made(t, s)
	machine := started(t, e, in, s)
	step := opened(t, machine, s, loss)
	inputs := given(step, in)
	v, n, err := step.FirstBad(ctx, 0, inputs)
	require.NoError(t, err)
	require.Empty(t, v+n)
	bad := &executor.Tensor{DType: graph.Float32, Shape: in["x"].Shape,
		Data: bytes.Clone(in["x"].Data)}
	executor.Of[float32](bad)[5] = 3e38
	inputs[0] = bad
	v, n, err = step.FirstBad(ctx, 0, inputs)
	require.NoError(t, err)
	require.Contains(t, []string{"e", "d", "s"}, v)
	require.NotEmpty(t, n)
	var e2 *resident.NotFiniteError
	require.ErrorAs(t, step.Run(ctx, 0, inputs), &e2)
	require.Equal(t, "loss", e2.Value)
	executor.Of[float32](bad)[5] = float32(math.NaN())
	v, n, err = step.FirstBad(ctx, 0, inputs)
	require.NoError(t, err)
	require.Equal(t, []string{"x", resident.OfInput}, []string{v, n})
}

// TestMachineKilled: when the process is killed, a step ends with an error, and so do later ones;
// what the states were can still be read.
func TestMachineKilled(t *testing.T) {
	e := engine(t)
	s := training(t, atBatch8)
	in := made(t, s)
	machine := started(t, e, in, s)
	step := opened(t, machine, s, loss)
	require.NoError(t, step.Run(ctx, 0, given(step, in)))
	w := read(t, machine, "w1", in["w1"])
	require.NoError(t, syscall.Kill(childOf(t), syscall.SIGKILL))
	done := make(chan error)
	go func() { done <- step.Run(ctx, 1, given(step, in)) }()
	select {
	case err := <-done:
		var torn *executor.TornError
		require.ErrorAs(t, err, &torn)
		var crash *ort.CrashError
		require.ErrorAs(t, err, &crash)
		require.True(t, crash.Killed(), err)
	case <-time.After(time.Minute):
		t.Fatal("the step hangs")
	}
	require.Equal(t, w, read(t, machine, "w1", in["w1"]))
	var torn *executor.TornError
	require.ErrorAs(t, step.Run(ctx, 1, given(step, in)), &torn)
	require.Zero(t, machine.(resident.Outside).ProcessMemory())
	require.NoError(t, machine.Close())
	require.NoError(t, machine.Close())
	require.Zero(t, machine.(resident.Outside).ProcessMemory())
	_, err := machine.Open(ctx, s, loss)
	require.ErrorContains(t, err, "closed")
}

// childOf returns the only child of this process.
func childOf(t *testing.T) int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	require.NoError(t, err)
	for _, task := range tasks {
		data, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		var pid int
		if n, _ := fmt.Sscan(string(data), &pid); n == 1 {
			return pid
		}
	}
	t.Fatal("this process has no child")
	return 0
}

// TestMachineLeaves: many steps, models that are opened and closed, and whole machines leave nothing:
// no memory, no files, no descriptors, no process.
func TestMachineLeaves(t *testing.T) {
	e := engine(t)
	s := training(t, atBatch8)
	in := made(t, s)
	t.Setenv("TMPDIR", t.TempDir())
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	before := open()
	machine := started(t, e, in, s)
	step := opened(t, machine, s, loss)
	inputs := given(step, in)
	run := func(n int) int64 {
		for k := range n {
			require.NoError(t, step.Run(ctx, uint64(k), inputs))
		}
		return machine.(resident.Outside).ProcessMemory().Resident
	}
	early := run(100)
	require.InDelta(t, early, run(400), 4<<20)
	for range 3 {
		again := opened(t, machine, s, loss)
		require.NoError(t, again.Run(ctx, 0, inputs))
		require.Zero(t, again.Measured().Arena, "it takes nothing in the arena that was not there")
		require.NoError(t, again.Close())
	}
	models, err := filepath.Glob(filepath.Join(os.TempDir(), "memopt-ort-*", "*"))
	require.NoError(t, err)
	require.Len(t, models, 1)
	pid := childOf(t)
	require.NoError(t, machine.Close())
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	require.Equal(t, before, open())
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// gatherText writes a state before a node that fails where the index is wrong.
const gatherText = `<ir_version: 8, opset_import: ["" : 17]>
g (float[2] w, int64[1] at) => (float[2] w_updated, float[1] y)
	{ w_updated = Add(w, w)  y = Gather(w_updated, at) }`

// TestMachineTorn: a step that the runtime ends with an error may have written states, so that none
// runs until they are set.
func TestMachineTorn(t *testing.T) {
	e := engine(t)
	s := side(t, gatherText, nil)
	in := made(t, s)
	machine := started(t, e, in, s)
	step := opened(t, machine, s, resident.StepOptions{Fetch: []string{"y"}})
	at := func(i int64) []*executor.Tensor {
		return []*executor.Tensor{executor.NewTensor(graph.Int64, []int{1}, i)}
	}
	require.NoError(t, step.Run(ctx, 0, at(1)))
	var torn *executor.TornError
	require.ErrorAs(t, step.Run(ctx, 0, at(7)), &torn)
	require.ErrorAs(t, step.Run(ctx, 0, at(1)), &torn)
	require.NoError(t, machine.Zero("w", in["w"].DType, in["w"].Shape))
	require.NoError(t, step.Run(ctx, 0, at(1)))
	require.Equal(t, make([]byte, 4), step.Output(0).Data)
	large, n := []int{1 << 19}, 4<<19 // more than is zeroed at a time
	ones := &executor.Tensor{DType: graph.Float32, Shape: large, Data: bytes.Repeat([]byte{1}, n)}
	require.NoError(t, machine.Put("large", ones))
	require.NoError(t, machine.Zero("large", graph.Float32, large))
	require.Equal(t, make([]byte, n), read(t, machine, "large", ones).Data)
	require.NoError(t, machine.Put("w", in["w"]))
	require.NoError(t, step.Run(ctx, 0, at(1)))
	w := executor.Of[float32](in["w"])
	require.Equal(t, []float32{2 * w[1]}, executor.Of[float32](step.Output(0)))
}

// TestMachineErrors: what cannot be is said, with names.
func TestMachineErrors(t *testing.T) {
	e := engine(t)
	s := training(t, atBatch8)
	in := made(t, s)
	machine, err := e.Start(ctx, executor.Options{Threads: 1})
	require.NoError(t, err)
	defer machine.Close()
	_, err = machine.Open(ctx, s, loss)
	require.ErrorContains(t, err, "the machine has no such state: put its first value there")
	text := &executor.Tensor{DType: graph.String, Shape: []int{1}}
	err = machine.Put("s", text)
	require.ErrorContains(t, err, `state "s": ONNX Runtime is given no tensors like string[1]`)
	bare := &executor.Tensor{DType: graph.Float32, Shape: []int{2}}
	require.ErrorContains(t, machine.Put("w", bare), "0 bytes of data, wanted 8")
	require.ErrorIs(t, machine.Zero("h", graph.Float32, []int{1 << 50}), executor.ErrOutOfMemory)
	require.ErrorContains(t, machine.Read("no", nil), `state "no": there is no such state`)
	err = machine.Read("w", make([]byte, 3))
	require.ErrorContains(t, err, "float[2] has 8 bytes; there is room for 3")
	err = machine.Zero("w", graph.Float32, []int{4})
	require.ErrorContains(t, err, "a state keeps its type and shape")

	machine = started(t, e, in, s)
	for _, o := range []resident.StepOptions{{Fetch: []string{"no"}}, {Watch: []string{"no"}}} {
		_, err = machine.Open(ctx, s, o)
		require.ErrorContains(t, err, `"no": the graph has no such output`)
	}
	pairs, err := live.Pairs(s.Model)
	require.NoError(t, err)
	_, err = machine.Open(ctx, s, resident.StepOptions{Fetch: []string{pairs[0].Output}})
	require.ErrorContains(t, err, "it is the next value of state")
	free := s
	free.Dims = nil
	_, err = machine.Open(ctx, free, resident.StepOptions{})
	require.ErrorContains(t, err, "B")
	step := opened(t, machine, s, loss)
	err = step.Run(ctx, 0, nil)
	require.ErrorContains(t, err, `0 inputs are given; the step has 2: ["x" "target"]`)
	err = step.Run(ctx, 0, make([]*executor.Tensor, 2))
	require.ErrorContains(t, err, `input "x" is not given`)
	wrong := &executor.Tensor{DType: graph.Float32, Shape: []int{9, 64}, Data: make([]byte, 9*64*4)}
	err = step.Run(ctx, 0, []*executor.Tensor{wrong, wrong})
	require.ErrorContains(t, err, `input "x": is float[9,64] of 2304 bytes, wanted float[8,64]`)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, step.Run(cancelled, 0, given(step, in)), context.Canceled)
	require.NoError(t, step.Run(ctx, 0, given(step, in)))
	require.NoError(t, step.Close())
	require.ErrorContains(t, step.Run(ctx, 0, given(step, in)), "the step is closed")

	other := side(t, strings.ReplaceAll(swapText, "[32", "[33"), nil)
	machine = started(t, e, made(t, side(t, swapText, nil)), side(t, swapText, nil))
	_, err = machine.Open(ctx, other, resident.StepOptions{})
	require.ErrorContains(t, err, `input "a": the state is float[32]; the graph wants float[33]`)
}
