package fit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/fit"
	"memopt/configs"
	"memopt/internal/test/answers"
	"memopt/planner/device"
	"memopt/symbolic"
	"memopt/view/report"
)

// TestReports holds reports in all formats to testdata/reports.txt: one symbol, two, a limit that
// no size fits, one that all sizes fit, and devices.
func TestReports(t *testing.T) {
	m, err := memopt.Example("transformer-small", memopt.Options{})
	require.NoError(t, err)
	one := map[string]symbolic.Range{"batch": {Lo: 1, Hi: 64}}
	var have strings.Builder
	formats := []report.Format{report.TableFormat, report.MarkdownFormat, report.CSVFormat, report.JSONFormat}
	for _, c := range []struct {
		name   string
		vary   []string
		ranges map[string]symbolic.Range
		limit  int64
		over   float64
		target fit.Target
	}{
		{"one symbol", []string{"batch"}, one, 300 << 20, 0.2,
			fit.Target{Memory: 400 << 20, Reserve: 100 << 20, Source: ", as on a card"}},
		{"no overhead is allowed", []string{"batch"}, one, 300 << 20, 0,
			fit.Target{Device: "a card", Memory: 300 << 20}},
		{"two symbols", []string{"batch", "seq"},
			map[string]symbolic.Range{"batch": {Lo: 1, Hi: 8}, "seq": {Lo: 64, Hi: 512}}, 200 << 20, 0.2,
			fit.Target{Memory: 200 << 20}},
		{"nothing fits", []string{"batch"}, one, 1 << 20, 0.2, fit.Target{Memory: 1 << 20}},
		{"all fits", []string{"batch"}, one, 1 << 40, 0.2, fit.Target{Memory: 1 << 40}},
	} {
		r, err := fit.Largest(t.Context(), m, fit.Options{Vary: c.vary, Ranges: c.ranges, Limit: c.limit,
			MaxOverhead: c.over, Effort: 0.001})
		require.NoError(t, err, c.name)
		fmt.Fprintf(&have, "--- %s: %s\n", c.name, r.Answer(&c.target))
		for _, f := range formats {
			require.NoError(t, fit.Report(&have, f, r, &c.target, nil))
		}
	}
	m, err = memopt.Example("transformer-small", memopt.Options{Dims: map[string]int64{"batch": 256}})
	require.NoError(t, err)
	var profiles []*device.Profile
	for _, name := range []string{"a10", "rtx3060-12g", "h100"} {
		p, err := configs.LoadDevice(name)
		require.NoError(t, err)
		profiles = append(profiles, p)
	}
	d, err := fit.OnDevices(t.Context(), m, profiles, fit.Options{MaxOverhead: 0.2, Effort: 0.001})
	require.NoError(t, err)
	fmt.Fprintf(&have, "--- devices: %s\n", d.Answer())
	for _, f := range formats {
		require.NoError(t, d.Report(&have, f, nil))
	}
	answers.Hold(t, "testdata/reports.txt", have.String())
}
