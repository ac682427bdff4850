package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/internal/test/schematest"
)

// TestTrainReport: the report of a job and the lines of its metrics keep to their schemas, the loss
// falls, and the measured arena is the predicted one. The variables of ORTModule choose the plan.
func TestTrainReport(t *testing.T) {
	job := filepath.Join(t.TempDir(), "job")
	line := "train example:transformer --data example:text --batch 8 --dim seq=64 --max-steps 12 --logging-steps 3 " +
		"--learning-rate 1e-3 -O json -q -o "
	end := inProcess(context.Background(), nil, line+job)
	require.Zero(t, end.code, end.errors)
	docs := filepath.Join("..", "..", "docs", "schemas")
	schematest.Load(t, docs, "train").Check(t, []byte(end.out))
	var r struct {
		First float64 `json:"loss_first"`
		Last  float64 `json:"loss_last"`
		Steps int
		Peak  struct {
			Arena    int64 `json:"arena_bytes"`
			Measured int64 `json:"measured_arena_bytes"`
			Baseline int64 `json:"baseline_bytes"`
			Planned  int64 `json:"planned_bytes"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(end.out), &r))
	require.Equal(t, 12, r.Steps)
	require.Less(t, r.Last, r.First-0.5)
	require.Equal(t, r.Peak.Arena, r.Peak.Measured)
	require.Equal(t, r.Peak.Baseline, r.Peak.Planned)
	text, err := os.ReadFile(filepath.Join(job, "metrics.jsonl"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 5, "of updates 1, 3, 6, 9 and 12")
	metrics := schematest.Load(t, docs, "metrics")
	for _, l := range lines {
		metrics.Check(t, []byte(l))
	}

	// A job that goes on takes its batch from the checkpoint, and warns of what differs.
	longer := strings.Replace(strings.Replace(line, "--batch 8 ", "", 1), "steps 12", "steps 13", 1)
	end = inProcess(context.Background(), nil, strings.Replace(longer, "-q ", "--resume ", 1)+job)
	require.Zero(t, end.code, end.errors)
	require.Contains(t, end.out, `"steps": 13`)
	require.Contains(t, end.errors, `"total":13`)
	end = inProcess(context.Background(), nil, strings.Replace(longer, "-q ", "--batch 4 --resume ", 1)+job)
	require.Equal(t, cli.ExitUsage, end.code)
	require.Contains(t, end.errors, "--batch 8, this one 4")

	var out, errs bytes.Buffer
	code := runUntil(context.Background(), &cli.Keeper{}, strings.Fields(line+job+"-2"),
		cli.Stdio{In: nil, Out: &out, Err: &errs},
		[]string{"ORTMODULE_MEMORY_OPT_LEVEL=1"})
	require.Zero(t, code, errs.String())
	first := r
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.Less(t, r.Peak.Planned, r.Peak.Baseline)
	require.Equal(t, first.Last, r.Last, "no bit changes")
}
