package emit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/answers/emit"
	_ "memopt/internal/test/rapidflags"
	"memopt/python/pytorch"
	torchsim "memopt/sim/torch"
)

// TestHostileSteps: steps whose calls, storages and operators are bent make an error or a setting for each target, and
// no panic.
func TestHostileSteps(t *testing.T) {
	data, err := os.ReadFile("testdata/decoder.step.json")
	require.NoError(t, err)
	settings := 0
	rapid.Check(t, func(r *rapid.T) {
		var file map[string]any
		require.NoError(r, json.Unmarshal(data, &file))
		list := func(name string) []any { return file[name].([]any) }
		storages, calls, backward := len(list("storages")), len(list("calls")), int(file["backward"].(float64))
		ops := []string{"aten.bmm.default", "aten.add_.Tensor", "aten.add.Tensor", "aten.gelu_.default", "x", ""}
		for range rapid.IntRange(1, 60).Draw(r, "edits") {
			step := rapid.SampledFrom(list("steps")).Draw(r, "step").(map[string]any)
			switch rapid.IntRange(0, 6).Draw(r, "kind") {
			case 0:
				step["op"] = rapid.SampledFrom(ops).Draw(r, "op")
			case 1:
				step["call"] = rapid.IntRange(-1, calls-1).Draw(r, "call")
			case 2:
				step["reads"] = rapid.SliceOfN(rapid.IntRange(0, storages-1), 0, 4).Draw(r, "reads")
			case 3:
				step["makes"] = rapid.SliceOfN(rapid.IntRange(0, storages-1), 0, 3).Draw(r, "makes")
			case 4:
				if step["of"] != nil {
					step["of"] = rapid.IntRange(0, backward-1).Draw(r, "of")
				}
			case 5:
				at := rapid.IntRange(1, calls-1).Draw(r, "inner")
				list("calls")[at].(map[string]any)["outer"] = rapid.IntRange(-1, at-1).Draw(r, "outer")
			case 6:
				at := rapid.IntRange(0, calls-1).Draw(r, "named")
				names := []string{"layers.0", "layers.1", "layers.1.mlp", "layers.0.self_attention", "a.7", "", "."}
				list("calls")[at].(map[string]any)["module"] = rapid.SampledFrom(names).Draw(r, "name")
			}
		}
		if rapid.Bool().Draw(r, "short") {
			file["backward"] = rapid.IntRange(1, backward).Draw(r, "backward")
		}
		bent, err := json.Marshal(file)
		require.NoError(r, err)
		step, err := torchsim.ReadStep(bytes.NewReader(bent))
		if err != nil {
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // the first setting that fits
		share := rapid.Float64Range(0.05, 1).Draw(r, "share")
		p := pytorch.MakeTraced(ctx, step, "bent", "", pytorch.Options{Share: share})
		for _, name := range []string{"torch", "torch-policy", "torch-remat", "torchtitan", "megatron"} {
			x, err := emit.Lookup(name)
			require.NoError(r, err)
			a, err := emit.Torch(ctx, x, p, emit.Moves{HostBudget: 1 << 40, Link: 1e9}, func() {})
			if err == nil && a.Fits {
				settings++
				require.LessOrEqual(r, a.Peak, p.Limit, name)
			}
		}
	})
	require.Positive(t, settings)
}
