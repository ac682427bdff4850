package webpage_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/explain"
	"memopt/view/report"
	"memopt/view/timeline"
	"memopt/view/webpage"
)

// example plans a built-in model.
func example(t *testing.T, name string, s memopt.Strategy) *memopt.Plan {
	t.Helper()
	m, err := memopt.Example(name, memopt.Options{})
	require.NoError(t, err)
	return planned(t, m, s)
}

func planned(t *testing.T, m *memopt.Model, s memopt.Strategy) *memopt.Plan {
	t.Helper()
	o := memopt.PlanOptions{}
	o.RowPeaks = true
	p, err := m.Plan(context.Background(), s, o)
	require.NoError(t, err)
	return p
}

// written is the page of a plan.
func written(t *testing.T, p *memopt.Plan, runs ...*webpage.Run) []byte {
	t.Helper()
	r, err := explain.Explain(t.Context(), p, explain.Options{Top: 2})
	require.NoError(t, err)
	curve, err := webpage.Curve(t.Context(), p, 3)
	require.NoError(t, err)
	offers, err := p.TradeOffs(t.Context())
	require.NoError(t, err)
	var w bytes.Buffer
	require.NoError(t, webpage.Write(t.Context(), &w, p, webpage.Options{Explained: r, Curve: curve, Marks: offers,
		Runs: runs, Version: "test"}))
	return w.Bytes()
}

// saved writes a page to a file.
func saved(t *testing.T, page []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(file, page, 0o644))
	return file
}

var dataElement = regexp.MustCompile(`<script type="application/octet-stream" id="data">([^<]*)</script>`)

// unpacked is the JSON in a page.
func unpacked(t *testing.T, page []byte) []byte {
	t.Helper()
	m := dataElement.FindSubmatch(page)
	require.NotNil(t, m, "the page has no data")
	packed, err := base64.StdEncoding.DecodeString(string(m[1]))
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	data, err := io.ReadAll(z)
	require.NoError(t, err)
	return data
}

// planReport is what memopt plan -O json says of a plan, as far as tests look at it.
type planReport struct {
	Peak struct {
		Baseline   int64 `json:"baseline_bytes"`
		Planned    int64 `json:"planned_bytes"`
		Arena      int64 `json:"arena_bytes"`
		Persistent int64 `json:"persistent_bytes"`
		Total      int64 `json:"total_bytes"`
	} `json:"peak"`
	AtPeak struct {
		Weights     int64 `json:"weights_bytes"`
		State       int64 `json:"state_bytes"`
		Gradients   int64 `json:"gradients_bytes"`
		Activations int64 `json:"activations_bytes"`
	} `json:"at_peak"`
	Stashed  []struct{} `json:"stashed"`
	Clusters []struct{} `json:"clusters"`
}

func reportOf(t *testing.T, p *memopt.Plan) *planReport {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, report.PlanJSON(&b, p.Plan, "", nil, 0))
	out := &planReport{}
	require.NoError(t, json.Unmarshal(b.Bytes(), out))
	return out
}

func timelineOf(t *testing.T, p *memopt.Plan) *timeline.Timeline {
	t.Helper()
	out, err := timeline.Of(p.Plan)
	require.NoError(t, err)
	return out
}

// plainPage is the page of a plan without fixes and a curve.
func plainPage(t *testing.T, p *memopt.Plan) []byte {
	t.Helper()
	r, err := explain.Explain(t.Context(), p, explain.Options{Top: -1})
	require.NoError(t, err)
	var w bytes.Buffer
	require.NoError(t, webpage.Write(t.Context(), &w, p, webpage.Options{Explained: r}))
	return w.Bytes()
}

// The beginnings of what other verbs print.
var measurements = map[string]string{
	"run.json": `{"schema": "memopt.run/v1", "backend": "cpu", "steps": 3, "peak": {"predicted_live_bytes": 1000,
		"measured_live_bytes": 1000, "arena_bytes": 1024, "measured_arena_bytes": 1020},
		"time_ms": {"min": 1, "median": 2, "max": 3}}`,
	"verify.json": `{"schema": "memopt.verify/v1", "equal": true, "slowdown": 1.5, "baseline": null, "planned":
		{"peak": {"predicted_live_bytes": 5, "measured_live_bytes": 5, "arena_bytes": 6, "measured_arena_bytes": 6}}}`,
	"train.json": `{"schema": "memopt.train/v1", "steps": 7, "loss_first": 5.5, "loss_last": "NaN",
		"peak": {"arena_bytes": 4096, "measured_arena_bytes": 4096}}`,
	"metrics.jsonl": `{"step": 1, "loss": 5.5, "learning_rate": 0.001}
{"step": 2, "loss": "NaN", "learning_rate": 0.001}
{"step": 3, "loss": 4.5, "learning_rate": 0.0005}
`,
	"trace.json": `{"otherData": {"schema": "memopt.trace/v1", "backend": "cpu"}, "traceEvents": [
		{"name": "process_name", "ph": "M", "args": {"name": "memopt run"}},
		{"name": "/lm_head/MatMul", "ph": "X", "dur": 900, "args": {"op": "MatMul", "step": 0, "live_bytes": 10}},
		{"name": "/lm_head/MatMul", "ph": "X", "dur": 20, "args": {"op": "MatMul", "step": 1, "live_bytes": 12}},
		{"name": "/lm_head/MatMul", "ph": "X", "dur": 40, "args": {"op": "MatMul", "step": 2, "live_bytes": 11}},
		{"name": "live bytes", "ph": "C", "args": {"bytes": 7}},
		{"name": "unknown", "ph": "X", "dur": 5.5, "args": {"op": "Add", "step": 1, "live_bytes": 3}}]}`,
}

// measured are runs of all kinds.
func measured(t *testing.T) []*webpage.Run {
	t.Helper()
	var out []*webpage.Run
	for _, name := range slices.Sorted(maps.Keys(measurements)) {
		out = append(out, readRun(t, name, measurements[name]))
	}
	return out
}

func readRun(t *testing.T, name, text string) *webpage.Run {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	r, err := webpage.ReadRun(file)
	require.NoError(t, err)
	return r
}
