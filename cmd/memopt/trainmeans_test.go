package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
)

// meansJob trains on 8 rows of 4 labels, of which many are ignored and the last half of the rows has few.
const meansJob = "train lm.onnx --data data --optimizer sgd --learning-rate 1 --weight-decay 0 --max-grad-norm 0 " +
	"--lr-scheduler constant --shuffle=false --max-steps 1 --threads 1 -q -O json "

// inCase copies a folder of testdata and goes there.
func inCase(t *testing.T, name string) {
	t.Helper()
	from, err := filepath.Abs(filepath.Join("testdata", "train", name))
	require.NoError(t, err)
	exitFolder(t)
	require.NoError(t, os.CopyFS(".", os.DirFS(from)))
}

// jobEnd has the fields of a job's report.
type jobEnd struct {
	Steps, Skipped int64
	Loss           any      `json:"loss_last"` // a number, or "NaN"
	Eval           *float64 `json:"eval_loss_last"`
	Saved          *string  `json:"checkpoint"`
}

// runJob runs a line that ends well.
func runJob(t *testing.T, line string) (end jobEnd) {
	t.Helper()
	got := inProcess(t.Context(), nil, line)
	require.Zero(t, got.code, got.errors)
	require.NoError(t, json.Unmarshal([]byte(got.out), &end))
	return end
}

// TestTokenMeans: how rows are put into batches changes neither the update nor the loss of an evaluation.
func TestTokenMeans(t *testing.T) {
	inCase(t, "token_means")
	begin := runJob(t, "train lm.onnx --data data --learning-rate 0 --max-steps 1 -o begin -q -O json")
	require.NotNil(t, begin.Saved)
	before := saved(t, "begin", "w")
	for i, flags := range []string{"--batch 8", "--batch 4 --gradient-accumulation-steps 2",
		"--batch 3 --gradient-accumulation-steps 3", "--batch 4 --gradient-accumulation-steps 2 --reduce exact"} {
		job := fmt.Sprint("job", i)
		end := runJob(t, meansJob+flags+" --eval-data data -o "+job)
		require.InDelta(t, 0.19708, before[0]-saved(t, job, "w")[0], 1e-5, flags)
		require.InEpsilon(t, 3.941038, end.Loss.(float64), 1e-6, flags)
		require.InEpsilon(t, 3.048184, *end.Eval, 1e-6, flags)
		require.Equal(t, fmt.Sprintf("%.5f", *end.Eval), fmt.Sprintf("%.5f", *runJob(t,
			fmt.Sprintf("train --resume -o %s --eval-only -q -O json", job)).Eval), flags)
	}
	end := runJob(t, meansJob+"--batch 4 --eval-data data")
	require.InDelta(t, 3.1503, *end.Eval, 5e-5)
}

// TestSkippedMicroBatch: an update of which a micro-batch was left out is counted, in the metrics and at the end.
func TestSkippedMicroBatch(t *testing.T) {
	inCase(t, "skipped_micro_batch")
	const line = "train mlp.onnx --data nan.npz --shuffle=false --batch 7 --epochs 1 --on-nan skip " +
		"--learning-rate 0.01 --lr-scheduler constant --logging-steps 1 -q -O json -o job%d " +
		"--gradient-accumulation-steps %d"
	for _, micros := range []int{1, 2} {
		require.Equal(t, int64(1), runJob(t, fmt.Sprintf(line, micros, micros)).Skipped)
		text, err := os.ReadFile(fmt.Sprintf("job%d/metrics.jsonl", micros))
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(text), `"skipped":1`), "%s", text)
	}
	got := inProcess(t.Context(), nil, strings.Replace(fmt.Sprintf(line, 3, 2), "-O json", "", 1))
	require.Zero(t, got.code)
	require.Contains(t, strings.Join(strings.Fields(got.out), " "), "1 left out, or made without a")
}

// TestRecall: a job goes on with the model and flags of its checkpoint, from any folder; a flag that is given instead
// counts as it did, and a missing file is named.
func TestRecall(t *testing.T) {
	inCase(t, "token_means")
	const flags = "--batch 3 --gradient-accumulation-steps 2 --optimizer sgd --momentum 0.5 --learning-rate 0.1 " +
		"--eval-data data --data-seed 7 -q -O json "
	whole := runJob(t, "train lm.onnx --data data --max-steps 5 -o whole "+flags)
	runJob(t, "train lm.onnx --data data --max-steps 5 --save-every 2 -o job "+flags)
	require.NoError(t, os.RemoveAll("job/checkpoints/step-5"))
	require.NoError(t, os.RemoveAll("job/checkpoints/step-4"))
	require.NoError(t, os.Mkdir("elsewhere", 0o777))
	t.Chdir("elsewhere")
	require.Equal(t, whole.Loss, runJob(t, "train --resume -o ../job -q -O json").Loss)
	require.Equal(t, saved(t, "../whole", "w"), saved(t, "../job", "w"))
	require.Equal(t, *whole.Eval, *runJob(t, "train --resume=../job/checkpoints/step-5 --eval-only -q -O json").Eval)

	longer := inProcess(t.Context(), nil, "train --resume -o ../job --epochs 6 -O json -q=false")
	require.Zero(t, longer.code, longer.errors)
	require.Contains(t, longer.errors, "--resume: schedule: was")
	var end jobEnd
	require.NoError(t, json.Unmarshal([]byte(longer.out), &end))
	require.Equal(t, int64(12), end.Steps, "6 epochs of 2 updates, whatever --max-steps was")

	for line, want := range map[string]string{
		"train --resume -o ../job --batch 2": "its job has --batch 3, this one 2",
		"train --resume":                     "name its folder with -o",
		"train --resume -o ../none":          "../none: no such file",
		"train":                              "wants one MODEL",
		"train --eval-only -o ../job":        "wants one MODEL",
		"train ../lm.onnx --eval-only":       "--eval-data is missing",
		"train ../lm.onnx --eval-only --eval-data ../data --dry-run": "cannot be combined",
	} {
		got := inProcess(t.Context(), nil, line)
		require.Equal(t, cli.ExitUsage, got.code, line)
		require.Contains(t, got.errors, want, line)
	}
}

// TestRecallNothing: a checkpoint without a command line, or of a model from a stream, asks for the model.
func TestRecallNothing(t *testing.T) {
	inCase(t, "token_means")
	model, err := os.ReadFile("lm.onnx")
	require.NoError(t, err)
	got := inProcess(t.Context(), bytes.NewReader(model), "train - --data data --max-steps 1 -o job -q")
	require.Zero(t, got.code, got.errors)
	got = inProcess(t.Context(), nil, "train --resume -o job --max-steps 2")
	require.Equal(t, cli.ExitUsage, got.code)
	require.Contains(t, got.errors, "does not say which file its model came from")
	got = inProcess(t.Context(), nil, "train lm.onnx --resume -o job --max-steps 2 -q -O json")
	require.Zero(t, got.code, got.errors)
}

// TestEvalOnly: an evaluation is that of a job, writes no file, and needs no data to train on.
func TestEvalOnly(t *testing.T) {
	inCase(t, "token_means")
	for _, batch := range []int{1, 3, 8} {
		end := runJob(t, fmt.Sprintf("train lm.onnx --eval-only --eval-data data --batch %d -q -O json -o job", batch))
		require.InEpsilon(t, 3.941038, *end.Eval, 1e-6)
		require.Zero(t, end.Steps)
	}
	require.NoDirExists(t, "job")
	got := inProcess(t.Context(), nil, "train lm.onnx --eval-only --eval-data data")
	require.Zero(t, got.code, got.errors)
	require.Contains(t, got.out, "3.94104")
}
