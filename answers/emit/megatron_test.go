package emit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/answers/emit"
	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
	"memopt/view/report"
)

// decoder is the plan of a traced step of a decoder with Megatron-LM's modules, which Python's tests write, with names
// and operators edited.
func decoder(t *testing.T, o pytorch.Options, edit ...string) *pytorch.Plan {
	t.Helper()
	return traced(t, "decoder", o, edit...)
}

func traced(t *testing.T, name string, o pytorch.Options, edit ...string) *pytorch.Plan {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".step.json")
	require.NoError(t, err)
	step, err := torchsim.ReadStep(strings.NewReader(strings.NewReplacer(edit...).Replace(string(data))))
	require.NoError(t, err)
	return pytorch.MakeTraced(context.Background(), step, name+".step.json", "", o)
}

// measured are the peaks that PyTorch has with Megatron-LM's mechanisms, by their flags.
func measured(t *testing.T, name string) map[string]int64 {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	require.NoError(t, err)
	peaks := map[string]int64{}
	require.NoError(t, json.Unmarshal(data, &peaks))
	return peaks
}

// flags are the words of an answer's array of flags.
func flags(t *testing.T, a *emit.Answer) string {
	t.Helper()
	_, list, ok := strings.Cut(a.Text, "RECOMPUTE_ARGS=(")
	require.True(t, ok, a.Text)
	list, ok = strings.CutSuffix(list, "\n)\n")
	require.True(t, ok, a.Text)
	return strings.Join(strings.Fields(list), " ")
}

// TestMegatronPeaks: the stated peaks of all settings are those that PyTorch has.
func TestMegatronPeaks(t *testing.T) {
	for _, name := range []string{"decoder", "latent"} {
		stated := emit.MegatronPeaks(traced(t, name, pytorch.Options{}), false, 0)
		peaks := measured(t, name+".peaks")
		require.Len(t, stated, len(peaks), name)
		for flags, peak := range peaks {
			require.InEpsilon(t, peak, stated[flags], 0.00001, "%s: %s", name, flags)
		}
	}
}

// TestMegatronMoved: the same where inputs of modules move to the host. While views are gathered for their copies, the
// tensors that have been copied are counted, too: two settings are 0.04 % lower than stated.
func TestMegatronMoved(t *testing.T) {
	for _, name := range []string{"decoder", "latent"} {
		peaks := measured(t, name+".moved")
		above, count := 0, 0
		for _, elements := range []int64{1, 4096} {
			stated := emit.MegatronPeaks(traced(t, name, pytorch.Options{}), true, elements)
			for flags, got := range stated {
				peak, ok := peaks[flags]
				if !ok {
					continue // not measured
				}
				count++
				require.InDelta(t, peak, got, 0.0004*float64(peak), "%s: %s", name, flags)
				if float64(got) > 1.00001*float64(peak) {
					above++
				}
				require.Greater(t, float64(got), 0.99999*float64(peak), "%s: %s", name, flags)
			}
		}
		require.GreaterOrEqual(t, count, len(peaks), "the step without moves is in both")
		require.LessOrEqual(t, above, 2, name)
	}
}

// TestMegatronMoves: inputs move where the user allows it, as many bytes as he allows, and the cheapest setting waits
// no longer than it must.
func TestMegatronMoves(t *testing.T) {
	ask := func(share float64, moves emit.Moves, edit ...string) *emit.Answer {
		p := traced(t, "latent", pytorch.Options{Share: share}, edit...)
		a, err := emit.Torch(context.Background(), target(t, "megatron"), p, moves, func() {})
		require.NoError(t, err)
		return a
	}
	const all, fast = 1 << 40, 1e15
	free := ask(0.6, emit.Moves{HostBudget: all, Link: fast})
	require.Contains(t, free.Text, "\n    --fine-grained-activation-offloading\n    --offload-modules ")
	require.Contains(t, free.Text, "\n    --min-offloaded-tensor-size 1\n")
	require.Contains(t, free.Text, " MiB move to the host; the step waits for copies for 0.0 % of its time.\n")
	require.Positive(t, free.Moved.Bytes)
	require.Contains(t, free.Text, "\n# "+report.Bytes(free.Moved.Bytes)+" move to the host")
	require.Zero(t, free.Moved.Waited)
	none := ask(0.6, emit.Moves{Link: fast})
	require.Nil(t, none.Moved)
	require.NotContains(t, none.Text, "offload")
	require.Greater(t, none.Overhead, free.Overhead+0.01)
	require.Equal(t, none.Text, ask(0.6, emit.Moves{HostBudget: all}).Text, "no link")
	slow := ask(0.6, emit.Moves{HostBudget: all, Link: 1e6})
	require.Equal(t, none.Overhead, slow.Overhead, "copies take longer than recomputation")
	some := ask(0.6, emit.Moves{HostBudget: 4 << 20, Link: fast})
	require.Contains(t, some.Text, "--offload-modules")
	require.Greater(t, some.Overhead, free.Overhead)
	low := ask(0.2, emit.Moves{HostBudget: all, Link: fast})
	require.False(t, low.Fits)
	require.Less(t, low.Peak, ask(0.2, emit.Moves{}).Peak)
	require.Positive(t, low.Moved.Bytes, "those of the lowest peak")
	waiting := ask(0.4, emit.Moves{HostBudget: all, Link: 1e10})
	require.Positive(t, waiting.Moved.Waited)
	require.Contains(t, waiting.Text, "waits for copies for "+report.Percent(waiting.Moved.Waited)+" of its time")
	require.Less(t, waiting.Moved.Waited, waiting.Overhead+1e-9)

	text := ask(0.6, emit.Moves{HostBudget: all, Link: fast}, "mlp.experts", "mlp.others").Text
	require.Contains(t, text, "# Not moved, since less than two layers have such a part: expert_fc1, moe_act.\n")
	text = ask(0.9, emit.Moves{HostBudget: all, Link: fast}, `"packed": `, `"other": `).Text
	require.Contains(t, text, "# No moves were tried, since the file does not list the tensors that autograd saves: ")
}

// TestMegatron: for every budget the answer is the cheapest setting of all whose peak, as PyTorch measured it with
// Megatron-LM's checkpoints, is within it; and the stated peak is the measured one.
func TestMegatron(t *testing.T) {
	peaks, more := measured(t, "decoder.peaks"), map[string]float64{}
	held := decoder(t, pytorch.Options{}).Program.Held
	within := map[int64]float64{}
	for _, measured := range peaks {
		a := answer(t, "megatron", decoder(t, pytorch.Options{Total: held + measured + measured/1000}))
		require.True(t, a.Fits)
		within[measured], more[flags(t, a)] = a.Overhead, a.Overhead
		require.InEpsilon(t, peaks[flags(t, a)], a.Peak-a.Held, 0.0005, flags(t, a))
	}
	require.Greater(t, len(more), 7, "many settings are the best ones for a budget")
	for limit, overhead := range within {
		for other, m := range more {
			if peaks[other] <= limit {
				require.GreaterOrEqual(t, m, overhead, other)
			}
		}
	}
	require.Contains(t, more, "")
	require.Zero(t, more[""])
}

const notTried = "# Not tried, since not every layer has such a part that could run again: "

// TestMegatronWords: parts of layers are found by the names that transformers gives them; the text says which are not
// there. An attention without a module of its own is between its products.
func TestMegatronWords(t *testing.T) {
	const few = "--recompute-granularity selective --recompute-modules "
	for name, x := range map[string]struct {
		edit          []string
		share         float64
		flags, remark string
	}{
		"megatron": {nil, 0.5, few + "core_attn layernorm mlp", ""},
		"transformers": {[]string{"self_attention", "self_attn", "pre_mlp_layernorm", "post_attention_layernorm",
			"core_attention", "anything"}, 0.5, few + "core_attn mlp", ""},
		"experts": {[]string{"mlp.linear_fc1", "mlp.experts"}, 0.5, few + "core_attn layernorm moe", ""},
		"no attention": {[]string{"self_attention", "mixer"}, 0.9,
			"--recompute-granularity full --recompute-method block --recompute-num-layers 1",
			"core_attn, layernorm, mlp"},
		"no norms": {[]string{"normalization.LayerNorm", "normalization.Scale"}, 0.52, few + "core_attn mlp",
			"layernorm"},
		"one layer without": {[]string{"layers.2.mlp", "layers.2.perceptron"}, 0.75, few + "core_attn", "layernorm"},
		"shared": {[]string{"mlp.linear_fc2", "mlp.shared_experts", "mlp.linear_fc1", "mlp.experts"}, 0.5,
			few + "core_attn layernorm moe", ""},
	} {
		a := answer(t, "megatron", decoder(t, pytorch.Options{Share: x.share}, x.edit...))
		require.True(t, a.Fits, name)
		require.Equal(t, x.flags, flags(t, a), name)
		if x.remark == "" {
			require.NotContains(t, a.Text, "# Not tried", name)
		} else {
			require.Contains(t, a.Text, notTried+x.remark+".\n", name)
		}
	}
}

// TestMegatronFine: projections up and the activations of experts are found by the names that transformers gives them,
// and by their products; the text says where they are there and cannot run again.
func TestMegatronFine(t *testing.T) {
	peaks := func(edit ...string) map[string]int64 {
		return emit.MegatronPeaks(traced(t, "latent", pytorch.Options{}, edit...), false, 0)
	}
	const few = "--recompute-granularity selective --recompute-modules "
	transformers := []string{"self_attention", "self_attn", "linear_kv_down_proj", "kv_a_proj_with_mqa",
		"linear_q_down_proj", "q_a_proj", "q_layernorm", "q_a_layernorm", "kv_layernorm", "kv_a_layernorm"}
	require.Equal(t, peaks(), peaks(transformers...))
	require.Equal(t, peaks(), peaks("aten.bmm", "aten._grouped_mm", "core_attention", "core_attn"),
		"the products of experts in transformers")

	all := peaks()
	other := peaks("linear_kv_down_proj", "key_value")
	require.NotContains(t, other, few+"mla_up_proj", "the attention is not latent")
	require.Equal(t, all[few+"moe_act"], other[few+"moe_act"])
	other = peaks("layers.2.self_attention.linear_kv_down_proj", "layers.2.self_attention.key_value")
	require.NotContains(t, other, few+"mla_up_proj", "one layer has another attention")
	require.Less(t, peaks("q_layernorm", "q_scale")[few+"mla_up_proj"], all[few+"mla_up_proj"],
		"a norm of another name runs again, too")

	for _, x := range []struct{ word, old, late string }{
		{"moe_act", `"reads": [173, 166, 172]`, `"reads": [173, 166, 172, 171]`},
		{"mla_up_proj", `"call": 49, "reads": [204]`, `"call": 49, "reads": [204, 193]`},
	} {
		a := answer(t, "megatron", traced(t, "latent", pytorch.Options{Share: 0.9}, x.old, x.late))
		require.Contains(t, a.Text, notTried+x.word+".\n")
	}
	held := peaks(`"reads": [61, 203, 60]`, `"reads": [61, 203, 60, 193]`)
	require.Contains(t, held, few+"mla_up_proj", "a variable of the attention holds a result")
	require.GreaterOrEqual(t, held[few+"mla_up_proj"], all[few+"mla_up_proj"])
}

// TestMegatronErrors: models without layers, and budgets that no setting reaches.
func TestMegatronErrors(t *testing.T) {
	for _, edit := range [][]string{{`"layers.`, `"layers.x`},
		{`"layers.1`, `"a.1`, `"layers.2`, `"b.1`, `"layers.3`, `"c.1`}} {
		p := decoder(t, pytorch.Options{Share: 1}, edit...)
		_, err := emit.Torch(context.Background(), target(t, "megatron"), p, emit.Moves{}, func() {})
		require.ErrorIs(t, err, emit.ErrNoRepeated)
	}
	p := decoder(t, pytorch.Options{Share: 0.1})
	a := answer(t, "megatron", p)
	require.False(t, a.Fits)
	require.Empty(t, a.Text)
	require.Greater(t, a.Peak, p.Limit)
	require.Less(t, a.Peak, a.Baseline.Peak/2)
}

// TestMegatronStopped: a search that is stopped has the first setting that fits.
func TestMegatronStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	found := 0
	p := decoder(t, pytorch.Options{Share: 0.9})
	a, err := emit.Torch(ctx, target(t, "megatron"), p, emit.Moves{}, func() { found++ })
	require.NoError(t, err)
	require.True(t, a.Fits)
	require.Equal(t, 1, found)
	var b bytes.Buffer
	require.NoError(t, a.JSON(&b))
	require.Contains(t, b.String(), `"target": "megatron"`)
}
