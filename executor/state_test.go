package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

const netText = `<ir_version: 8, opset_import: ["" : 17]>
net (T[8, 64] x, T[64, 256] w1, T[256] b1, T[256, 64] w2, T[64] scale, T[8, 64] target) => (T loss)
	<int64[1] axis = {0}> {
	a = MatMul(x, w1)  h = Add(a, b1)  r = Relu(h)  o = MatMul(r, w2)  v = Unsqueeze(scale, axis)  s = Mul(o, v)
	d = Sub(s, target)  e = Mul(d, d)  loss = ReduceMean<keepdims = 0>(e)
}`

// trainingStep differentiates a small network and appends an optimizer.
func trainingStep(t *testing.T, dtype string, o autograd.Optimizer, lossScale string) (*graph.Model, *op.Result) {
	m, err := graph.Parse(strings.NewReplacer("T[", dtype+"[", "T loss", dtype+" loss").Replace(netText), "net")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{Losses: []autograd.Loss{{Name: "loss"}},
		Wrt: []string{"w1", "b1", "w2", "scale"}, LossScale: lossScale})
	require.NoError(t, err)
	require.NoError(t, autograd.AppendOptimizer(j, o))
	return j.Model, j.Types
}

// firstInputs makes up a model's inputs; those of the optimizer are zeros.
func firstInputs(t *testing.T, m *graph.Model) map[string]*executor.Tensor {
	f := dataset.NewFiller(m.Graph, nil, 7)
	f.BeginAtZero(live.OptimizerStates(m))
	in := map[string]*executor.Tensor{}
	for _, d := range m.Graph.Inputs {
		x, err := f.Fill(d.Value)
		require.NoError(t, err)
		in[m.Graph.ValueName(d.Value)] = x
	}
	return in
}

func give(t *testing.T, s *executor.Session, in map[string]*executor.Tensor) {
	for name, x := range in {
		require.NoError(t, s.SetInput(name, x))
	}
}

// outputsOf copies the outputs of the last step.
func outputsOf(s *executor.Session) map[string]*executor.Tensor {
	out := map[string]*executor.Tensor{}
	for i, d := range s.Model().Graph.Outputs {
		x := s.Output(i)
		out[s.Model().Graph.ValueName(d.Value)] = &executor.Tensor{DType: x.DType, Shape: append([]int{}, x.Shape...),
			Data: bytes.Clone(x.Data)}
	}
	return out
}

// handedOn runs steps of a model without states and hands on what they make by copying it.
func handedOn(t *testing.T, m *graph.Model, types *op.Result, in map[string]*executor.Tensor,
	steps int) []map[string]*executor.Tensor {
	pairs, err := live.Pairs(m)
	require.NoError(t, err)
	plain := m.Clone()
	live.RecordStates(plain, nil)
	s := opened(t, plain, types, executor.Options{Threads: 1})
	var all []map[string]*executor.Tensor
	for range steps {
		give(t, s, in)
		require.NoError(t, s.Run(context.Background()))
		out := outputsOf(s)
		all = append(all, out)
		next := map[string]*executor.Tensor{}
		for name, x := range in {
			next[name] = x
		}
		for _, p := range pairs {
			next[p.Input] = out[p.Output]
		}
		in = next
	}
	return all
}

var trainers = []struct {
	name, dtype, scale string
	o                  autograd.Optimizer
}{
	{"sgd", "float", "", autograd.Optimizer{Kind: "sgd", LR: 0.1, WeightDecay: 0.01}},
	{"momentum", "float", "", autograd.Optimizer{Kind: "sgd", LR: 0.1, Momentum: 0.9, Nesterov: true}},
	{"adam", "double", "", autograd.Optimizer{Kind: "adam", LR: 0.01, WeightDecay: 0.1}},
	{"adamw", "float", "", autograd.Optimizer{Kind: "adamw", LR: 0.01, WeightDecay: 0.1}},
	{"clipped", "float", "", autograd.Optimizer{Kind: "adamw", LR: 0.01, MaxNorm: 0.1, KeepGrads: true}},
	{"scaled", "float16", "loss_scale", autograd.Optimizer{Kind: "adamw", LR: 0.01}},
}

// Steps that write their states in place make the same, bit for bit, as steps to which copies are
// handed on, and their arena has no room for next values.
func TestStatesTrain(t *testing.T) {
	const steps = 5
	for _, c := range trainers {
		m, types := trainingStep(t, c.dtype, c.o, c.scale)
		in := firstInputs(t, m)
		want := handedOn(t, m, types, in, steps)
		require.NotEqual(t, want[0]["loss"].Data, want[steps-1]["loss"].Data)
		for _, o := range []executor.Options{{Threads: 1}, {Threads: 2}, {Threads: 1, NoFusion: true},
			{Threads: 1, Guard: true}, {Threads: 2, OnDemand: true}, {Threads: 1, AdoptStates: true}} {
			name := fmt.Sprintf("%s %+v", c.name, o)
			s := opened(t, m, types, o)
			own := in
			if o.AdoptStates {
				own = firstInputs(t, m)
			}
			give(t, s, own)
			for k := range steps {
				require.NoError(t, s.Run(context.Background()), name)
				require.Equal(t, want[k], outputsOf(s), "%s, step %d", name, k)
			}
			require.Equal(t, s.Prediction().Arena, s.Measured().Arena, name)
			if o.AdoptStates {
				require.ErrorContains(t, s.Restart(), "the memory that it was given")
				require.Equal(t, want[steps-1]["w1_new"].Data, own["w1"].Data, "handed over")
				continue
			}
			require.NoError(t, s.Restart())
			require.NoError(t, s.Run(context.Background()), name)
			require.Equal(t, want[0], outputsOf(s), "%s, after a restart", name)
		}
	}
}

// For an AdamW step the arena holds activations and the gradient in flight, but no next values.
func TestStatesTakeNoArena(t *testing.T) {
	m, types := trainingStep(t, "float", autograd.Optimizer{Kind: "adamw", LR: 0.01, WeightDecay: 0.1}, "")
	s := opened(t, m, types, executor.Options{})
	plain := m.Clone()
	live.RecordStates(plain, nil)
	p := opened(t, plain, types, executor.Options{})
	weight := int64(4 * 64 * 256) // of w1, and of w2
	require.Less(t, s.Prediction().Arena, 2*weight)
	require.Greater(t, p.Prediction().Arena, 6*weight)
	require.Equal(t, p.Prediction().Persistent, s.Prediction().Persistent)

	// Not even a state that is read through a view needs a copy.
	sizes, err := live.EvalSizes(m.Graph, nil)
	require.NoError(t, err)
	sizes.States, err = live.FindStates(m)
	require.NoError(t, err)
	tl, err := live.Simulate(m.Graph, graph.FileOrder(m.Graph), sizes)
	require.NoError(t, err)
	require.Len(t, sizes.States, 4*3+1)
	require.Empty(t, tl.Copied)
}

// swapText needs copies: each next value is read together with the other's old value.
const swapText = `<ir_version: 8, opset_import: ["" : 17]>
swap (float[32] a, float[32] b, float[32] c) => (float[32] a_updated, float[32] b_updated, float[32] c_updated) {
	a_updated = MatMul(b, m)  b_updated = MatMul(a, m)  c1 = Identity(c)  c_updated = Add(c1, a)
}`

func TestStatesThatAreCopied(t *testing.T) {
	text := strings.Replace(swapText, "float[32] c) =>", "float[32] c, float[32, 32] m) =>", 1)
	m, types := parsed(t, text)
	in := firstInputs(t, m)
	want := handedOn(t, m, types, in, 4)
	for _, onDemand := range []bool{false, true} {
		s := opened(t, m, types, executor.Options{OnDemand: onDemand})
		give(t, s, in)
		for k := range want {
			require.NoError(t, s.Run(context.Background()))
			require.Equal(t, want[k], outputsOf(s), "step %d", k)
		}
	}
}

// failing is a device on which one run of a node fails.
type failing struct {
	cpu.Device
	node string
	runs *int // runs until it fails
}

var errBroken = errors.New("broken")

func (d failing) Kernel(p *executor.Prep) (executor.Kernel, error) {
	k, err := d.Device.Kernel(p)
	if p.Label != d.node || err != nil {
		return k, err
	}
	return failingKernel{k, d.runs}, nil
}

type failingKernel struct {
	executor.Kernel
	runs *int
}

func (k failingKernel) Run(c *executor.Ctx) error {
	err := k.Kernel.Run(c) // what it makes is written nevertheless
	if *k.runs--; *k.runs == 0 {
		return errBroken
	}
	return err
}

// A step that fails leaves the states as they were if it had not begun to write them. Otherwise it
// says that they are torn, and nobody can go on with them.
func TestStepThatFails(t *testing.T) {
	m, types := trainingStep(t, "float", autograd.Optimizer{Kind: "sgd", LR: 0.1}, "")
	in := firstInputs(t, m)
	want := handedOn(t, m, types, in, 3)
	kept, torn := 0, 0
	for i := range m.Graph.Nodes {
		runs := 2
		d := failing{node: m.Graph.NodeLabel(graph.NodeID(i)), runs: &runs}
		s, err := executor.Open(context.Background(), m, types, d, executor.Options{Threads: 1})
		require.NoError(t, err)
		give(t, s, in)
		require.NoError(t, s.Run(context.Background()), d.node)
		err = s.Run(context.Background())
		if err == nil {
			require.Equal(t, 2, runs, "node %s does not run at all", d.node)
			s.Close()
			continue
		}
		require.ErrorIs(t, err, errBroken)
		var broken *executor.TornError
		if errors.As(err, &broken) {
			torn++
			require.ErrorAs(t, s.Run(context.Background()), &broken, "it goes on with torn states")
			require.NoError(t, s.Restart())
			runs = 0
			require.NoError(t, s.Run(context.Background()))
			require.Equal(t, want[0], outputsOf(s))
		} else {
			kept++
			require.NoError(t, s.Run(context.Background()))
			require.Equal(t, want[1], outputsOf(s), "after a failure of node %s", d.node)
		}
		require.NoError(t, s.Close())
	}
	require.Greater(t, kept, 10)
	require.Greater(t, torn, 3)
}

// stopping ends a context when a node runs.
type stopping struct {
	cpu.Device
	node string
	stop context.CancelFunc
}

func (d stopping) Kernel(p *executor.Prep) (executor.Kernel, error) {
	k, err := d.Device.Kernel(p)
	if p.Label != d.node || err != nil {
		return k, err
	}
	return stoppingKernel{k, d.stop}, nil
}

type stoppingKernel struct {
	executor.Kernel
	stop context.CancelFunc
}

func (k stoppingKernel) Run(c *executor.Ctx) error {
	k.stop()
	return k.Kernel.Run(c)
}

// A step that is told to end before it writes a state leaves them all as they are; one that has
// begun to write is finished.
func TestStepThatIsStopped(t *testing.T) {
	m, types := trainingStep(t, "float", autograd.Optimizer{Kind: "sgd", LR: 0.1}, "")
	in := firstInputs(t, m)
	want := handedOn(t, m, types, in, 1)
	ended, finished := 0, 0
	for i := range m.Graph.Nodes {
		ctx, stop := context.WithCancel(context.Background())
		d := stopping{node: m.Graph.NodeLabel(graph.NodeID(i)), stop: stop}
		s, err := executor.Open(ctx, m, types, d, executor.Options{Threads: 1, NoFusion: true})
		require.NoError(t, err)
		give(t, s, in)
		if err := s.Run(ctx); err != nil {
			ended++
			require.ErrorIs(t, err, context.Canceled)
			require.NoError(t, s.Run(context.Background()))
		} else {
			finished++
		}
		require.Equal(t, want[0], outputsOf(s), d.node)
		require.NoError(t, s.Close())
		stop()
	}
	require.Greater(t, ended, 10)
	require.Greater(t, finished, 3)
}
