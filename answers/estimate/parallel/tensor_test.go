package parallel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/estimate/parallel"
)

func split(t *testing.T, m *memopt.Model, l parallel.Layout, o parallel.Options) *parallel.Result {
	t.Helper()
	step, params, err := microStep(m)
	require.NoError(t, err)
	r, err := parallel.Split(t.Context(), step, params, l, o)
	require.NoError(t, err)
	return r
}

// TestTensorParallelIsPhysical: what the rules say of a whole model is what a model takes whose
// weights and heads were cut for one rank when it was built, to the byte.
func TestTensorParallelIsPhysical(t *testing.T) {
	for _, p := range []shape{
		{a: 4, b: 2, h: 32, L: 2, s: 8, v: 64, ffn: 128},
		{a: 4, b: 2, h: 32, L: 2, s: 8, v: 64, ffn: 128, tied: true},
		{a: 8, b: 1, h: 64, L: 3, s: 24, v: 96, ffn: 96, dropout: 0.1},
		{a: 4, b: 3, h: 16, L: 1, s: 6, v: 1024, ffn: 64, dropout: 0.1, tied: true},
	} {
		for _, ways := range []int{2, 4} {
			t.Run(fmt.Sprintf("%+v/%d", p, ways), func(t *testing.T) {
				cut := p
				cut.cut = ways
				want := split(t, transformer(t, cut), parallel.Layout{}, parallel.Options{}).Stages[0]
				r := split(t, transformer(t, p), parallel.Layout{TP: ways}, parallel.Options{})
				got := r.Stages[0]
				for _, w := range r.Weights {
					assert.Empty(t, w.Why, w.Names)
				}
				assert.Equal(t, want.Params, got.Params, "parameters")
				assert.Equal(t, want.Chunks[0].Stash, got.Chunks[0].Stash, "stash")
				assert.Equal(t, want.Chunks[0].Peak, got.Chunks[0].Peak, "peak")
				// Lists that tell Reshape and Split sizes are constants, and equal ones are one: not all
				// are equal in both graphs.
				assert.InDelta(t, want.Constants, got.Constants, 64)
				want.Parts.Weights -= want.Constants
				got.Parts.Weights -= got.Constants
				assert.Equal(t, want.Parts, got.Parts)
			})
		}
	}
}
