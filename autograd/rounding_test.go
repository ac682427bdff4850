package autograd_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/internal/half"
)

// stochasticKinds are optimizers with a momentum, if sgd.
var stochasticKinds = []string{"sgd", "adam", "adamw", "lion", "adamw8bit", "adam4bit"}

// stochasticOptimizer updates by less than half a unit of bfloat16 beside 1.
func stochasticOptimizer(kind string) autograd.Optimizer {
	o := autograd.Optimizer{Kind: kind, LR: 0.0005, Stochastic: true, Seed: 3}
	if kind == "sgd" {
		o.Momentum = 0.5
	}
	return o
}

// bfloats is a vector of bfloat16.
func bfloats(n int, f func(i int) float32) *executor.Tensor {
	x := make([]half.BFloat16, n)
	for i := range x {
		x[i] = half.BFloat16From(f(i))
	}
	return executor.NewTensor(graph.BFloat16, []int{n}, x...)
}

// stochasticRun makes updates of 4352 weights that begin as 1, with a gradient of 1, and returns the states.
func stochasticRun(t *testing.T, o autograd.Optimizer, updates int) map[string]*executor.Tensor {
	j := lowBitStep(t, graph.BFloat16, 4352, o, autograd.Options{})
	one := func(int) float32 { return 1 }
	in := map[string]*executor.Tensor{}
	for _, name := range []string{"w", "x", "y_grad_seed"} {
		in[name] = bfloats(4352, one)
	}
	for range updates {
		runStates(t, j.Model, in)
	}
	return in
}

// TestStochasticMean: updates that rounding to the nearest loses all count in the mean, alike on each run with a seed.
// With the gradient 1, each update of every optimizer is the rate; only sgd's momentum grows.
func TestStochasticMean(t *testing.T) {
	const updates = 8
	for _, kind := range stochasticKinds {
		o := stochasticOptimizer(kind)
		nearest := o
		nearest.Stochastic = false
		for _, w := range executor.Of[half.BFloat16](stochasticRun(t, nearest, updates)["w"]) {
			require.EqualValues(t, 1, w.Float32(), "%s: the update is too small", kind)
		}
		in := stochasticRun(t, o, updates)
		weights, sum, seen := executor.Of[half.BFloat16](in["w"]), 0.0, map[float32]bool{}
		for _, w := range weights {
			sum += 1 - float64(w.Float32())
			seen[w.Float32()] = true
		}
		moved := 0.0
		for k := range updates {
			if moved += o.LR; kind == "sgd" {
				moved += o.LR * (1 - math.Pow(0.5, float64(k)))
			}
		}
		require.InDelta(t, moved, sum/float64(len(weights)), 0.05*moved, kind) // deviations are 1 %
		require.Greater(t, len(seen), 2, kind)
		require.EqualValues(t, updates, executor.Of[int64](in[autograd.StepInput])[0], kind)
		require.Equal(t, in["w"].Data, stochasticRun(t, o, updates)["w"].Data, "%s: again", kind)
		o.Seed++
		require.NotEqual(t, in["w"].Data, stochasticRun(t, o, updates)["w"].Data, "%s: another seed", kind)
		for _, name := range []string{"w_momentum", "w_exp_avg", "w_exp_avg_sq", "b_momentum", "b_exp_avg"} {
			if s, ok := in[name]; ok && s.DType != graph.Uint8 {
				require.Equal(t, graph.BFloat16, s.DType, "%s: %s", kind, name)
			}
		}
	}
}

// TestStochasticDraws: places, steps and states draw apart.
func TestStochasticDraws(t *testing.T) {
	o := stochasticOptimizer("adamw")
	in := stochasticRun(t, o, 1)
	first := slices.Clone(in["w"].Data)
	require.NotEqual(t, first[:2*2176], first[2*2176:], "places")
	again := map[string]*executor.Tensor{"step": executor.NewTensor(graph.Int64, []int{}, int64(1)<<32)}
	j := lowBitStep(t, graph.BFloat16, 4352, o, autograd.Options{})
	one := func(int) float32 { return 1 }
	for _, name := range []string{"w", "x", "y_grad_seed"} {
		again[name] = bfloats(4352, one)
	}
	runStates(t, j.Model, again)
	require.NotEqual(t, first, again["w"].Data, "steps that differ by 2^32")
	var seeds []int64
	for _, n := range j.Model.Graph.Nodes {
		if n.Op == "StochasticRound" {
			seeds = append(seeds, n.Int("seed", 0))
		}
	}
	require.Len(t, seeds, 6, "two parameters, two moments each")
	slices.Sort(seeds)
	require.Len(t, slices.Compact(seeds), 6)
}

// TestStochasticSkips: an update that is left out leaves states of bfloat16 as they were, bit for bit.
func TestStochasticSkips(t *testing.T) {
	for _, kind := range stochasticKinds {
		for _, guard := range []bool{false, true} {
			o, options := stochasticOptimizer(kind), autograd.Options{}
			if o.Guard, o.WeightDecay = guard, 0.1; !guard {
				options.LossScale = "scale"
			}
			j := lowBitStep(t, graph.BFloat16, 4352, o, options)
			some := func(i int) float32 { return float32(i%7) - 2.5 }
			in := map[string]*executor.Tensor{"w": bfloats(4352, some), "x": bfloats(4352, some), "z": bfloats(3, some),
				"b": bfloats(3, some), "y_grad_seed": bfloats(4352, func(int) float32 { return 1 }),
				"q_grad_seed": bfloats(3, some)}
			if !guard {
				in["scale"] = executor.NewTensor(graph.Float32, []int{}, float32(4))
			}
			out := runStates(t, j.Model, in)
			require.EqualValues(t, 1, out[autograd.FiniteOutput].Data[0])
			before := map[string][]byte{}
			for name := range in {
				before[name] = slices.Clone(in[name].Data)
			}
			in["x"] = bfloats(4352, func(i int) float32 { return float32(math.Inf(i - 77)) })
			before["x"] = in["x"].Data
			out = runStates(t, j.Model, in)
			require.EqualValues(t, 0, out[autograd.FiniteOutput].Data[0])
			for name, data := range before {
				require.Equal(t, data, in[name].Data, "%s, guard %v: %s", kind, guard, name)
			}
		}
	}
}

// TestStochasticSums: an update of sums of gradients rounds as the step that updates by their mean.
func TestStochasticSums(t *testing.T) {
	for _, kind := range stochasticKinds {
		o := stochasticOptimizer(kind)
		o.MaxNorm = 100
		part := lowBitStep(t, graph.BFloat16, 4352, o, autograd.Options{Accumulate: true})
		update, err := autograd.UpdateStep(part, o)
		require.NoError(t, err)
		whole := stochasticRun(t, o, 3)
		ones := slices.Repeat([]float32{1}, 4352)
		sums := map[string]*executor.Tensor{"w": bfloats(4352, func(int) float32 { return 1 })}
		for range 3 {
			sums["w_grad_sum"] = executor.NewTensor(graph.Float32, []int{4352}, ones...)
			sums["grad_count"] = executor.NewTensor(graph.Int64, []int{}, int64(1))
			runStates(t, update.Model, sums)
		}
		for name, state := range whole {
			if got, ok := sums[name]; ok {
				require.Equal(t, state.Data, got.Data, "%s: %s", kind, name)
			}
		}
	}
}

// TestStochasticRefuses: pieces of parameters have no places to draw by, and older operator sets no definition.
func TestStochasticRefuses(t *testing.T) {
	o := stochasticOptimizer("adamw")
	o.Ranks = autograd.Ranks{Count: 2, Zero: 1}
	j := lowBitStep(t, graph.BFloat16, 4096, o, autograd.Options{Accumulate: true})
	_, err := autograd.UpdateStep(j, o)
	require.ErrorContains(t, err, "ZeRO stage 1 would divide them: wanted stage 0")
	for _, kind := range []string{"sgd", "adamw8bit"} {
		o := stochasticOptimizer(kind)
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (bfloat16[4096] x, bfloat16[4096] w)
			=> (bfloat16[4096] y) { y = Mul(x, w) }`, "g")
		require.NoError(t, err)
		j, err := autograd.Differentiate(m, autograd.Options{Losses: []autograd.Loss{{Name: "y", Seed: true}},
			Wrt: []string{"w"}})
		require.NoError(t, err)
		require.ErrorContains(t, autograd.AppendOptimizer(j, o), "needs operator set 18, the model imports 17", kind)
	}
}
