package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/runcmd"
	"memopt/graph"
)

// TestObserverDoesNotGrow: what --phases and --profile hold does not grow with the steps.
func TestObserverDoesNotGrow(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
m (float[2] x) => (float[2] y) { a = Exp(x)  y = Tanh(a) }`, "m")
	require.NoError(t, err)
	x := &runcmd.Execution{Execution: (&memopt.Model{Model: m}).Execution()}
	for _, traced := range []bool{false, true} {
		o := runcmd.NewObserver(x)
		if traced {
			o.TraceTo(io.Discard, x, "cpu", 1)
		}
		start := time.Now()
		step := func() {
			for i := range m.Graph.Nodes {
				start = start.Add(time.Millisecond)
				o.Node(i, graph.NodeID(i), start, time.Microsecond, int64(i))
			}
		}
		step()
		require.Zero(t, testing.AllocsPerRun(1000, step))
		require.Greater(t, o.Step, 1000)
		require.Equal(t, int64(1), o.Phases()[0].Peak)
	}
}

// TestThreadsOfNodes: what threads do for a node has its name, on a track of theirs; what they did before
// is in no trace.
func TestThreadsOfNodes(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
m (float[2] x) => (float[2] y) { a = Exp(x)  y = Tanh(a) }`, "m")
	require.NoError(t, err)
	x := &runcmd.Execution{Execution: (&memopt.Model{Model: m}).Execution()}
	o := runcmd.NewObserver(x)
	o.Thread(1, time.Now(), time.Second) // there is no trace
	var file bytes.Buffer
	o.TraceTo(&file, x, "cpu", 3)
	start := time.Now()
	o.Thread(2, start.Add(-time.Second), time.Second)
	o.Thread(2, start.Add(time.Microsecond), time.Millisecond)
	o.Node(0, 0, start, time.Second, 1)
	o.Node(1, 1, start.Add(time.Second), time.Second, 1)
	require.NoError(t, o.Trace.Close())
	var trace struct {
		TraceEvents []struct {
			Name, Ph string
			Ts       float64
			Tid      int
		}
	}
	require.NoError(t, json.Unmarshal(file.Bytes(), &trace))
	var got []string
	for _, e := range trace.TraceEvents {
		if e.Tid > 2 && e.Ph != "M" {
			got = append(got, fmt.Sprint(e.Tid, e.Ph, e.Name, e.Ts))
		}
	}
	require.Equal(t, []string{"4BExp#01", "4EExp#01001"}, got)
}

// TestProfile: the trace is whole, in its file or before the report on standard output; where the
// run fails there is none, and nothing else stays.
func TestProfile(t *testing.T) {
	exitFolder(t)
	t.Setenv("TMPDIR", t.TempDir())
	before, err := os.ReadDir(".")
	require.NoError(t, err)
	got := inProcess(t.Context(), nil, "run forward.onnx --dim batch=4 --init random:1 -r 3 --profile t.json")
	require.Equal(t, 0, got.code, got.errors)
	text, err := os.ReadFile("t.json")
	require.NoError(t, err)
	var trace struct {
		TraceEvents []struct{ Ph string }
		OtherData   struct{ Threads int }
	}
	require.NoError(t, json.Unmarshal(text, &trace))
	require.Len(t, trace.TraceEvents, 3+4*(2+4*2), "four nodes in four steps, a phase each, and the bytes")
	require.Positive(t, trace.OtherData.Threads)

	profiledFlows(t)
	got = inProcess(t.Context(), nil, "run forward.onnx --dim batch=4 --init random:1 --profile - -O json")
	require.Equal(t, 0, got.code, got.errors)
	docs := json.NewDecoder(strings.NewReader(got.out))
	require.NoError(t, docs.Decode(&trace))
	var report struct{ Schema string }
	require.NoError(t, docs.Decode(&report))
	require.Equal(t, "memopt.run/v1", report.Schema)

	require.NoError(t, os.Remove("t.json"))
	for _, profile := range []string{"t.json", "-"} {
		got = inProcess(t.Context(), nil,
			"run forward.onnx --dim batch=4 --init random:1 --mem-limit 1 --profile "+profile)
		require.Equal(t, cli.ExitInfeasible, got.code, got.errors)
		require.Empty(t, got.out)
	}
	after, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Equal(t, before, after)
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// profiledFlows: in a run of a plan, every clone ends a flow of its step, which began at what it repeats,
// and what is planned by kind is what is planned of the step, at every node.
func profiledFlows(t *testing.T) {
	t.Helper()
	got := inProcess(t.Context(), nil,
		"run example:mlp --dim batch=4 --level 1 --init random:1 -r 2 --warmup 0 --profile flows.json")
	require.Equal(t, 0, got.code, got.errors)
	defer os.Remove("flows.json")
	text, err := os.ReadFile("flows.json")
	require.NoError(t, err)
	var trace struct {
		TraceEvents []struct {
			Name, Ph string
			Bind     string `json:"bind_id"`
			Out      bool   `json:"flow_out"`
			Into     bool   `json:"flow_in"`
			Args     map[string]any
		}
	}
	require.NoError(t, json.Unmarshal(text, &trace))
	begun, ended, most := map[string]string{}, map[string]bool{}, 0.0
	nodes, planned := 0, 0
	for _, e := range trace.TraceEvents {
		origin, clone := e.Args["origin"]
		require.Equal(t, clone, e.Into, e.Name)
		switch {
		case e.Out:
			require.NotContains(t, begun, e.Bind)
			begun[e.Bind] = e.Name
		case e.Into:
			require.Equal(t, origin, begun[e.Bind])
			ended[e.Bind] = true
		}
		if e.Ph == "X" {
			nodes++
		}
		if e.Name == "planned bytes" {
			planned++
			sum := 0.0
			for _, n := range e.Args {
				sum += n.(float64)
			}
			most = max(most, sum)
		}
	}
	require.Equal(t, len(begun), len(ended))
	require.Positive(t, len(ended))
	require.Equal(t, nodes, planned)
	plan := inProcess(t.Context(), nil, "plan example:mlp --dim batch=4 --level 1 -O json -q")
	var report struct {
		Peak struct {
			Planned    float64 `json:"planned_bytes"`
			Persistent float64 `json:"persistent_bytes"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(plan.out), &report))
	require.Equal(t, report.Peak.Planned+report.Peak.Persistent, most)
}
