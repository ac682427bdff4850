//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/internal/test/schematest"
)

// moveFlags let most values of a job that wait for the backward half move to the host.
const moveFlags = "--budget 65% --link 1TB/s --host-budget 1GiB --effort 0.01"

// movedJob is the part of a job's report that is about its memory and its moves.
type movedJob struct {
	Peak struct {
		Arena    int64  `json:"arena_bytes"`
		Measured *int64 `json:"measured_arena_bytes"`
		Planned  int64  `json:"planned_bytes"`
		Total    int64  `json:"total_bytes"`
	}
	AtPeak map[string]int64 `json:"at_peak"`
	Moves  *struct {
		Budget   int64 `json:"host_budget"`
		Moves    int
		Moved    int64   `json:"moved_bytes"`
		Planned  int64   `json:"planned_bytes"`
		Measured *int64  `json:"measured_bytes"`
		Ranks    []int64 `json:"rank_bytes"`
	}
}

// asForetold requires a job to have moved values, and to have taken the memory that it foretold.
func (m *movedJob) asForetold(t *testing.T, ranks int) {
	t.Helper()
	require.Positive(t, m.Moves.Moves)
	require.GreaterOrEqual(t, m.Moves.Moved, m.Moves.Planned)
	require.Equal(t, m.Peak.Arena, *m.Peak.Measured)
	require.Equal(t, m.Moves.Planned, *m.Moves.Measured)
	require.Len(t, m.Moves.Ranks, ranks)
	for _, n := range m.Moves.Ranks {
		require.Equal(t, m.Moves.Planned, n)
	}
}

const movingJob = "train example:transformer --data example:text --dim seq=32 --batch 4 --threads 1 -q "

// TestTrainMoves: a job whose values move to the host ends with the bits of one that keeps them; its reports say how
// many move, and the bytes on both sides are those that were foretold.
func TestTrainMoves(t *testing.T) {
	dir := t.TempDir()
	const line = movingJob + "--max-steps 5 --logging-steps 1 --gradient-accumulation-steps 2 "
	end := inProcess(t.Context(), nil, line+"-o "+dir+"/kept")
	require.Zero(t, end.code, end.errors)
	weights, others := endOf(t, dir+"/kept", 5)

	end = inProcess(t.Context(), nil, line+moveFlags+" -O json --dry-run")
	require.Zero(t, end.code, end.errors)
	docs := filepath.Join("..", "..", "docs", "schemas")
	schematest.Load(t, docs, "train").Check(t, []byte(end.out))
	var foretold movedJob
	require.NoError(t, json.Unmarshal([]byte(end.out), &foretold))
	require.Nil(t, foretold.Moves.Measured)

	end = inProcess(t.Context(), nil, line+moveFlags+" -O json -o "+dir+"/moved")
	require.Zero(t, end.code, end.errors)
	schematest.Load(t, docs, "train").Check(t, []byte(end.out))
	var moved movedJob
	require.NoError(t, json.Unmarshal([]byte(end.out), &moved))
	moved.asForetold(t, 1)
	require.Equal(t, foretold.Moves.Planned, moved.Moves.Planned)
	require.Equal(t, foretold.Peak, func() (p struct {
		Arena    int64  `json:"arena_bytes"`
		Measured *int64 `json:"measured_arena_bytes"`
		Planned  int64  `json:"planned_bytes"`
		Total    int64  `json:"total_bytes"`
	}) {
		p = moved.Peak
		p.Measured = nil
		return p
	}())
	sum := int64(0)
	for _, n := range moved.AtPeak {
		sum += n
	}
	require.Equal(t, moved.Peak.Total, sum)
	w, o := endOf(t, dir+"/moved", 5)
	require.Equal(t, weights, w)
	require.Equal(t, others, o)
	text, err := os.ReadFile(dir + "/moved/metrics.jsonl")
	require.NoError(t, err)
	last := text[strings.LastIndexByte(strings.TrimSpace(string(text)), '\n')+1:]
	schematest.Load(t, docs, "metrics").Check(t, last)
	var metrics struct {
		Host int64 `json:"host_bytes"`
	}
	require.NoError(t, json.Unmarshal(last, &metrics))
	require.Equal(t, moved.Moves.Planned, metrics.Host)

	table := inProcess(t.Context(), nil, strings.Replace(line, "-q ", "", 1)+moveFlags)
	require.Zero(t, table.code, table.errors)
	words := strings.Join(strings.Fields(table.out), " ")
	require.Contains(t, words, "to the host in each step, in")
	require.Contains(t, words, "on the host: values that move there, within 1.00 GiB")
	require.Contains(t, words, "values that move there; equal to the prediction, to the byte")
}

// TestTrainMovesOfAFile: a job follows a plan file whose values move, with the random numbers of its own seed, and ends
// with the bits of one that keeps them, also where it is resumed; a file that is not for its step is refused by name.
func TestTrainMovesOfAFile(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/moved.plan.json"
	end := inProcess(t.Context(), nil, "plan example:transformer-small --optimizer adamw --dim batch=4,seq=32 -q "+
		moveFlags+" --save-plan "+file)
	require.Zero(t, end.code, end.errors)
	end = inProcess(t.Context(), nil, movingJob+"--max-steps 4 --seed 5 -o "+dir+"/kept")
	require.Zero(t, end.code, end.errors)
	weights, others := endOf(t, dir+"/kept", 4)

	const save = "--max-steps 4 --seed 5 --save-every 2 "
	end = inProcess(t.Context(), nil, movingJob+save+"-O json -o "+dir+"/moved --plan "+file)
	require.Zero(t, end.code, end.errors)
	var moved movedJob
	require.NoError(t, json.Unmarshal([]byte(end.out), &moved))
	moved.asForetold(t, 1)
	w, o := endOf(t, dir+"/moved", 4)
	require.Equal(t, weights, w)
	require.Equal(t, others, o)
	require.NoError(t, os.RemoveAll(dir+"/moved/checkpoints/step-4"))
	end = inProcess(t.Context(), nil, "train --resume -O json -q -o "+dir+"/moved")
	require.Zero(t, end.code, end.errors)
	var resumed movedJob
	require.NoError(t, json.Unmarshal([]byte(end.out), &resumed))
	require.Equal(t, moved.Moves, resumed.Moves)
	w, o = endOf(t, dir+"/moved", 4)
	require.Equal(t, weights, w)
	require.Equal(t, others, o)

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for flags, want := range map[string]string{
		"--plan FILE --link 2TB/s":         "FILE is planned for --link 1TB/s; leave --link out",
		"--plan FILE --host-budget 1KiB":   "copies of FILE take up to",
		"--plan FILE --budget-in ort":      "ONNX Runtime moves no values",
		"--plan FILE --optimizer sgd":      "FILE: ",
		"--plan FILE.bad":                  `FILE.bad: move 0: the graph has no value "none"; plan anew`,
		"--plan FILE.bad --link 1TB/s,1us": "planned for --link 1TB/s",
	} {
		require.NoError(t, os.WriteFile(file+".bad", []byte(regexp.MustCompile(`(?s)("moves": \[.*?"value": )"[^"]*"`).
			ReplaceAllString(string(text), `$1"none"`)), 0o644))
		end := inProcess(t.Context(), nil, movingJob+"--max-steps 1 -o "+dir+"/none "+
			strings.ReplaceAll(flags, "FILE", file))
		require.Equal(t, cli.ExitUsage, end.code, flags)
		require.Contains(t, end.errors, strings.ReplaceAll(want, "FILE", file), flags)
		require.NoDirExists(t, dir+"/none/checkpoints/step-1")
	}
}

// TestMovingJobSurvivesKills: a job whose values move to the host, killed again and again, ends with the bits of one
// that keeps them and was left alone.
func TestMovingJobSurvivesKills(t *testing.T) {
	dir := t.TempDir()
	const line = movingJob + "--max-steps 24 --save-every 4 "
	whole := startVictim(t, nil, nil, line+"-o "+dir+"/whole")
	require.NoError(t, <-whole.ended, whole.err.String())
	weights, others := endOf(t, dir+"/whole", 24)
	rest := moveFlags
	for _, step := range []string{"step-4", "step-12"} {
		v := startVictim(t, nil, nil, line+rest+" -o "+dir+"/job")
		require.Eventually(t, func() bool {
			_, err := os.Stat(filepath.Join(dir, "job", "checkpoints", step))
			return err == nil
		}, time.Minute, time.Millisecond)
		require.NoError(t, v.cmd.Process.Kill())
		<-v.ended
		require.True(t, v.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled())
		rest = "--resume" // with the link and the memory of the host that the checkpoint has
	}
	v := startVictim(t, nil, nil, "train -o "+dir+"/job --resume -O json -q")
	require.NoError(t, <-v.ended, v.err.String())
	var end movedJob
	require.NoError(t, json.Unmarshal(v.out.Bytes(), &end))
	end.asForetold(t, 1)
	w, o := endOf(t, dir+"/job", 24)
	require.Equal(t, weights, w)
	require.Equal(t, others, o)

	// Another choice of values that run again replaces the budget, and with it the moves.
	require.NoError(t, os.RemoveAll(dir+"/job/checkpoints/step-24"))
	v = startVictim(t, nil, nil, "train -o "+dir+"/job --resume -O json -q --level 1")
	require.NoError(t, <-v.ended, v.err.String())
	require.Contains(t, v.out.String(), `"moves": null`)
	w, _ = endOf(t, dir+"/job", 24)
	require.Equal(t, weights, w)
}

// TestEstimateMoves: an estimate with values that move keeps to its schema.
func TestEstimateMoves(t *testing.T) {
	end := inProcess(t.Context(), nil, "estimate example:transformer-small --dim batch=4,seq=64 --gpu 24MiB "+
		"--reserve 0 --host-budget 1GiB --effort 0.01 -O json")
	require.Equal(t, cli.ExitInfeasible, end.code, end.errors)
	schematest.Load(t, filepath.Join("..", "..", "docs", "schemas"), "estimate").Check(t, []byte(end.out))
	require.Contains(t, end.out, `"host_bytes"`)
}

// TestTrainMovesUsage: flags of moves that a job cannot have are named.
func TestTrainMovesUsage(t *testing.T) {
	for flags, want := range map[string]string{
		"--budget 60% --link -1GB/s --host-budget 1GiB":                `--link "-1GB/s": size "-1GB": is negative`,
		"--budget 60% --link NaNGB/s --host-budget 1GiB":               `--link "NaNGB/s": size`,
		"--budget 60% --link InfGB/s --host-budget 1GiB":               `--link "InfGB/s": size`,
		"--budget 60% --link 1GB/s,-1us --host-budget 1GiB":            "must not be negative",
		"--budget 60% --link 1GB/s --host-budget=-1":                   `--host-budget: size "-1": is negative`,
		"--budget 60% --link 1GB/s --host-budget Inf":                  `--host-budget: size "Inf"`,
		"--link 1GB/s --host-budget 1GiB":                              "add --budget",
		"--level 1 --link 1GB/s --host-budget 1GiB":                    "add --budget",
		"--budget 60% --select clusters --link 1GB/s --host-budget 1G": "plans of nodes to a budget",
		"--budget 60% --budget-in ort --link 1GB/s --host-budget 1GiB": "ONNX Runtime moves no values",
	} {
		end := inProcess(t.Context(), nil, movingJob+flags)
		require.Equal(t, cli.ExitUsage, end.code, flags)
		require.Contains(t, end.errors, want, flags)
	}
}
