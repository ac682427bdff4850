package estimate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/estimate"
	"memopt/configs"
	"memopt/graph/precision"
	"memopt/internal/test/answers"
	"memopt/internal/test/graphtest"
	"memopt/view/report"
)

// TestReports holds reports in all formats to testdata/reports.txt: without a limit, with one that the
// step fits, one that it fits with a plan and one that it does not fit, on a device and in another
// precision.
func TestReports(t *testing.T) {
	m, err := memopt.Example("transformer-small", memopt.Options{})
	require.NoError(t, err)
	a10, err := configs.LoadDevice("a10")
	require.NoError(t, err)
	none := int64(0)
	formats := []report.Format{report.TableFormat, report.MarkdownFormat, report.CSVFormat, report.JSONFormat}
	var have strings.Builder
	for _, c := range []struct {
		name    string
		options estimate.Options
	}{
		{"no limit", estimate.Options{}},
		{"a device", estimate.Options{Device: a10}},
		{"a plan", estimate.Options{Memory: 80 << 20, Reserve: &none, Effort: 0.001}},
		{"too small", estimate.Options{Memory: 8 << 20, Reserve: &none, Effort: 0.001, Advise: true}},
		{"bfloat16", estimate.Options{Precision: precision.BF16, Memory: 1 << 30}},
	} {
		r, err := estimate.Make(t.Context(), m, c.options)
		require.NoError(t, err, c.name)
		fmt.Fprintf(&have, "--- %s: %s\n", c.name, r.Answer())
		for _, f := range formats {
			require.NoError(t, estimate.Report(&have, f, r, c.name == "a plan"))
		}
	}
	answers.Hold(t, "testdata/reports.txt", have.String())
}

// TestLedgerVerdicts: figures shown for information have no say in whether a prediction was exact, or
// too low.
func TestLedgerVerdicts(t *testing.T) {
	for _, c := range []struct {
		lines        []estimate.Line
		above, exact bool
	}{
		{nil, false, true},
		{[]estimate.Line{{Predicted: 5, Measured: 5}, {Predicted: 5, Measured: 9, Info: true}}, false, true},
		{[]estimate.Line{{Predicted: 5, Measured: 5}, {Predicted: 5, Measured: 4}}, false, false},
		{[]estimate.Line{{Predicted: 5, Measured: 5}, {Predicted: 5, Measured: 6}}, true, false},
	} {
		l := &estimate.Ledger{Lines: c.lines}
		require.Equal(t, c.above, l.Above(), c.lines)
		require.Equal(t, c.exact, l.Exact(), c.lines)
	}
}

// TestNoteOfSubgraphs: the bytes inside subgraphs are told, and only where there are some.
func TestNoteOfSubgraphs(t *testing.T) {
	told := 0
	for seed := range uint64(6) {
		m, err := memopt.New(graphtest.Training(rand.New(rand.NewPCG(seed, 5)),
			graphtest.Options{Nodes: 30, Control: seed%2 == 0}), memopt.Options{})
		require.NoError(t, err)
		r, err := estimate.Make(t.Context(), m, estimate.Options{})
		require.NoError(t, err)
		inside := slices.Max(append(r.Plain.Plans[0].Sizes.Inner, 0))
		if inside == 0 {
			require.Empty(t, r.Notes)
			continue
		}
		told++
		require.Contains(t, strings.Join(r.Notes, " "), report.Bytes(inside)+" of these are for values inside")
	}
	require.Positive(t, told)
	require.Less(t, told, 6)
}

// TestLedgerOfRun: a run is held to the figures that were predicted of it: persistent bytes, the live bytes of
// phases, the arena, and the total, which is the sum of persistent bytes and the arena.
func TestLedgerOfRun(t *testing.T) {
	m, err := memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"batch": 1, "seq": 8}})
	require.NoError(t, err)
	l, err := estimate.Check(t.Context(), m, estimate.Options{Threads: 1})
	require.NoError(t, err)
	figures := map[string]estimate.Line{}
	for _, line := range l.Lines {
		require.Equal(t, "step", line.Step)
		figures[line.What] = line
	}
	held, arena, total := figures["held throughout"], figures["arena"], figures["total"]
	require.Positive(t, held.Predicted)
	require.Equal(t, held.Predicted, held.Measured)
	require.Positive(t, arena.Measured)
	require.Equal(t, held.Measured+arena.Measured, total.Measured)
	require.Equal(t, held.Predicted+arena.Predicted, total.Predicted)
	require.Contains(t, figures, "live, forward")
	require.False(t, l.Above())
}
