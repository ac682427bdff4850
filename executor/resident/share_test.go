package resident_test

import (
	"bytes"
	"context"
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/null"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

// byHand runs one step of a model that knows no states, and returns its outputs by name. States are
// handed on by copying.
func byHand(t require.TestingT, m *graph.Model, types *op.Result, dims symbolic.Env,
	in map[string]*executor.Tensor, number uint64) map[string]*executor.Tensor {
	plain := m.Clone()
	live.RecordStates(plain, nil)
	o := executor.Options{Dims: dims}
	s, err := executor.Open(context.Background(), plain, types, cpu.Device{}, o)
	require.NoError(t, err)
	defer s.Close()
	for _, d := range plain.Graph.Inputs {
		name := plain.Graph.ValueName(d.Value)
		if x := in[name]; x != nil {
			require.NoError(t, s.SetInput(name, x))
		}
	}
	s.SetStep(number)
	require.NoError(t, s.Run(context.Background()))
	out := map[string]*executor.Tensor{}
	for i, d := range plain.Graph.Outputs {
		x := s.Output(i)
		out[plain.Graph.ValueName(d.Value)] = &executor.Tensor{DType: x.DType,
			Shape: append([]int{}, x.Shape...), Data: bytes.Clone(x.Data)}
	}
	return out
}

// handOn gives the inputs of the next step what the outputs of this one say.
func handOn(t testing.TB, m *graph.Model, in, out map[string]*executor.Tensor) {
	t.Helper()
	pairs, err := live.Pairs(m)
	require.NoError(t, err)
	for _, p := range pairs {
		in[p.Input] = out[p.Output]
	}
}

// TestStepsShareStates: a training step, one of a smaller batch, and the forward model as an
// evaluation take turns, and give what steps give to which states are handed on by copying. The
// arena is as large as the largest of them needs it.
func TestStepsShareStates(t *testing.T) {
	m, types := trainingStep(t, netText, adamw)
	forward, forwardTypes := parsed(t, netText)
	large, small := symbolic.Env{"B": 8}, symbolic.Env{"B": 5}
	hand := made(t, m, large)
	batch := func(dims symbolic.Env) map[string]*executor.Tensor {
		in := maps.Clone(hand)
		other := made(t, forward, dims)
		in["x"], in["target"] = other["x"], other["target"]
		return in
	}
	machine := started(t, resident.On(cpu.Device{}), executor.Options{}, m, hand)
	require.Positive(t, machine.StateBytes())
	type turn struct {
		step  resident.Step
		model *graph.Model
		types *op.Result
		dims  symbolic.Env
	}
	open := func(m *graph.Model, types *op.Result, dims symbolic.Env) turn {
		return turn{opened(t, machine, m, types, dims), m, types, dims}
	}
	// The smallest is opened first, so that the arena must grow.
	turns := []turn{open(forward, forwardTypes, small), open(m, types, large), open(m, types, small)}
	largest := int64(0)
	for _, k := range []int{1, 1, 0, 2, 1, 0, 0, 2, 2, 1} {
		c := turns[k]
		in := batch(c.dims)
		want := byHand(t, c.model, c.types, c.dims, in, 0)
		require.NoError(t, c.step.Run(context.Background(), 0, given(c.step, in)))
		require.Equal(t, want["loss"].Data, c.step.Output(0).Data)
		handOn(t, c.model, in, want)
		pairs, err := live.Pairs(m)
		require.NoError(t, err)
		for _, p := range pairs {
			hand[p.Input] = in[p.Input]
			got := read(t, machine, p.Input, in[p.Input])
			require.True(t, bytes.Equal(in[p.Input].Data, got), p.Input)
		}
		require.Equal(t, c.step.Predicted().Arena, c.step.Measured().Arena)
		largest = max(largest, c.step.Predicted().Arena)
	}
	require.Less(t, resident.ArenaStats(machine).Reserved, largest+4096)
	require.NoError(t, turns[1].step.Close())
	require.NoError(t, turns[1].step.Close(), "a second time")
	require.NoError(t, turns[0].step.Run(context.Background(), 0, given(turns[0].step, batch(small))))
}

// TestArenas: steps that are opened one after the other, each larger than the last, take no more than
// the largest, and what a step that plans nothing has taken is free when another one runs.
func TestArenas(t *testing.T) {
	keeping := adamw
	keeping.KeepGrads = true
	m, types := trainingStep(t, netText, keeping)
	forward, forwardTypes := parsed(t, netText)
	small, large := symbolic.Env{"B": 5}, symbolic.Env{"B": 80}
	in := made(t, m, large)
	few := made(t, forward, small)
	alone := started(t, resident.On(cpu.Device{}), executor.Options{}, m, in)
	arena := opened(t, alone, m, types, large).Predicted().Arena

	for _, o := range []executor.Options{{MemLimit: resident.Limit(arena)}, {OnDemand: true}} {
		machine := started(t, resident.On(cpu.Device{}), o, m, in)
		a := opened(t, machine, forward, forwardTypes, small)
		require.NoError(t, a.Run(context.Background(), 0, given(a, few)))
		b := opened(t, machine, m, types, large)
		require.NoError(t, b.Run(context.Background(), 0, given(b, in)))
		require.NoError(t, a.Run(context.Background(), 0, given(a, few)))
		inUse := resident.ArenaStats(machine).InUse
		if o.OnDemand {
			require.Less(t, inUse, arena/2, "the outputs of the small one")
			continue
		}
		require.Equal(t, resident.Limit(arena), inUse)
	}
}

// TestUnsized: what a step takes for values whose size depends on data is free when another one runs,
// and does not count for that.
func TestUnsized(t *testing.T) {
	m, types := trainingStep(t, netText, adamw)
	places, placesTypes := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		net (float[500, 500] x) => (int64[2, N] places) { places = NonZero(x) }`)
	dims := symbolic.Env{"B": 8}
	in, other := made(t, m, dims), made(t, places, nil)
	machine := started(t, resident.On(cpu.Device{}), executor.Options{}, m, in)
	a := opened(t, machine, m, types, dims)
	b, err := machine.Open(context.Background(), verify.Side{Model: places, Types: placesTypes},
		resident.StepOptions{})
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, b.Run(context.Background(), 0, given(b, other)))
		require.NoError(t, a.Run(context.Background(), 0, given(a, in)))
	}
	require.Positive(t, b.Measured().Dynamic)
	require.Zero(t, a.Measured().Dynamic)
	arena := resident.Limit(a.Predicted().Arena)
	require.Equal(t, arena, resident.ArenaStats(machine).InUse)
}

// TestMicroSteps: micro-steps that add up gradients and the update that applies them share the
// sums, and make what sessions make to which sums are handed on.
func TestMicroSteps(t *testing.T) {
	text, _ := parsed(t, netText)
	j, err := autograd.Differentiate(text, autograd.Options{Losses: []autograd.Loss{{Name: "loss"}},
		Wrt: params, Accumulate: true})
	require.NoError(t, err)
	u, err := autograd.UpdateStep(j, adamw)
	require.NoError(t, err)
	dims := symbolic.Env{"B": 4}
	in := made(t, j.Model, dims)
	for name, x := range made(t, u.Model, dims) {
		if in[name] == nil {
			in[name] = x
		}
	}
	machine := started(t, resident.On(cpu.Device{}), executor.Options{}, u.Model, in)
	states, err := live.Pairs(j.Model)
	require.NoError(t, err)
	for _, p := range states {
		clear(in[p.Input].Data)
		x := in[p.Input]
		require.NoError(t, machine.Zero(p.Input, x.DType, x.Shape))
	}
	micro, err := machine.Open(context.Background(),
		verify.Side{Model: j.Model, Types: j.Types, Dims: dims}, watchLoss)
	require.NoError(t, err)
	apply, err := machine.Open(context.Background(),
		verify.Side{Model: u.Model, Types: u.Types, Dims: dims}, resident.StepOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"x", "target"}, micro.Inputs())
	require.Empty(t, apply.Inputs())
	for k := range 6 {
		want := byHand(t, j.Model, j.Types, dims, in, 0)
		require.NoError(t, micro.Run(context.Background(), 0, given(micro, in)))
		require.Equal(t, want["loss"].Data, micro.Output(0).Data)
		handOn(t, j.Model, in, want)
		if k%2 == 1 {
			handOn(t, u.Model, in, byHand(t, u.Model, u.Types, dims, in, 0))
			require.NoError(t, apply.Run(context.Background(), 0, nil))
		}
	}
	pairs, err := live.Pairs(u.Model)
	require.NoError(t, err)
	for _, p := range pairs {
		require.True(t, bytes.Equal(in[p.Input].Data, read(t, machine, p.Input, in[p.Input])), p.Input)
	}
}

// dropText draws random numbers in every step.
const dropText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[8, 64] x, float[64] w) => (float loss, float[64] w_updated)
	<float half = {0.5}, bool on = {1}, float rate = {0.1}> {
	y = Mul(x, w)  z = Dropout(y, half, on)  loss = ReduceMean<keepdims = 0>(z)
	g = ReduceMean<axes = [0], keepdims = 0>(z)  s = Mul(g, rate)  w_updated = Sub(w, s)
}`

// TestStepNumber: what a step draws depends on its number, however often the machine ran before.
func TestStepNumber(t *testing.T) {
	m, types := parsed(t, dropText)
	in := made(t, m, nil)
	side := verify.Side{Model: m, Types: types}
	run := func(numbers ...uint64) (losses [][]byte, w []byte) {
		machine := started(t, resident.On(cpu.Device{}), executor.Options{Seed: 3}, m, in)
		s, err := machine.Open(context.Background(), side, watchLoss)
		require.NoError(t, err)
		for _, n := range numbers {
			require.NoError(t, s.Run(context.Background(), n, given(s, in)))
			losses = append(losses, bytes.Clone(s.Output(0).Data))
		}
		return losses, read(t, machine, "w", in["w"])
	}
	whole, want := run(0, 1, 2, 3)
	require.NotEqual(t, whole[0], whole[1])
	_, half := run(0, 1)
	in["w"] = &executor.Tensor{DType: graph.Float32, Shape: []int{64}, Data: half}
	rest, got := run(2, 3)
	require.Equal(t, whole[2:], rest)
	require.Equal(t, want, got)
}

// TestRunAllocatesNothing: from the second run on, steps allocate nothing on Go's heap, whether one
// runs again and again or several take turns.
func TestRunAllocatesNothing(t *testing.T) {
	m, types := trainingStep(t, netText, adamw)
	dims := symbolic.Env{"B": 8}
	in := made(t, m, dims)
	machine := started(t, resident.On(cpu.Device{}), executor.Options{Threads: 2}, m, in)
	var steps []resident.Step
	var inputs [][]*executor.Tensor
	for range 2 {
		s := opened(t, machine, m, types, dims)
		steps, inputs = append(steps, s), append(inputs, given(s, in))
	}
	number := uint64(0)
	run := func(k int) {
		if err := steps[k].Run(context.Background(), number, inputs[k]); err != nil {
			t.Fatal(err)
		}
		number++
	}
	run(0)
	run(1)
	require.Zero(t, testing.AllocsPerRun(20, func() { run(1) }))
	require.Zero(t, testing.AllocsPerRun(20, func() { run(0); run(1) }))
}

// TestManySteps: after 2,000 steps a job has the memory that it had after 200, and when it is
// closed it has no mappings and no goroutines left.
func TestManySteps(t *testing.T) {
	m, types := trainingStep(t, netText, adamw)
	dims := symbolic.Env{"B": 2}
	in := made(t, m, dims)
	goroutines, mappings := runtime.NumGoroutine(), mapped(t)
	machine, err := resident.On(cpu.Device{}).Start(context.Background(), executor.Options{Threads: 2})
	require.NoError(t, err)
	states, err := live.Pairs(m)
	require.NoError(t, err)
	for _, p := range states {
		require.NoError(t, machine.Put(p.Input, in[p.Input]))
	}
	s := opened(t, machine, m, types, dims)
	inputs := given(s, in)
	var early int64
	for k := range 2000 {
		require.NoError(t, s.Run(context.Background(), uint64(k), inputs))
		if k == 200 {
			early = executor.SettleProcessMemory().Resident
		}
	}
	require.InDelta(t, early, executor.SettleProcessMemory().Resident, 2<<20)
	require.NoError(t, machine.Close())
	deadline := time.Now().Add(5 * time.Second) // threads of the pool end by themselves
	for runtime.NumGoroutine() > goroutines && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	require.InDelta(t, mappings, mapped(t), 512<<10, "bytes of anonymous mappings")
}

// mapped returns the bytes of this process's anonymous mappings outside Go's heap, as far as the
// system says: Go's own begin at 0xc000000000.
func mapped(t *testing.T) (sum float64) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("the system does not list mappings in /proc/self/maps: run the test on Linux: " + err.Error())
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 5 || strings.HasPrefix(line, "c0") {
			continue // a file, a stack, or Go's heap
		}
		lo, hi, _ := strings.Cut(fields[0], "-")
		if strings.HasPrefix(fields[1], "rw") {
			sum += hex(hi) - hex(lo)
		}
	}
	return sum
}

// hex reads a number.
func hex(text string) (n float64) {
	for _, c := range text {
		n = n*16 + float64(strings.IndexRune("0123456789abcdef", c))
	}
	return n
}

// TestVirtual: a device that only counts memory says what a step needs.
func TestVirtual(t *testing.T) {
	m, types := trainingStep(t, netText, adamw)
	dims := symbolic.Env{"B": 8}
	in := made(t, m, dims)
	machine := started(t, resident.On(null.Device{}), executor.Options{}, m, in)
	s := opened(t, machine, m, types, dims)
	require.NoError(t, s.Run(context.Background(), 0, given(s, in)))
	require.Positive(t, s.Measured().Arena)
	require.Equal(t, s.Predicted().Arena, s.Measured().Arena)
	require.Zero(t, resident.ArenaStats(machine).Reserved)
	require.ErrorContains(t, machine.Read("w1", nil), "only counts memory")
	elems := int64(2*64*256 + 256 + 64)
	require.Equal(t, 4*3*elems+8, machine.StateBytes(), "weights, moments and a count")
}

// TestErrors: what cannot be is said, with names.
func TestErrors(t *testing.T) {
	m, types := trainingStep(t, netText, adamw)
	dims := symbolic.Env{"B": 8}
	in := made(t, m, dims)
	side := verify.Side{Model: m, Types: types, Dims: dims}
	empty, err := resident.On(cpu.Device{}).Start(context.Background(), executor.Options{})
	require.NoError(t, err)
	defer empty.Close()
	_, err = empty.Open(context.Background(), side, resident.StepOptions{})
	require.ErrorContains(t, err, "the machine has no such state: put its first value there")
	require.ErrorContains(t, empty.Read("w1", nil), `state "w1": there is no such state`)
	text := &executor.Tensor{DType: graph.String, Shape: []int{1}}
	require.ErrorContains(t, empty.Put("s", text), `state "s"`)
	bare := &executor.Tensor{DType: graph.Float32, Shape: []int{2}}
	require.ErrorContains(t, empty.Put("w", bare), "0 bytes of data, wanted 8")
	require.ErrorContains(t, empty.Zero("w", graph.Float32, []int{-1}), "no tensors like float[-1]")
	require.ErrorContains(t, empty.Zero("w", graph.Float32, []int{1 << 50}), "out of memory")
	require.ErrorIs(t, empty.Zero("w", graph.Float32, []int{1 << 50}), executor.ErrOutOfMemory)
	require.Zero(t, empty.StateBytes())

	machine := started(t, resident.On(cpu.Device{}), executor.Options{}, m, in)
	err = machine.Zero("w1", graph.Float32, []int{4})
	require.ErrorContains(t, err, "a state keeps its type and shape")
	err = machine.Read("b1", make([]byte, 3))
	require.ErrorContains(t, err, "float[256] has 1024 bytes; there is room for 3")
	for _, o := range []resident.StepOptions{{Fetch: []string{"no"}}, {Watch: []string{"no"}}} {
		_, err = machine.Open(context.Background(), side, o)
		require.ErrorContains(t, err, `"no"`)
	}
	_, err = machine.Open(context.Background(), side, resident.StepOptions{Watch: []string{"x"}})
	require.ErrorContains(t, err, `no node of the graph makes "x"`)
	s, err := machine.Open(context.Background(), side, watchLoss)
	require.NoError(t, err)
	ctx := context.Background()
	require.ErrorContains(t, s.Run(ctx, 0, nil), `0 inputs are given; the step has 2: ["x" "target"]`)
	require.ErrorContains(t, s.Run(ctx, 0, make([]*executor.Tensor, 2)), `input "x" is not given`)
	wrong := &executor.Tensor{DType: graph.Float32, Shape: []int{9, 64}, Data: make([]byte, 9*64*4)}
	err = s.Run(ctx, 0, []*executor.Tensor{wrong, wrong})
	require.ErrorContains(t, err, `input "x": is float[9,64], wanted`)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, s.Run(cancelled, 0, given(s, in)), context.Canceled)
	require.NoError(t, s.Run(ctx, 0, given(s, in)))

	// A state of another shape than the graph's.
	other, err := resident.On(cpu.Device{}).Start(ctx, executor.Options{})
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, other.Zero("w1", graph.Float32, []int{3, 3}))
	_, err = other.Open(ctx, side, resident.StepOptions{})
	require.ErrorContains(t, err, `state "w1" is float[3,3]; the graph wants float[64, 256]`)

	// An arena beyond the limit.
	tight := started(t, resident.On(cpu.Device{}), executor.Options{MemLimit: 1024}, m, in)
	_, err = tight.Open(ctx, side, resident.StepOptions{})
	require.ErrorIs(t, err, executor.ErrOutOfMemory)
	require.ErrorContains(t, err, "the planned arena of")
}
