package kernels_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor/cuda/kernels"
)

// TestEntries: all that a module declares is read, and keeps to what every device from compute
// capability 7.0 on has.
func TestEntries(t *testing.T) {
	for _, module := range kernels.Modules() {
		image, err := kernels.PTX(module)
		require.NoError(t, err)
		entries, err := kernels.Entries(module)
		require.NoError(t, err)
		require.Equal(t, bytes.Count(image, []byte(".visible .entry")), len(entries),
			"%s: a kernel whose parameter is no struct, or which has several", module)
		for name, e := range entries {
			require.Positive(t, e.Params, name)
			require.LessOrEqual(t, e.Params, 4096, "%s: bytes of parameters", name)
			require.LessOrEqual(t, e.Threads, 1024, name)
			require.LessOrEqual(t, e.Shared, 48<<10, "%s: bytes of shared memory", name)
		}
	}
}

// TestEntryFacts reads kernels whose sources say what to find.
func TestEntryFacts(t *testing.T) {
	for _, c := range []struct {
		module, name string
		want         kernels.Entry
	}{
		// Two pointers, n; 32 partial sums.
		{"selftest", "selftest_block_sum", kernels.Entry{Params: 24, Threads: 256, Shared: 128}},
		{"softmax_f32", "softmax_f32",
			kernels.Entry{Params: entryOf(t, "softmax_f32", "softmaxcolumns_f32").Params, Threads: 512, Shared: 128}},
		// Five pointers, n, three u32; 32 partial sums of float64.
		{"loss_f32", "losssum_f32", kernels.Entry{Params: 64, Threads: 1024, Shared: 256}},
	} {
		require.Equal(t, c.want, entryOf(t, c.module, c.name), c.name)
	}
	_, err := kernels.Entries("none")
	require.ErrorContains(t, err, `"none"`)
}

func entryOf(t *testing.T, module, name string) kernels.Entry {
	entries, err := kernels.Entries(module)
	require.NoError(t, err)
	return entries[name]
}
