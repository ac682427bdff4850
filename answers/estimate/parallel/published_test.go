package parallel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/estimate/parallel"
	"memopt/answers/estimate/parts"
	"memopt/graph"
)

// The formulas of Korthikanti and others, Reducing Activation Recomputation in Large Transformer
// Models (2022, arXiv 2205.05198), count what a layer stashes for its backward half with 16-bit
// activations and masks of one byte. Each test counts the stash of a real graph of such a layer, and
// says what it has that the formula has not.

// statistics is what the formulas leave out (the paper says so in section 4): the means and inverse
// deviations of the two norms, in float32.
func statistics(p shape) int { return 2 * 2 * 4 * p.s * p.b }

// layerStash is the stash of one layer: of three less two.
func layerStash(t *testing.T, p shape, l parallel.Layout) int64 {
	t.Helper()
	p.L = 2
	two := split(t, transformer(t, p), l, parallel.Options{})
	p.L = 3
	three := split(t, transformer(t, p), l, parallel.Options{})
	for _, w := range three.Weights {
		assert.Empty(t, w.Why, w.Names)
	}
	return three.Stages[0].Chunks[0].Stash - two.Stages[0].Chunks[0].Stash
}

// models are those of the paper's table 3: 22B, 175B (GPT-3), 530B (MT-NLG) and 1T, with micro-batch,
// tensor parallel size 8, sequences of 2048 tokens and a vocabulary of 51200.
var models = []struct {
	name string
	shape
}{
	{"22B", shape{a: 64, b: 4, h: 6144, s: 2048, v: 51200, ffn: 4 * 6144, dropout: 0.1, half: true}},
	{"175B", shape{a: 96, b: 1, h: 12288, s: 2048, v: 51200, ffn: 4 * 12288, dropout: 0.1, half: true}},
	{"530B", shape{a: 128, b: 1, h: 20480, s: 2048, v: 51200, ffn: 4 * 20480, dropout: 0.1, half: true}},
	{"1T", shape{a: 160, b: 1, h: 25600, s: 2048, v: 51200, ffn: 4 * 25600, dropout: 0.1, half: true}},
	{"small", shape{a: 8, b: 3, h: 64, s: 16, v: 128, ffn: 256, dropout: 0.1, half: true}},
}

// TestActivationsPerLayer is table 2 of the paper, to the byte:
//
//	no parallelism                sbh(34 + 5as/h)
//	tensor parallel               sbh(10 + 24/t + 5as/(ht))
//	tensor and sequence parallel  sbh/t(34 + 5as/h)
func TestActivationsPerLayer(t *testing.T) {
	for _, m := range models {
		t.Run(m.name, func(t *testing.T) {
			p, ways := m.shape, 8
			sbh, core := p.s*p.b*p.h, 5*p.a*p.s*p.s*p.b
			assert.EqualValues(t, 34*sbh+core+statistics(p), layerStash(t, p, parallel.Layout{}))
			assert.EqualValues(t, 10*sbh+24*sbh/ways+core/ways+statistics(p),
				layerStash(t, p, parallel.Layout{TP: ways}))
			assert.EqualValues(t, (34*sbh+core+statistics(p))/ways,
				layerStash(t, p, parallel.Layout{TP: ways, SequenceParallel: true}))
		})
	}
}

// TestActivationsByPart is section 4.1 of the paper: the attention block stashes 11sbh + 5as²b, the
// feed-forward part 19sbh, the two norms 4sbh. The graph hands what a norm makes to linears, so what
// the paper counts for these as the linears' inputs is made by the norms' nodes, and what it counts
// as the norms' inputs is made by Dropout and Add.
func TestActivationsByPart(t *testing.T) {
	p := shape{a: 8, b: 3, h: 64, L: 2, s: 16, v: 128, ffn: 256, dropout: 0.1, half: true}
	step, _, err := microStep(transformer(t, p))
	require.NoError(t, err)
	plan, err := step.Plan(t.Context(), nil, memopt.PlanOptions{})
	require.NoError(t, err)
	sum := map[string]int64{}
	for _, st := range plan.Stashed {
		name := step.Graph.ValueName(st.Value)
		for suffix, part := range map[string]string{
			"ln_1/y": "attention", "attn/tq": "attention", "attn/tk": "attention", "attn/tv": "attention",
			"attn/joined": "attention", "attn/proj/Dropout_mask": "attention",
			"attn/probs": "core", "attn/Dropout_y": "core", "attn/Dropout_mask": "core",
			"ln_2/y": "mlp", "fc/z": "mlp", "gelu": "mlp", "out/Dropout_mask": "mlp",
			"mid": "norms", "h.0/x": "norms", // the input of the layer behind is that of its first norm
			"LayerNormalization_output_1": "statistics", "LayerNormalization_output_2": "statistics",
		} {
			second := strings.HasSuffix(name, suffix) && strings.Contains(name, "h.1/")
			if second || suffix == "h.0/x" && name == suffix {
				sum[part] += plan.Sizes.Bytes[st.Value]
			}
		}
	}
	sbh, as2b := int64(p.s*p.b*p.h), int64(p.a*p.s*p.s*p.b)
	assert.Equal(t, map[string]int64{"attention": 11 * sbh, "core": 5 * as2b, "mlp": 19 * sbh, "norms": 4 * sbh,
		"statistics": int64(statistics(p))}, sum)
	// Selective recomputation drops the core, full recomputation all but the layer's input.
	assert.Equal(t, 34*sbh, sum["attention"]+sum["mlp"]+sum["norms"])
	input, ok := step.Graph.Lookup("h.0/x")
	require.True(t, ok)
	assert.Equal(t, 2*sbh, plan.Sizes.Bytes[input])
}

// TestSelectiveSavings: section 5 of the paper: 5as/h is 80 for GPT-3 and 64 for MT-NLG, so that
// selective recomputation saves 70 % and 65 % of the activations.
func TestSelectiveSavings(t *testing.T) {
	for _, c := range []struct {
		name  string
		share int
		saves string
	}{{"175B", 80, "70%"}, {"530B", 64, "65%"}} {
		for _, m := range models {
			if m.name != c.name {
				continue
			}
			p := m.shape
			sbh := int64(p.s * p.b * p.h)
			stash := layerStash(t, p, parallel.Layout{}) - int64(statistics(p))
			core := stash - 34*sbh
			assert.Equal(t, int64(c.share)*sbh, core)
			assert.Equal(t, c.saves, fmt.Sprintf("%.0f%%", 100*float64(core)/float64(stash)), c.name)
		}
	}
}

// TestMegatronActivations: Megatron-LM's theoretical_memory_usage.py counts s·b·h·(18 + 4·ffn/h) for
// a layer, divided by the tensor parallel size, with sequence parallel and selective recomputation:
// what a layer stashes without the attention's core. The count is per layer for any width ffn.
func TestMegatronActivations(t *testing.T) {
	for _, ffn := range []int{64, 192, 256, 384} {
		p := shape{a: 8, b: 2, h: 64, s: 32, v: 128, ffn: ffn, dropout: 0.1, half: true}
		for _, ways := range []int{1, 4} {
			l := parallel.Layout{TP: ways, SequenceParallel: ways > 1}
			core := 5 * p.a * p.s * p.s * p.b / ways
			got := layerStash(t, p, l) - int64(core) - int64(statistics(p)/ways)
			assert.EqualValues(t, p.s*p.b*(18*p.h+4*ffn)/ways, got, "ffn %d, t %d", ffn, ways)
		}
	}
}

// TestMegatronInFlight: the same program multiplies the activations of the first stage by the size of
// the pipeline, interleaved by p(1 + (p−1)/(pv)), for many micro-batches: of the first of p stages,
// whose layers are L/p.
func TestMegatronInFlight(t *testing.T) {
	p := shape{a: 4, b: 2, h: 32, L: 8, s: 16, v: 64, ffn: 128, dropout: 0.1, half: true}
	for _, l := range []parallel.Layout{{PP: 4, Microbatches: 16}, {PP: 2, Interleave: 4, Microbatches: 16},
		{PP: 4, Interleave: 2, Microbatches: 16}, {PP: 4, Microbatches: 2}} {
		l = l.WithDefaults()
		r := split(t, transformer(t, p), l, parallel.Options{})
		factor := float64(l.PP)
		if l.Interleave > 1 {
			factor *= 1 + float64(l.PP-1)/float64(l.PP*l.Interleave)
		}
		factor = min(factor, float64(l.Microbatches))
		assert.InDelta(t, factor, float64(r.Stages[0].InFlight)/float64(l.Interleave), 1e-9, "%+v", l)
	}
}

// cost is what a parameter takes in 16 bits with Adam in 32: Megatron-LM accumulates gradients in
// float32, ZeRO's paper in float16.
func cost(gradient int64) func(graph.DType) parts.PerParameter {
	return func(graph.DType) parts.PerParameter {
		return parts.PerParameter{Weight: 2, Gradient: gradient, Master: 4, Moments: 8}
	}
}

// TestMegatronStates: theoretical_memory_usage.py: 18 bytes for each parameter, and 6 + 12/DP with
// the distributed optimizer, which is ZeRO 1.
func TestMegatronStates(t *testing.T) {
	m := transformer(t, shape{a: 4, b: 2, h: 32, L: 2, s: 16, v: 64, ffn: 128, half: true})
	for _, dp := range []int{1, 4, 16} {
		plain := split(t, m, parallel.Layout{DP: dp}, parallel.Options{Cost: cost(4)}).Stages[0]
		assert.Equal(t, 18*plain.Params, states(&plain))
		zero := split(t, m, parallel.Layout{DP: dp, Zero: 1}, parallel.Options{Cost: cost(4)}).Stages[0]
		assert.Equal(t, 6*zero.Params+12*zero.Params/int64(dp), states(&zero), "DP %d", dp)
	}
}

func states(st *parallel.Stage) int64 {
	p := &st.Parts
	return p.Weights - p.Inputs - st.Constants + p.Gradients + p.State
}

// TestZeRO is figure 1 of Rajbhandari and others, ZeRO: Memory Optimizations Toward Training Trillion
// Parameter Models (2020, arXiv 1910.02054): 7.5 billion parameters on 64 devices, in GB of 10^9.
// What stage 3 gathers is not in the figure, and is counted beside it.
func TestZeRO(t *testing.T) {
	text := `<ir_version: 8, opset_import: ["": 20]>
g (float16[1, 75000] x, float16[75000, 100000] w) => (float16 loss) {
  y = MatMul (x, w)
  loss = ReduceMean <keepdims = 0> (y)
}`
	g, err := graph.Parse(text, "7.5B")
	require.NoError(t, err)
	m, err := memopt.New(g, memopt.Options{})
	require.NoError(t, err)
	for stage, want := range []string{"120.0", "31.4", "16.6", "1.9"} {
		step, _, err := microStep(m)
		require.NoError(t, err)
		r, err := parallel.Split(t.Context(), step, []string{"w"}, parallel.Layout{DP: 64, Zero: stage},
			parallel.Options{Cost: cost(2)})
		require.NoError(t, err)
		st := &r.Stages[0]
		require.EqualValues(t, 7_500_000_000, st.Params)
		assert.Equal(t, want, fmt.Sprintf("%.1f", float64(states(st))/1e9), "ZeRO %d", stage)
		if stage == 3 {
			assert.EqualValues(t, 2*2*7_500_000_000, st.Gathered, "one layer, twice")
		}
	}
}
