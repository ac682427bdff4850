package resident_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/graph/live"
	"memopt/internal/test/graphtest"
)

// trained are the samples that are trained: a transformer, convolutions with norms that keep running
// statistics, and dense layers, of which one draws random numbers.
var trained = []string{"gpt2_tiny", "resnet_tiny", "mlp_tiny", "mlp_dropout_bn_tiny"}

// sample opens a sample and binds it to its first data set, whose inputs it returns.
func sample(t *testing.T, s graphtest.Sample) (*memopt.Model, map[string]*executor.Tensor) {
	t.Helper()
	m, err := memopt.Open(s.File, memopt.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	set, err := dataset.LoadDir(s.Folder+"/test_data_set_0", m.Graph, nil)
	require.NoError(t, err)
	require.NoError(t, m.Bind(set.Inputs))
	return m, set.Inputs
}

// begun returns what the states of a model begin with: what its file has, else zeros.
func begun(t *testing.T, m *memopt.Model) map[string]*executor.Tensor {
	t.Helper()
	states, err := live.FindStates(m.Model)
	require.NoError(t, err)
	require.NotEmpty(t, states)
	all := map[string]*executor.Tensor{}
	for _, s := range states {
		v := &m.Graph.Values[s.In]
		x := &executor.Tensor{DType: v.Type.DType, Shape: executor.EvalShape(v.Type, m.Dims)}
		n, _ := executor.Bytes(x.DType, x.Shape)
		x.Data = make([]byte, n)
		if v.Data != nil {
			raw, err := v.Data.Source.Bytes()
			require.NoError(t, err)
			copy(x.Data, raw)
		}
		all[v.Name] = x
	}
	return all
}

// TestSamples: several steps of the samples on a machine give the bits that `run -r` gives, with one
// thread and with two.
func TestSamples(t *testing.T) {
	for _, s := range graphtest.Tiny.Files(t) {
		if !slices.Contains(trained, s.Name) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			m, data := sample(t, s)
			step, _, err := m.Training(autograd.Options{}, &autograd.Optimizer{Kind: "adamw", LR: 0.01,
				WeightDecay: 0.1, MaxNorm: 1})
			require.NoError(t, err)
			in := begun(t, step)
			given := maps.Clone(in)
			maps.Copy(given, data)
			for _, d := range step.Graph.Inputs { // what the file has stays there
				if v := &step.Graph.Values[d.Value]; v.Data != nil {
					delete(given, v.Name)
				}
			}
			x := step.Execution()
			x.Inputs = given
			const steps = 4
			want, err := x.Run(t.Context(), verify.Options{Engine: verify.On(cpu.Device{}),
				Session: executor.Options{Threads: 2}, Repeat: steps})
			require.NoError(t, err)
			for threads := 1; threads <= 2; threads++ {
				like(t, x.Planned, in, data, want, steps, executor.Options{Threads: threads})
			}
		})
	}
}

// like runs steps of a side on a machine and compares states and outputs with those of a run.
func like(t *testing.T, side verify.Side, in, data map[string]*executor.Tensor, want *verify.Run,
	steps int, o executor.Options) {
	t.Helper()
	pairs, err := live.Pairs(side.Model)
	require.NoError(t, err)
	machine := started(t, resident.On(cpu.Device{}), o, side.Model, in)
	var fetch []string
	next := map[string]string{}
	for _, p := range pairs {
		next[p.Output] = p.Input
	}
	for _, w := range want.Outputs {
		if next[w.Name] == "" {
			fetch = append(fetch, w.Name)
		}
	}
	s, err := machine.Open(context.Background(), side, resident.StepOptions{Fetch: fetch})
	require.NoError(t, err)
	for k := range steps {
		require.NoError(t, s.Run(context.Background(), uint64(k), given(s, data)))
	}
	for _, w := range want.Outputs {
		var got []byte
		if state := next[w.Name]; state != "" {
			got = read(t, machine, state, w.Tensor)
		} else {
			got = s.Output(slices.Index(fetch, w.Name)).Data
		}
		require.True(t, bytes.Equal(w.Tensor.Data, got), "%s, %+v", w.Name, o)
	}
	if o.Threads == want.Threads { // on which workspaces depend
		require.Equal(t, want.Measured.Arena, s.Measured().Arena)
	}
	require.Equal(t, s.Predicted().Arena, s.Measured().Arena)
}

// TestAccumulate: micro-steps and updates that the facade makes share their states on a machine, and
// give what sessions give to which states are handed on by copying.
func TestAccumulate(t *testing.T) {
	for _, s := range graphtest.Tiny.Files(t) {
		if s.Name != "gpt2_tiny" && s.Name != "resnet_tiny" {
			continue
		}
		t.Run(s.Name, func(t *testing.T) { accumulate(t, s) })
	}
}

func accumulate(t *testing.T, s graphtest.Sample) {
	m, data := sample(t, s)
	micro, apply, _, err := m.Accumulate(autograd.Options{},
		autograd.Optimizer{Kind: "adamw", LR: 0.01, WeightDecay: 0.1, MaxNorm: 1})
	require.NoError(t, err)
	states := begun(t, micro)
	for name, x := range begun(t, apply) {
		if _, ok := states[name]; !ok {
			states[name] = x
		}
	}
	for _, d := range micro.Graph.Inputs { // parameters, which the micro-step only reads
		if v := &micro.Graph.Values[d.Value]; v.Data != nil {
			raw, err := v.Data.Source.Bytes()
			require.NoError(t, err)
			states[v.Name] = &executor.Tensor{DType: v.Data.DType, Data: bytes.Clone(raw),
				Shape: executor.EvalShape(v.Type, nil)}
		}
	}
	machine, err := resident.On(cpu.Device{}).Start(t.Context(), executor.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, machine.Close()) }()
	for name, x := range states {
		require.NoError(t, machine.Put(name, x))
	}
	open := func(m *memopt.Model) resident.Step {
		step, err := machine.Open(t.Context(), m.Execution().Planned, resident.StepOptions{})
		require.NoError(t, err)
		return step
	}
	a, b := open(micro), open(apply)
	hand := maps.Clone(data)
	maps.Copy(hand, states)
	for k := range 4 {
		number := uint64(k)
		require.NoError(t, a.Run(t.Context(), number, given(a, data)))
		out := byHand(t, micro.Model, micro.Types, micro.Dims, hand, number)
		handOn(t, micro.Model, hand, out)
		if k%2 == 1 {
			require.NoError(t, b.Run(t.Context(), number, given(b, data)))
			out := byHand(t, apply.Model, apply.Types, apply.Dims, hand, number)
			handOn(t, apply.Model, hand, out)
		}
	}
	changed := 0
	for name, x := range states {
		got := read(t, machine, name, x)
		require.True(t, bytes.Equal(hand[name].Data, got), fmt.Sprint(name))
		if !bytes.Equal(x.Data, got) {
			changed++
		}
	}
	require.Greater(t, changed, len(states)/4)
}
