package verify_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

// small are the built-in models, small enough for many runs.
var small = map[string]func() (*graph.Model, error){
	"mlp": func() (*graph.Model, error) {
		return examples.MLP(examples.MLPOptions{Layers: 2, Inputs: 10, Hidden: 16, Classes: 7})
	},
	"cnn": func() (*graph.Model, error) {
		return examples.CNN(examples.CNNOptions{Stages: 2, Blocks: 1, Channels: 4, Side: 8, Classes: 5})
	},
	"transformer": func() (*graph.Model, error) {
		return examples.Transformer(examples.TransformerOptions{Layers: 2, Hidden: 16, Heads: 2, Vocab: 40,
			Positions: 12})
	},
	"transformer, fast gelu": func() (*graph.Model, error) {
		return examples.Transformer(examples.TransformerOptions{Layers: 1, Hidden: 16, Heads: 2, Vocab: 40,
			Positions: 12, FastGelu: true})
	},
}

// trial is one model with its data.
type trial struct {
	t      *testing.T
	m      *graph.Model
	types  *op.Result
	env    symbolic.Env
	loss   graph.ValueID
	inputs map[string]*executor.Tensor
}

// run returns the loss and the gradients by the name of their parameter, with the loss's own
// gradient being 1.
func (r *trial) run() (float64, map[string][]float32) {
	var loss float64
	s, err := executor.Open(context.Background(), r.m, r.types, cpu.Device{},
		executor.Options{Dims: r.env, Threads: 2, Guard: true, Probe: func(v graph.ValueID, x *executor.Tensor) {
			if v == r.loss {
				loss = float64(executor.Of[float32](x)[0])
			}
		}})
	require.NoError(r.t, err)
	defer s.Close()
	for name, x := range r.inputs {
		require.NoError(r.t, s.SetInput(name, x))
	}
	for _, f := range s.Feeds() {
		require.NoError(r.t,
			s.SetInput(r.m.Graph.Values[f.Value].Name, executor.NewTensor[float32](graph.Float32, []int{}, 1)))
	}
	require.NoError(r.t, s.Run(context.Background()))
	grads := map[string][]float32{}
	for i, d := range r.m.Graph.Outputs {
		if name, ok := strings.CutSuffix(r.m.Graph.Values[d.Value].Name, "_grad"); ok {
			grads[name] = append([]float32(nil), executor.Of[float32](s.Output(i))...)
		}
	}
	return loss, grads
}

// TestGradients compares the gradients that the built-in training graphs compute with finite
// differences of their loss, along a direction in which every parameter has a part: first the
// gradient itself, then the gradient plus as much at random.
func TestGradients(t *testing.T) {
	for name, build := range small {
		t.Run(name, func(t *testing.T) {
			m, err := build()
			require.NoError(t, err)
			r := &trial{t: t, m: m, types: infer(t, m), env: symbolic.Env{"batch": 6, "seq": 5}}
			b, err := live.FindBoundary(m)
			require.NoError(t, err)
			if r.loss = b.Loss; r.loss == graph.NoValue {
				r.loss = m.Graph.Nodes[b.Node].Inputs[0]
			}
			r.inputs = made(t, m, r.env, 1)
			_, grads := r.run()
			require.NotEmpty(t, grads)
			for _, noise := range []float64{0, 1} {
				r.check(grads, noise)
			}
		})
	}
}

// check takes one directional derivative in two ways.
func (r *trial) check(grads map[string][]float32, noise float64) {
	rng := rand.New(rand.NewPCG(3, 4))
	direction := map[string][]float64{}
	var along, norm float64
	for _, d := range r.m.Graph.Inputs {
		name := r.m.Graph.Values[d.Value].Name
		g := grads[name]
		if g == nil {
			continue
		}
		var own float64
		for _, v := range g {
			own += float64(v) * float64(v)
		}
		spread := noise * math.Sqrt(own/float64(len(g)))
		dir := make([]float64, len(g))
		for i, v := range g {
			dir[i] = float64(v) + spread*rng.NormFloat64()
			along += dir[i] * float64(v)
			norm += dir[i] * dir[i]
		}
		direction[name] = dir
	}
	eps := 5e-4 / math.Sqrt(norm)
	at := func(step float64) float64 {
		moved := *r
		moved.inputs = map[string]*executor.Tensor{}
		for name, x := range r.inputs {
			moved.inputs[name] = x
			if dir := direction[name]; dir != nil {
				y := executor.NewTensor(graph.Float32, x.Shape, append([]float32(nil), executor.Of[float32](x)...)...)
				for i := range dir {
					executor.Of[float32](y)[i] += float32(step * dir[i])
				}
				moved.inputs[name] = y
			}
		}
		loss, _ := moved.run()
		return loss
	}
	difference := (at(eps) - at(-eps)) / (2 * eps)
	require.InEpsilon(r.t, along, difference, 0.01, "noise %v", noise)
}
