package resident_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

const netText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[B, 64] x, float[64, 256] w1, float[256] b1, float[256, 64] w2, float[64] scale,
	float[B, 64] target) => (float loss) <int64[1] axis = {0}> {
	a = MatMul(x, w1)  h = Add(a, b1)  r = Relu(h)  o = MatMul(r, w2)  v = Unsqueeze(scale, axis)
	s = Mul(o, v)  d = Sub(s, target)  e = Mul(d, d)  loss = ReduceMean<keepdims = 0>(e)
}`

var params = []string{"w1", "b1", "w2", "scale"}

// parsed reads a model in text form and infers its types.
func parsed(t testing.TB, text string) (*graph.Model, *op.Result) {
	t.Helper()
	m, err := graph.Parse(text, "test")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	return m, types
}

// trainingStep differentiates the network and appends an optimizer.
func trainingStep(t testing.TB, text string, o autograd.Optimizer) (*graph.Model, *op.Result) {
	t.Helper()
	m, _ := parsed(t, text)
	j, err := autograd.Differentiate(m, autograd.Options{
		Losses: []autograd.Loss{{Name: "loss"}}, Wrt: params})
	require.NoError(t, err)
	require.NoError(t, autograd.AppendOptimizer(j, o))
	return j.Model, j.Types
}

// made makes up the inputs of a model; those of an optimizer are zeros.
func made(t testing.TB, m *graph.Model, dims symbolic.Env) map[string]*executor.Tensor {
	t.Helper()
	f := dataset.NewFiller(m.Graph, dims, 7)
	f.BeginAtZero(live.OptimizerStates(m))
	in := map[string]*executor.Tensor{}
	for _, d := range m.Graph.Inputs {
		x, err := f.Fill(d.Value)
		require.NoError(t, err)
		in[m.Graph.ValueName(d.Value)] = x
	}
	return in
}

// started starts a machine with the states of a model.
func started(t testing.TB, e resident.Engine, o executor.Options, m *graph.Model,
	in map[string]*executor.Tensor) resident.Machine {
	t.Helper()
	machine, err := e.Start(context.Background(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, machine.Close()) })
	states, err := live.FindStates(m)
	require.NoError(t, err)
	for _, s := range states {
		name := m.Graph.ValueName(s.In)
		require.NoError(t, machine.Put(name, in[name]))
	}
	return machine
}

// opened opens a step that fetches and watches the loss.
func opened(t testing.TB, machine resident.Machine, m *graph.Model, types *op.Result,
	dims symbolic.Env) resident.Step {
	t.Helper()
	side := verify.Side{Model: m, Types: types, Dims: dims}
	s, err := machine.Open(context.Background(), side, watchLoss)
	require.NoError(t, err)
	return s
}

// given lists the inputs of a step.
func given(s resident.Step, in map[string]*executor.Tensor) (list []*executor.Tensor) {
	for _, name := range s.Inputs() {
		list = append(list, in[name])
	}
	return list
}

// read copies a state.
func read(t testing.TB, m resident.Machine, name string, like *executor.Tensor) []byte {
	t.Helper()
	data := make([]byte, len(like.Data))
	require.NoError(t, m.Read(name, data))
	return data
}

// watchLoss fetches the loss, which must be finite.
var watchLoss = resident.StepOptions{Fetch: []string{"loss"}, Watch: []string{"loss"}}

var adamw = autograd.Optimizer{Kind: "adamw", LR: 0.01, WeightDecay: 0.1}

// TestLikeExecute: steps of a machine make what verify.Execute makes in as many, bit for bit, with
// one thread and with two, planned and on demand, and measure what is planned.
func TestLikeExecute(t *testing.T) {
	const steps = 5
	dims := symbolic.Env{"B": 8}
	for _, o := range []autograd.Optimizer{{Kind: "sgd", LR: 0.1, Momentum: 0.9}, adamw} {
		m, types := trainingStep(t, netText, o)
		in := made(t, m, dims)
		side := verify.Side{Model: m, Types: types, Dims: dims}
		want, err := verify.Execute(context.Background(), side, in,
			verify.Options{Engine: verify.On(cpu.Device{}), Repeat: steps})
		require.NoError(t, err)
		for _, opts := range []executor.Options{{Threads: 1}, {Threads: 2},
			{Threads: 2, OnDemand: true}, {Guard: true}} {
			name := fmt.Sprintf("%s %+v", o.Kind, opts)
			machine := started(t, resident.On(cpu.Device{}), opts, m, in)
			s, err := machine.Open(context.Background(), side, watchLoss)
			require.NoError(t, err)
			require.Equal(t, []string{"x", "target"}, s.Inputs())
			for i := range steps {
				require.NoError(t, s.Run(context.Background(), uint64(i), given(s, in)))
			}
			pairs, err := live.Pairs(m)
			require.NoError(t, err)
			next := map[string]string{}
			for _, p := range pairs {
				next[p.Output] = p.Input
			}
			for _, w := range want.Outputs {
				if state := next[w.Name]; state != "" {
					got := read(t, machine, state, w.Tensor)
					require.True(t, bytes.Equal(w.Tensor.Data, got), "%s: %s", name, state)
				} else if w.Name == "loss" {
					require.Equal(t, w.Tensor.Data, s.Output(0).Data, name)
				}
			}
			require.Equal(t, s.Predicted().Arena, s.Measured().Arena, name)
		}
	}
}
