package planner_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/planner/device"
	"memopt/symbolic"
)

// costModel has a product, loops of several element types, a view, a constant and something tiny.
const costModel = `<ir_version: 8, opset_import: ["" : 17]>
costs (float[64, 32] x, float[32, 16] w, double[1000] d, bfloat16[4000] h)
	=> (float loss, float[64, 16] dp, float16[64, 64] q, float[2] t, double[1000] e, bfloat16[4000] f)
<int64[2] shape = {64, 16}>
{
	[product] p = MatMul(x, w)
	[loop] r = Relu(p)
	[view] v = Flatten(r)
	[constant] c = Constant<value = float[2] {1.0, 2.0}>()
	[tiny] t = Neg(c)
	[double] e = Neg(d)
	[bf16] f = Neg(h)
	[narrow] g = Cast<to = 10>(v)
	[turned] u = Transpose(g)
	[halfproduct] q = MatMul(g, u)
	[loss] loss = ReduceSum<keepdims = 0>(v)
	[gradient] dr = Expand(loss, shape)
	[back] dp = Mul(dr, r)
}`

// TestRoofline holds the times of a profile to sums done by hand.
func TestRoofline(t *testing.T) {
	m, err := graph.Parse(costModel, "test")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	profile := &device.Profile{Name: "slow", BytesPerSec: 1000, LaunchSeconds: 0.25,
		Loops:    device.Rates{Float64: 10, Float32: 100, Float16: 200, BFloat16: 50},
		Products: device.Rates{Float64: 1, Float32: 4000, Float16: 1e4, BFloat16: 1}}
	p, err := planner.Make(m, types, planner.Options{Profile: profile})
	require.NoError(t, err)
	require.Equal(t, "slow", p.ProfileName())
	seconds := p.NodeSeconds()
	for label, want := range map[string]float64{
		"product":     2 * 64 * 32 * 16 / 4000.0, // arithmetic; the traffic would take 14.3 s
		"loop":        64 * 16 / 100.0,           // one operation an element; the traffic would take 8.2 s
		"view":        0,
		"constant":    0,
		"tiny":        0.25, // 2 operations and 16 bytes take less than a launch
		"double":      1000 / 10.0,
		"bf16":        4000 / 50.0,
		"halfproduct": 2 * 64 * 64 * 16 / 1e4,
	} {
		found := false
		for i := range m.Graph.Nodes {
			if m.Graph.NodeLabel(graph.NodeID(i)) == label {
				found = true
				require.InDelta(t, want, seconds[i], 1e-9, label)
			}
		}
		require.True(t, found, label)
	}
	profile.BytesPerSec = 10
	p, err = planner.Make(m, types, planner.Options{Profile: profile})
	require.NoError(t, err)
	for i := range m.Graph.Nodes {
		if m.Graph.NodeLabel(graph.NodeID(i)) == "loop" {
			require.InDelta(t, 2*64*16*4/10.0, p.NodeSeconds()[i], 1e-9, "a loop that is bound by memory")
		}
	}
}

// TestMeasuredCosts: measured nodes cost what was measured; the others cost their estimate times
// one factor, by which the estimates of the measured ones add up to what was measured; overheads
// are sums of these.
func TestMeasuredCosts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64Range(0, 1000).Draw(rt, "seed")
		m := graphtest.Training(rand.New(rand.NewPCG(seed, 3)),
			graphtest.Options{Nodes: rapid.IntRange(10, 80).Draw(rt, "nodes"), Layers: true})
		types, err := op.Infer(m)
		require.NoError(rt, err)
		n := len(m.Graph.Nodes)
		costs := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 5), rapid.Just(math.NaN()), rapid.Just(-1.0),
			rapid.Just(math.Inf(1))), n, n).Draw(rt, "costs")
		opts := planner.Options{Strategy: planner.Layerwise}
		estimated, err := planner.Make(m, types, opts)
		require.NoError(rt, err)
		opts.Costs, opts.CostSource = costs, planner.MeasuredPrefix+"t.json"
		p, err := planner.Make(m, types, opts)
		require.NoError(rt, err)
		require.Equal(rt, "measured:t.json", p.ProfileName())

		base, got := estimated.NodeSeconds(), p.NodeSeconds()
		var took, guessed float64
		missing := 0
		for i, c := range costs {
			if c >= 0 && c <= 5 {
				require.Equal(rt, c, got[i])
				if base[i] > 0 {
					took, guessed = took+c, guessed+base[i]
				}
			} else if base[i] > 0 {
				missing++
			}
		}
		for i, c := range costs {
			if !(c >= 0 && c <= 5) && took > 0 {
				require.InEpsilon(rt, 1+base[i]*took/guessed, 1+got[i], 1e-9)
			}
		}
		var step, again float64
		for _, s := range got {
			step += s
		}
		for _, pl := range p.Placements {
			for _, id := range pl.Nodes {
				again += got[id]
			}
		}
		require.InDelta(rt, step, p.Step.Seconds, 1e-9*step)
		require.InDelta(rt, again, p.Recompute.Seconds, 1e-9*(1+again))
		warned := false
		for _, w := range p.Warnings {
			warned = warned || strings.Contains(w, "have no measured time in t.json")
		}
		require.Equal(rt, missing > 0, warned)
	})
}

// TestCostFaults: costs that are not the graph's are refused, and without sizes there are no times.
func TestCostFaults(t *testing.T) {
	e, ok := examples.Lookup("mlp")
	require.True(t, ok)
	m, err := e.Build()
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	_, err = planner.Make(m, types, planner.Options{Costs: []float64{1}, Dims: symbolic.Env{"batch": 2}})
	require.ErrorContains(t, err, "1 measured costs for 146 nodes")
	p, err := planner.Make(m, types, planner.Options{})
	require.NoError(t, err)
	require.Nil(t, p.NodeSeconds())
}
