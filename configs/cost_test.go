package configs_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/configs"
	"memopt/graph"
)

// event is a node's event as run --profile writes it, with more added to its args.
func event(name, op string, step int, us float64, more string) string {
	return fmt.Sprintf(`{"name": %q, "cat": "forward", "ph": "X", "ts": 1, "dur": %v, "pid": 1, "tid": 1, "args": {"op": %q, "step": %d, "live_bytes": 8%s}}`,
		name, us, op, step, more)
}

func trace(events ...string) string {
	return `{"displayTimeUnit": "ms", "otherData": {"schema": "memopt.trace/v1", "structure_sha256": "abc", "dims": {"N": 3}, "backend": "cpu", "threads": 2},
 "traceEvents": [{"name": "process_name", "ph": "M", "pid": 1}, ` + strings.Join(events, ", ") + `, {"name": "live bytes", "ph": "C", "ts": 1, "args": {"bytes": 8}}]}`
}

// costGraph has named nodes, one of which two nodes share, and one without a name.
func costGraph(t *testing.T) *graph.Graph {
	t.Helper()
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
g (float[N] x) => (float[N] y) {
	[a] a = Relu(x)
	[twin] b = Neg(a)
	[twin] c = Neg(b)
	d = Exp(c)
	[last] y = Abs(d)
}`, "test")
	require.NoError(t, err)
	return m.Graph
}

func TestTraceCosts(t *testing.T) {
	g := costGraph(t)
	nan := math.NaN()
	for _, c := range []struct {
		name   string
		events []string
		want   []float64 // microseconds
	}{
		{"one step counts", []string{event("a", "Relu", 0, 7, "")}, []float64{7, nan, nan, nan, nan}},
		{"the first of several does not", []string{event("a", "Relu", 0, 100, ""), event("a", "Relu", 1, 7, "")},
			[]float64{7, nan, nan, nan, nan}},
		{"the median of the rest",
			[]string{event("a", "Relu", 3, 9, ""), event("a", "Relu", 0, 100, ""), event("a", "Relu", 1, 7, ""),
				event("a", "Relu", 2, 50, "")}, []float64{9, nan, nan, nan, nan}},
		{"the mean of two in the middle",
			[]string{event("a", "Relu", 0, 100, ""), event("a", "Relu", 1, 7, ""), event("a", "Relu", 2, 8, "")},
			[]float64{7.5, nan, nan, nan, nan}},
		{"steps that do not start at 0", []string{event("a", "Relu", 4, 3, ""), event("a", "Relu", 5, 5, "")},
			[]float64{4, nan, nan, nan, nan}},
		{"nodes of one name share", []string{event("twin", "Neg", 0, 2, ""), event("twin", "Neg", 0, 6, "")},
			[]float64{nan, 4, 4, nan, nan}},
		{"unnamed", []string{event("Exp#3", "Exp", 0, 2, "")}, []float64{nan, nan, nan, 2, nan}},
		{"clones count for their originals",
			[]string{event("a", "Relu", 0, 2, ""), event("a_recompute", "Relu", 0, 4, ""),
				event("last_recompute_2", "Abs", 0, 5, "")}, []float64{3, nan, nan, nan, 5}},
		{"so do clones with another name", []string{event("Exp_recompute", "Exp", 0, 4, `, "origin": "Exp#3"`)},
			[]float64{nan, nan, nan, 4, nan}},
		{"another operator is another node", []string{event("a", "Tanh", 0, 9, ""), event("last", "Abs", 0, 1, "")},
			[]float64{nan, nan, nan, nan, 1}},
	} {
		tr, err := configs.ParseTrace(strings.NewReader(trace(c.events...)), "t.json")
		require.NoError(t, err, c.name)
		require.Equal(t,
			configs.TraceAbout{Schema: "memopt.trace/v1", StructureSHA256: "abc", Dims: map[string]int64{"N": 3},
				Backend: "cpu", Threads: 2}, tr.About)
		got, measured, err := tr.Costs(g)
		require.NoError(t, err, c.name)
		known := 0
		for i, w := range c.want {
			if math.IsNaN(w) {
				assert.True(t, math.IsNaN(got[i]), "%s: node %d is %v", c.name, i, got[i])
				continue
			}
			known++
			assert.InDelta(t, w*1e-6, got[i], 1e-15, "%s: node %d", c.name, i)
		}
		assert.Equal(t, known, measured, c.name)
	}
}

func TestTraceFaults(t *testing.T) {
	good := trace(event("a", "Relu", 0, 7, ""))
	for _, c := range []struct{ old, new, want string }{
		{good, ``, "is not a JSON object"},
		{good, `[]`, "is not a JSON object"},
		{good, `{}`, "has no events of nodes"},
		{good, `{"traceEvents": {}}`, "traceEvents is not an array"},
		{good, `{"traceEvents": [`, "is not a trace"},
		{good, good[:len(good)-1], "is not a trace"},
		{`trace/v1`, `trace/v7`, `has schema "memopt.trace/v7", wanted "memopt.trace/v1"`},
		{`"ph": "X"`, `"ph": "B"`, "has no events of nodes"},
		{`"name": "a"`, `"name": ""`, "event 1 has no name"},
		{`"dur": 7`, `"dur": -7`, `event 1, of node "a", has no valid dur`},
		{`"dur": 7, `, ``, `event 1, of node "a", has no valid dur`},
		{`"dur": 7`, `"dur": "7"`, "is not a trace"},
		{`"step": 0`, `"step": -1`, "is of step -1"},
	} {
		require.Contains(t, good, c.old)
		_, err := configs.ParseTrace(strings.NewReader(strings.Replace(good, c.old, c.new, 1)), "t.json")
		if assert.Error(t, err, c.new) {
			assert.Contains(t, err.Error(), "t.json: ", c.new)
			assert.Contains(t, err.Error(), c.want, c.new)
		}
	}
	tr, err := configs.ParseTrace(strings.NewReader(trace(event("other", "Relu", 0, 7, ""))), "t.json")
	require.NoError(t, err)
	_, _, err = tr.Costs(costGraph(t))
	require.ErrorContains(t, err, `t.json: none of its 1 nodes (the first is "other") is in this graph`)
}

func TestLoadTrace(t *testing.T) {
	dir := t.TempDir()
	_, err := configs.LoadTrace(filepath.Join(dir, "none.json"))
	assert.ErrorContains(t, err, "none.json: cannot be read: no such file")
	_, err = configs.LoadTrace(dir)
	assert.ErrorContains(t, err, "is a directory; wanted a file or a pipe")
	path := filepath.Join(dir, "t.json")
	require.NoError(t, os.WriteFile(path, []byte(trace(event("a", "Relu", 0, 7, ""))), 0o644))
	_, err = configs.LoadTrace(path)
	assert.NoError(t, err)
}

func FuzzParseTrace(f *testing.F) {
	f.Add(trace(event("a", "Relu", 0, 7, "")))
	f.Add(`{"traceEvents": []}`)
	f.Add(`{"otherData": 1, "traceEvents": [1]}`)
	g := graph.New("g", nil)
	if err := g.AddNode(&graph.Node{Name: "a", Op: "Relu", Outputs: []graph.ValueID{g.Value("v")}}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := configs.ParseTrace(strings.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		costs, measured, err := tr.Costs(g)
		if err == nil && (measured != 1 || !(costs[0] >= 0)) {
			t.Fatalf("%d measured, costs %v", measured, costs)
		}
	})
}
