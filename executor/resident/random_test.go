package resident_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/resident"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	_ "memopt/internal/test/rapidflags"
)

// TestRandomSteps: random graphs with random states and watched values make on a machine what
// sessions make to which states are handed on by copying. Where a watched value is not finite, all
// states are what they were; where FirstBad finds nothing, all watched values were finite.
func TestRandomSteps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		m := graphtest.Training(rng, graphtest.Options{Nodes: 10 + rng.IntN(50),
			Layers: rng.IntN(2) == 0, Parts: rng.IntN(3) == 0, Control: rng.IntN(3) == 0,
			Rows: 8, Width: 16})
		pairs := drawPairs(rng, m)
		live.RecordStates(m, pairs)
		op.RecordWatch(m, drawWatched(rng, m))
		types, err := op.Infer(m)
		require.NoError(rt, err)
		in := map[string]*executor.Tensor{}
		f := dataset.NewFiller(m.Graph, nil, seed)
		for _, d := range m.Graph.Inputs {
			x, err := f.Fill(d.Value)
			require.NoError(rt, err)
			in[m.Graph.ValueName(d.Value)] = x
		}
		o := executor.Options{Threads: 1 + rng.IntN(2), OnDemand: rng.IntN(3) == 0,
			Guard: rng.IntN(3) == 0}
		machine, err := resident.On(cpu.Device{}).Start(context.Background(), o)
		require.NoError(rt, err)
		defer machine.Close()
		for _, p := range pairs {
			require.NoError(rt, machine.Put(p.Input, in[p.Input]))
		}
		var steps [2]resident.Step
		for i := range steps {
			steps[i], err = machine.Open(context.Background(), verify.Side{Model: m, Types: types},
				resident.StepOptions{})
			require.NoError(rt, err)
		}
		for k := range uint64(4) {
			s := steps[rng.IntN(len(steps))]
			randomStep(rt, rng, machine, s, m, types, in, k)
		}
	})
}

// randomStep runs a step on a machine and by hand.
func randomStep(rt *rapid.T, rng *rand.Rand, machine resident.Machine, s resident.Step,
	m *graph.Model, types *op.Result, in map[string]*executor.Tensor, number uint64) {
	pairs, err := live.RecordedPairs(m)
	require.NoError(rt, err)
	batch := map[string]*executor.Tensor{}
	for name, x := range in {
		batch[name] = x
	}
	inputs := given(s, batch)
	if i := rng.IntN(2 * (len(inputs) + 1)); i < len(inputs) && inputs[i] != nil &&
		inputs[i].DType == graph.Float32 && len(inputs[i].Data) > 0 {
		name := s.Inputs()[i]
		inputs[i] = poisoned(inputs[i], 0, float32(math.Inf(1)))
		batch[name] = inputs[i]
	}
	err = s.Run(context.Background(), number, inputs)
	var bad *resident.NotFiniteError
	if errors.As(err, &bad) {
		value, node, err := s.FirstBad(context.Background(), number, inputs)
		require.NoError(rt, err)
		require.NotEmpty(rt, value)
		require.NotEmpty(rt, node)
	} else {
		require.NoError(rt, err)
		out := byHand(rt, m, types, nil, batch, number)
		for _, p := range pairs {
			in[p.Input] = out[p.Output]
		}
	}
	for _, p := range pairs {
		got := make([]byte, len(in[p.Input].Data))
		require.NoError(rt, machine.Read(p.Input, got))
		require.True(rt, bytes.Equal(in[p.Input].Data, got), p.Input)
	}
}

// drawPairs draws states among inputs and outputs of equal types.
func drawPairs(rng *rand.Rand, m *graph.Model) (pairs []live.StatePair) {
	g := m.Graph
	for _, d := range g.Outputs {
		for _, in := range g.Inputs {
			if rng.IntN(2) == 0 || g.Values[in.Value].Type.DType == graph.Int64 {
				continue
			}
			p := live.StatePair{Input: g.ValueName(in.Value), Output: g.ValueName(d.Value)}
			next := append(slices.Clone(pairs), p)
			live.RecordStates(m, next)
			if _, err := live.FindStates(m); err == nil {
				pairs = next
			}
		}
	}
	return pairs
}

// drawWatched draws values of floats that nodes make.
func drawWatched(rng *rand.Rand, m *graph.Model) (names []string) {
	for i := range m.Graph.Values {
		v := &m.Graph.Values[i]
		if rng.IntN(20) == 0 && v.Def != graph.NoNode && v.Type.DType.IsFloat() {
			names = append(names, v.Name)
		}
	}
	return names
}
