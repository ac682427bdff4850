package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	sizedJob     = "train example:transformer-small --data example:text --batch 2 --max-steps 2 -q "
	documentsJob = sizedJob + "--blocks documents "
)

// TestTrainSizesUsage: a range of --dim is for documents, for one symbol, one process and memopt's own executors.
func TestTrainSizesUsage(t *testing.T) {
	exitFolder(t)
	require.Zero(t, inProcess(t.Context(), nil, "plan example:mlp --dim batch=256..512 --plans 2 --budget 500MiB "+
		"--time-limit 0 --save-plan plans").code)
	for line, want := range map[string]string{
		documentsJob + "--dim batch=2..3,seq=12..16": "--dim: batch and seq have ranges: batches differ in the size " +
			"of one symbol; give the others one number each",
		documentsJob + "--dim seq=12": "--blocks documents: documents differ in length: give the range of a " +
			"batch's, as in --dim seq=16..16",
		documentsJob + "--dim seq=40": "as in --dim seq=16..40",
		sizedJob + "--dim seq=12..16": "--dim seq=12..16: all samples of the data have one size: give one " +
			"number, or take documents as samples (--blocks documents)",
		documentsJob + "--dim seq=12..16 --budget 90% --link 1GB/s --host-budget 1GiB": "--host-budget: steps of " +
			"different sizes move no values to the host: give one number in --dim",
		documentsJob + "--dim seq=12..16 --dry-run --ranks 2": "--dim seq=12..16: several ranks take batches of " +
			"one size: give one number",
		documentsJob + "--dim seq=12..16 --plan plans": "its plans are for sizes of batch, and --dim gives a " +
			"range of seq",
	} {
		got := inProcess(t.Context(), nil, line)
		require.NotZero(t, got.code, line)
		require.Contains(t, strings.Join(strings.Fields(got.errors), " "), want, line)
	}
}

// TestTrainSizes: batches have at most 32 lengths, within the range.
func TestTrainSizes(t *testing.T) {
	exitFolder(t)
	var text strings.Builder
	for n := range 60 {
		text.WriteString(strings.Repeat("a", 9+n) + "\n")
	}
	require.NoError(t, os.WriteFile("lines.txt", []byte(text.String()), 0o644))
	for last, count := range map[int]int{41: 32, 42: 17} {
		job := fmt.Sprintf("job%d", last)
		line := strings.Replace(documentsJob, "example:text", "lines.txt", 1)
		got := inProcess(t.Context(), nil, fmt.Sprintf("%s--dim seq=10..%d -o %s", line, last, job))
		require.Zero(t, got.code, got.errors)
		data, err := os.ReadFile(job + "/checkpoints/step-2/checkpoint.json")
		require.NoError(t, err)
		var m struct{ Options struct{ Sizes []int64 } }
		require.NoError(t, json.Unmarshal(data, &m))
		sizes := m.Options.Sizes
		require.Len(t, sizes, count)
		require.EqualValues(t, 10, sizes[0])
		require.EqualValues(t, last, sizes[count-1])
	}
}
