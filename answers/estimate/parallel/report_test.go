package parallel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/answers/estimate/parallel"
	"memopt/answers/estimate/parts"
	"memopt/internal/test/answers"
	"memopt/view/report"
)

// TestReports holds reports of layouts in all formats to testdata/reports.txt: one device, stages with
// and without a limit, interleaved stages, and divided weights.
func TestReports(t *testing.T) {
	m := transformer(t, shape{a: 4, b: 2, h: 32, L: 4, s: 16, v: 64, ffn: 128, dropout: 0.1, tied: true})
	facts := &parallel.Facts{Path: "model.onnx", Dims: m.Dims, Optimizer: "adamw", Parameters: 12345,
		Device: "a card", Sources: []string{"its data sheet"},
		PerParameter: &parts.PerParameter{Weight: 2, Gradient: 4, Master: 4, Moments: 8}}
	formats := []report.Format{report.TableFormat, report.MarkdownFormat, report.CSVFormat, report.JSONFormat}
	var have strings.Builder
	for _, c := range []struct {
		layout  parallel.Layout
		options parallel.Options
	}{
		{parallel.Layout{}, parallel.Options{}},
		{parallel.Layout{PP: 2, Microbatches: 4}, parallel.Options{Memory: 400_000}},
		{parallel.Layout{PP: 2, Interleave: 2, Microbatches: 2}, parallel.Options{Memory: 100_000}},
		{parallel.Layout{TP: 2, DP: 2, Zero: 1, SequenceParallel: true}, parallel.Options{}},
		{parallel.Layout{TP: 2, PP: 2, DP: 4, Zero: 3}, parallel.Options{Memory: 1 << 30}},
	} {
		r := split(t, m, c.layout, c.options)
		fmt.Fprintf(&have, "--- %+v, %d bytes: %s\n", c.layout, c.options.Memory, r.Answer())
		for _, f := range formats {
			require.NoError(t, r.Report(&have, f, facts, c.layout.Zero > 0))
		}
	}
	half := transformer(t, shape{a: 4, b: 4, h: 64, L: 6, s: 32, v: 64, ffn: 128, half: true, tied: true})
	for _, l := range []parallel.Layout{{PP: 3, Microbatches: 6}, {PP: 2, TP: 4}, {DP: 8, Zero: 2}} {
		r := split(t, half, l, parallel.Options{Memory: 2_000_000})
		var text strings.Builder
		require.NoError(t, r.Report(&text, report.JSONFormat, facts, false))
		fmt.Fprintf(&have, "--- half, %+v, JSON %s: %s\n", l, answers.Sum(text.String()), r.Answer())
		require.NoError(t, r.Report(&have, report.CSVFormat, facts, false))
	}
	answers.Hold(t, "testdata/reports.txt", have.String())
}
