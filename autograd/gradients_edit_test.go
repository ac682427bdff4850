package autograd_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/live"
)

// TestFreeze: what is left has the same gradients, bit for bit; of what is frozen there is no gradient,
// no state and no stash.
func TestFreeze(t *testing.T) {
	globs := map[string][]string{"transformer": {"transformer.h.0.*", "transformer.wpe.weight"},
		"mlp": {"layers.0.*", "layers.1.bias"}, "cnn": {"conv1.*", "bn1.*"}, "differentiated": {"bias"},
		"training_model": {"fc1.*"}}
	for _, c := range gradientGraphs(t) {
		t.Run(c.name, func(t *testing.T) {
			whole, err := autograd.FromGradients(c.m)
			require.NoError(t, err)
			j, err := autograd.FromGradients(c.m)
			require.NoError(t, err)
			require.NoError(t, autograd.Freeze(j, globs[c.name]))
			require.Less(t, len(j.Wrt), len(whole.Wrt))
			require.Subset(t, stashedOf(t, whole.Model), stashedOf(t, j.Model))
			for _, of := range []*autograd.Joint{whole, j} {
				b, err := live.FindBoundary(of.Model)
				require.NoError(t, err)
				backward := live.Split(of.Model.Graph, b, graph.FileOrder(of.Model.Graph))
				require.Equal(t, int(of.Backward), slices.Index(backward, true))
			}
			if c.name != "differentiated" && c.name != "training_model" { // nothing is stashed for these alone
				require.Less(t, len(stashedOf(t, j.Model)), len(stashedOf(t, whole.Model)))
			}
			plain := withGradients(t, c.m, j.Wrt)
			in := c.inputs(t, whole, plain)
			want := stepOf(t, plain, c.dims, in)
			got := stepOf(t, withGradients(t, j.Model, j.Wrt), c.dims, in)
			for _, name := range j.Wrt {
				require.Equal(t, want[name+autograd.GradSuffix].Data, got[name+autograd.GradSuffix].Data, name)
			}
			nodes := len(j.Model.Graph.Nodes)
			require.NoError(t, autograd.AppendOptimizer(j, autograd.Optimizer{Kind: "adamw"}))
			checkArranged(t, j, nodes)
			pairs, err := live.Pairs(j.Model)
			require.NoError(t, err)
			moments := slices.DeleteFunc(pairs, func(p live.StatePair) bool {
				return !strings.Contains(p.Input, autograd.AvgSuffix)
			})
			require.Len(t, moments, 2*len(j.Wrt))
		})
	}
}

func TestFreezeErrors(t *testing.T) {
	c := gradientGraphs(t)[1]
	j, err := autograd.FromGradients(c.m)
	require.NoError(t, err)
	err = autograd.Freeze(j, []string{"layers.*", "nothing*"})
	require.ErrorContains(t, err, `no-grad "nothing*" matches no parameter; they are layers.0.weight, layers.0.bias`)
	require.ErrorContains(t, autograd.Freeze(j, []string{"*"}), "no parameter is left to train")
	forward, err := autograd.Differentiate(frozenModel(t, "6"), autograd.Options{})
	require.NoError(t, err)
	require.ErrorContains(t, autograd.Freeze(forward, []string{"*"}), "Differentiate has options for that")
	require.ErrorContains(t, autograd.AccumulateGradients(forward), "Differentiate has options for that")
}

// TestAccumulateGradients: a micro-step adds the graph's gradients, in place, and two of them and the
// update change the parameters as one step with the mean of their gradients does.
func TestAccumulateGradients(t *testing.T) {
	for _, c := range gradientGraphs(t) {
		t.Run(c.name, func(t *testing.T) {
			plain, err := autograd.FromGradients(c.m)
			require.NoError(t, err)
			j, err := autograd.FromGradients(c.m)
			require.NoError(t, err)
			require.NoError(t, autograd.AccumulateGradients(j))
			require.True(t, j.Accumulates)
			o := autograd.Optimizer{Kind: "sgd", MaxNorm: 1, Guard: true}
			apply, err := autograd.UpdateStep(j, o)
			require.NoError(t, err)
			at := simulated(t, j.Model, c.dims)
			for _, s := range at.Copied {
				require.Contains(t, j.Model.Graph.ValueName(s.In), "running_")
			}
			if c.name == "mlp" || c.name == "training_model" { // there gradients are what memory goes to
				whole := simulated(t, withGradients(t, plain.Model, plain.Wrt), c.dims)
				require.Less(t, at.Peak.Bytes, whole.Peak.Bytes)
			}
			in := c.inputs(t, j, withGradients(t, c.m, j.Wrt))
			grads := stepOf(t, withGradients(t, c.m, j.Wrt), c.dims, in)
			for range 2 {
				maps.Copy(in, handed(t, j, stepOf(t, j.Model, c.dims, in)))
			}
			require.Equal(t, []int64{2}, executor.Of[int64](in[autograd.CountInput]))
			for _, name := range j.Wrt {
				g := executor.Of[float32](grads[name+autograd.GradSuffix])
				for i, sum := range executor.Of[float32](in[name+autograd.SumSuffix]) {
					require.Equal(t, g[i]+g[i], sum, "%s[%d]", name, i)
				}
			}
			require.NoError(t, autograd.AppendOptimizer(plain, o))
			want := stepOf(t, plain.Model, c.dims, in)
			got := stepOf(t, apply.Model, nil, in)
			for _, name := range j.Wrt {
				require.InDeltaSlice(t, floatsOf(t, want[name+autograd.NewSuffix]),
					floatsOf(t, got[name+autograd.NewSuffix]), 1e-7, name)
				require.Zero(t, slices.Max(floatsOf(t, got[name+autograd.SumSuffix+autograd.NewSuffix])))
			}
		})
	}
}

// handed returns the next values of a step's states, but not of running statistics, by their names.
func handed(t *testing.T, j *autograd.Joint, out map[string]*executor.Tensor) map[string]*executor.Tensor {
	pairs, err := live.Pairs(j.Model)
	require.NoError(t, err)
	next := map[string]*executor.Tensor{}
	for _, p := range pairs {
		if !strings.Contains(p.Input, "running_") {
			next[p.Input] = out[p.Output]
		}
	}
	return next
}

// TestFreezeFirst: the first backward node may be one that goes.
func TestFreezeFirst(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[3] x, float[3] w, float[3] v) => (float loss) {
		a = Mul(x, w)  b = Mul(a, a)  k = ReduceMean<keepdims = 0>(b)
		c = Mul(x, v)  d = Mul(c, c)  l = ReduceMean<keepdims = 0>(d)  loss = Add(k, l) }`, "g")
	require.NoError(t, err)
	forward, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"w", "v"}})
	require.NoError(t, err)
	for _, name := range []string{"w", "v"} {
		j, err := autograd.FromGradients(forward.Model)
		require.NoError(t, err)
		first := j.Model.Graph.NodeLabel(j.Backward)
		require.NoError(t, autograd.Freeze(j, []string{name}))
		b, err := live.FindBoundary(j.Model)
		require.NoError(t, err, name)
		require.Equal(t, j.Backward, b.Backward)
		if name == "v" {
			require.NotEqual(t, first, j.Model.Graph.NodeLabel(j.Backward))
		}
	}
}
