package emit_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/answers/emit"
	"memopt/python/pytorch"
)

// TestRematPeaks: peaks are those that PyTorch measured with torch_remat, for modules that are saved in all blocks
// (bench/torchplans/torch_remat_peaks.py).
func TestRematPeaks(t *testing.T) {
	data, err := os.ReadFile("testdata/decoder.remat.json")
	require.NoError(t, err)
	peaks := map[string]int64{}
	require.NoError(t, json.Unmarshal(data, &peaks))
	require.Greater(t, len(peaks), 30)
	p := decoder(t, pytorch.Options{Share: 0.3})
	for saved, measured := range peaks {
		u := emit.RematUsage(p, strings.Split(saved, " "))
		require.InEpsilon(t, measured, u.Peak-p.Program.Held, 0.0001, saved)
	}
}

// rematText reads the setting of a text: the blocks, and the modules that each group of them saves.
func rematText(t *testing.T, text string) (blocks []string, saved [][]string) {
	t.Helper()
	_, list, ok := strings.Cut(text, "REGIONS = [\n")
	require.True(t, ok, text)
	list, _, ok = strings.Cut(list, "\n]\n")
	require.True(t, ok, text)
	first := false
	for line := range strings.Lines(list) {
		switch line = strings.Trim(line, " ,\n"); {
		case line == "(":
			first = true
		case line == "]" && first, line == "[]":
			if first = false; line == "[]" {
				saved = append(saved, nil)
			}
		case line == "[" && !first:
			saved = append(saved, nil)
		case strings.HasPrefix(line, `"`) && first:
			blocks = append(blocks, strings.Trim(line, `"`))
		case strings.HasPrefix(line, `"`):
			saved[len(saved)-1] = append(saved[len(saved)-1], strings.Trim(line, `"`))
		}
	}
	return blocks, saved
}

// TestRemat: settings are within the budget, and cost no more than all blocks without regions that are saved; a larger
// budget never costs more by much.
func TestRemat(t *testing.T) {
	without := emit.RematUsage(decoder(t, pytorch.Options{Share: 0.3}), nil)
	for _, share := range []float64{0.9, 0.7, 0.5, 0.36} {
		p := decoder(t, pytorch.Options{Share: share})
		a := answer(t, "torch-remat", p)
		require.True(t, a.Fits, share)
		require.LessOrEqual(t, a.Peak, p.Limit)
		if without.Peak <= p.Limit {
			require.LessOrEqual(t, a.Overhead*p.Step, without.Seconds+1e-15)
		}
		blocks, saved := rematText(t, a.Text)
		require.NotEmpty(t, blocks)
		for _, name := range blocks {
			require.Regexp(t, `^layers\.[0-3]$`, name)
		}
		require.NotEmpty(t, saved)
		require.Contains(t, a.Text, "recompute_state_hooks=(Generators(),)", "blocks drop")
		require.Equal(t, a.Text, answer(t, "torch-remat", decoder(t, pytorch.Options{Share: share})).Text)
	}
	a := answer(t, "torch-remat", decoder(t, pytorch.Options{Share: 1}))
	require.Zero(t, a.Overhead)
	require.Contains(t, a.Text, "REGIONS = [\n]\n")
	a = answer(t, "torch-remat", decoder(t, pytorch.Options{Share: 0.1}))
	require.False(t, a.Fits)
	require.Empty(t, a.Text)
}

// TestRematUnsavable: a module that writes over results of another one is never saved, nor one that runs twice.
func TestRematUnsavable(t *testing.T) {
	edits := map[string][]string{
		"in place": {"aten.gelu.default", "aten.gelu_.default"},
		"twice":    {`"layers.0.pre_mlp_layernorm", "outer"`, `"layers.0.input_layernorm", "outer"`},
	}
	for name, edit := range edits {
		for _, share := range []float64{0.9, 0.6} {
			_, saved := rematText(t, answer(t, "torch-remat", decoder(t, pytorch.Options{Share: share}, edit...)).Text)
			for _, list := range saved {
				if name == "in place" {
					require.NotContains(t, list, "mlp", name)
				}
			}
		}
	}
}

// TestRematStopped: a search that is stopped has the first setting that fits.
func TestRematStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	found := 0
	p := decoder(t, pytorch.Options{Share: 0.6})
	a, err := emit.Torch(ctx, target(t, "torch-remat"), p, emit.Moves{}, func() { found++ })
	require.NoError(t, err)
	require.True(t, a.Fits)
	require.Positive(t, found)
}
