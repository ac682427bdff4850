package emit

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/python/pytorch"
)

// TestRematParts: the parts of a block are the modules in it that a step calls once, by names within the block.
func TestRematParts(t *testing.T) {
	parts := func(edit ...string) (out [][]string) {
		step := readStep(t, "decoder", edit...)
		s := newRemat(pytorch.MakeTraced(context.Background(), step, "step.json", "", pytorch.Options{}))
		for i := range s.blocks {
			var names []string
			for _, part := range s.blocks[i].parts {
				names = append(names, part.name)
			}
			out = append(out, names)
		}
		return out
	}
	all := parts()
	require.Len(t, all, 4)
	require.Equal(t, all[1], all[0])
	require.Contains(t, all[0], "input_layernorm")
	require.Contains(t, all[0], "mlp.linear_fc2")
	twice := parts(`"module": "layers.0.pre_mlp_layernorm", "outer"`, `"module": "layers.0.input_layernorm", "outer"`)
	require.NotContains(t, twice[0], "input_layernorm")
	require.NotContains(t, twice[0], "pre_mlp_layernorm")
	require.Contains(t, twice[0], "mlp.linear_fc2")
	require.Equal(t, all[1:], twice[1:])
	shared := parts(`"module": "layers.1.input_layernorm", "outer"`, `"module": "head", "outer"`)
	require.NotContains(t, shared[1], "head")
	require.NotContains(t, shared[1], "")
	require.Contains(t, shared[1], "mlp.linear_fc2")
}

// TestNoModules: a step outside of all modules has no settings but the one without recomputation.
func TestNoModules(t *testing.T) {
	for _, share := range []float64{1, 0.5} {
		for _, target := range targets {
			if target.torch == nil {
				continue
			}
			step := readStep(t, "decoder")
			for i := range step.Steps {
				step.Steps[i].Call = -1
			}
			p := pytorch.MakeTraced(context.Background(), step, "step.json", "", pytorch.Options{Share: share})
			a, err := Torch(context.Background(), target, p, Moves{}, func() {})
			if err != nil {
				require.True(t, errors.Is(err, ErrNoLayers) || errors.Is(err, ErrNoRepeated), target.Name)
				continue
			}
			require.Equal(t, share == 1, a.Fits, target.Name)
			require.Equal(t, a.Baseline.Peak, a.Peak)
		}
	}
}
