package report

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/verify"
	"memopt/planner/remat"
)

func TestParseShare(t *testing.T) {
	for text, want := range map[string]float64{"50%": 0.5, " 0.5 % ": 0.005, "1000%": 10, "1e2%": 1} {
		got, ok, err := ParseShare(text)
		require.NoError(t, err, text)
		require.True(t, ok, text)
		require.InDelta(t, want, got, 1e-12, text)
	}
	for _, text := range []string{"0%", "-1%", "1000.5%", "nan%", "%", "half%", "5x%"} {
		_, ok, err := ParseShare(text)
		require.Error(t, err, text)
		require.True(t, ok, text)
	}
	_, ok, err := ParseShare("50")
	require.NoError(t, err)
	require.False(t, ok)
}

// TestBoxed: all lines are closed at one width, which an alternation of underlines and blanks
// fills.
func TestBoxed(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, writeBoxed(&b, "Title", []string{"|Freq   | what", separator, "|3      |abcdef"}, "Note"))
	require.Equal(t, "Title\n=================\n|Freq   | what  |\n|_ _ _ _|_ _ _ _|\n|3      |abcdef "+
		"|\n=================\nNote\n\n", b.String())
}

// TestLeftOut: rows with nothing to report are left out.
func TestLeftOut(t *testing.T) {
	p := distinctPlan(t)
	p.Planned.Hidden, p.Runtime = 0, nil
	table := printed(t, func(w io.Writer) error { return PlanTable(w, p, PlanView{}) })
	require.NotContains(t, table, "Clones' own memory")
	require.NotContains(t, table, "In ONNX Runtime")
	m, types := stepModel(t)
	inspection := printed(t, func(w io.Writer) error {
		return Inspect(w, TableFormat, &Inspection{Model: m, Types: types, By: "op"})
	})
	require.NotContains(t, inspection, "Unknown ")
	v := distinctView(t)
	v.Run.Runtime = distinctRuntime()
	v.Run.Runtime.LaterArena = 0
	require.NotContains(t, printed(t, func(w io.Writer) error { return RunReport(w, TableFormat, v) }), "later steps")
	v = distinctView(t)
	v.Run.DeviceGrowth, v.Run.HostNodes, v.Run.LibraryNodes, v.Run.Resident, v.Run.WhyNoCapture = 0, nil, nil, 0, ""
	v.Run.Measured.Copies, v.Run.Measured.Dynamic, v.Run.Predicted.Workspace = executor.Copies{}, 0, 0
	table = printed(t, func(w io.Writer) error { return RunReport(w, TableFormat, v) })
	for _, row := range []string{"GPU memory", "nodes on the host", "convolutions", "cuDNN", "process", "copies",
		"beside the plan", "largest workspace", "not captured"} {
		require.NotContains(t, table, row)
	}
	got := leaves(t, "run", func(w io.Writer) error { return RunReport(w, JSONFormat, v) })
	for _, path := range []string{"peak.device_growth_bytes", "peak.device_weights_bytes", "copies.to_device",
		"cudnn.convolutions", "not_captured"} {
		require.NotContains(t, got, path)
	}
}

// TestHostNodesFirst: the first of the nodes on the host stands for all.
func TestHostNodesFirst(t *testing.T) {
	v := distinctView(t)
	v.Run.HostNodes[1].Why = "another reason"
	require.Contains(t, squeezed(printed(t, func(w io.Writer) error { return RunReport(w, TableFormat, v) })),
		"nodes on the host 2 such as h: no kernel\n")
	got := leaves(t, "run", func(w io.Writer) error { return RunReport(w, JSONFormat, v) })
	require.Equal(t, [2]string{"1", "1"}, [2]string{got["on_host.no kernel"], got["on_host.another reason"]})
	v.Run.DeviceGrowth = 1
	require.Equal(t, "1",
		leaves(t, "run", func(w io.Writer) error { return RunReport(w, JSONFormat, v) })["peak.device_growth_bytes"])
	v.Run.LibraryNodes = v.Run.LibraryNodes[:1]
	v.Run.LibraryNodes[0].Least = v.Run.LibraryNodes[0].Workspace
	require.Contains(t, printed(t, func(w io.Writer) error { return RunReport(w, TableFormat, v) }),
		"as much with cudnn_conv_use_max_workspace off\n")
}

// TestOneStepOfEach: one measured step a side is no statistic, and is said to be none.
func TestOneStepOfEach(t *testing.T) {
	v := distinctVerify(t)
	v.Verdict.Alternated = false
	v.Verdict.Baseline.Times, v.Verdict.Planned.Times = []time.Duration{10 * time.Millisecond},
		[]time.Duration{13 * time.Millisecond}
	table := squeezed(printed(t, func(w io.Writer) error { return Verify(w, TableFormat, v) }))
	require.Contains(t, table,
		"time of a step 10.00 ms 13.00 ms 1.300 times, from one step of each; measure more with -r 5\n")
	require.NotContains(t, table, "\nslowdown")
	v.Verdict.Planned.Times = nil
	require.NotContains(t, printed(t, func(w io.Writer) error { return Verify(w, TableFormat, v) }), "time of a step")
	require.Equal(t, 1.0, (&verify.Verdict{Baseline: v.Verdict.Baseline, Planned: v.Verdict.Planned}).Slowdown().Ratio)
}

// TestSolveFile: the file has the schedule's steps and what is known of it.
func TestSolveFile(t *testing.T) {
	in, err := remat.Read(
		strings.NewReader(`{"name":"one","budget":9,"nodes":[{"id":5,"cost":10,"size":3,"inputs":[]}]}`))
	require.NoError(t, err)
	r, err := remat.Solve(t.Context(), in, remat.Options{})
	require.NoError(t, err)
	text := printed(t, func(w io.Writer) error { return SolveJSON(w, in, r) })
	for _, part := range []string{`"compute":5`, `"cost":10`, `"peak":3`, `"optimal":true`} {
		require.Contains(t, strings.ReplaceAll(text, ": ", ":"), part)
	}
}
