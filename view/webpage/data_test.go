package webpage_test

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/graph"
	"memopt/internal/test/graphtest"
	"memopt/internal/test/schematest"
	"memopt/planner"
	"memopt/planner/chunk"
	"memopt/symbolic"
	"memopt/view/timeline"
	"memopt/view/webpage"
)

// shown is what tests read of a page's data.
type shown struct {
	Names  []string `json:"names"`
	Graphs []struct {
		Name      []int64 `json:"name"`
		Inputs    []int64 `json:"inputs"`
		InputsAt  []int64 `json:"inputs_at"`
		ValueName []int64 `json:"value_name"`
	} `json:"graphs"`
	LowerBound int64 `json:"lower_bound_bytes"`
	Executions []struct {
		Name       string  `json:"name"`
		Graph      int     `json:"graph"`
		Persistent []int64 `json:"persistent_bytes"`
		ArenaBytes int64   `json:"arena_bytes"`
		Steps      struct {
			Node []int64   `json:"node"`
			Name []int64   `json:"name"`
			Live [][]int64 `json:"live_bytes"`
		} `json:"steps"`
		Levels []struct {
			Width int     `json:"width"`
			At    []int64 `json:"at"`
		} `json:"levels"`
		Blocks struct {
			First  []int64 `json:"first"`
			Length []int64 `json:"length"`
			Kind   []int   `json:"kind"`
			Bytes  []int64 `json:"bytes"`
			Made   []int64 `json:"made"`
			Offset []int64 `json:"offset"`
		} `json:"blocks"`
	} `json:"executions"`
	Pareto struct {
		Points []struct {
			Live     int64   `json:"live_bytes"`
			Overhead float64 `json:"overhead"`
		} `json:"points"`
	} `json:"pareto"`
	Runs []struct {
		File    string `json:"file"`
		Schema  string `json:"schema"`
		Lines   []any  `json:"lines"`
		Profile struct {
			Steps int `json:"steps"`
			Nodes []struct {
				Name   string `json:"name"`
				Median int64  `json:"median_ns"`
				Live   int64  `json:"live_bytes"`
			} `json:"nodes"`
		} `json:"profile"`
	} `json:"runs"`
}

func readShown(t *testing.T, page []byte) *shown {
	t.Helper()
	out := &shown{}
	require.NoError(t, json.Unmarshal(unpacked(t, page), out))
	return out
}

// sums undoes differences.
func sums(list []int64) []int64 {
	out, at := make([]int64, len(list)), int64(0)
	for i, d := range list {
		at += d
		out[i] = at
	}
	return out
}

// manyPlans are plans of drawn graphs and of one with regions in parts.
func manyPlans(t *testing.T) []*memopt.Plan {
	t.Helper()
	var out []*memopt.Plan
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 7))
		m, err := memopt.New(graphtest.Training(rng, graphtest.Options{Nodes: 10 + rng.IntN(300), Yield: seed%3 == 0,
			Layers: seed%4 == 0, Control: seed%5 == 0, Rows: int64(1 + rng.IntN(12)), Width: 16}), memopt.Options{})
		require.NoError(t, err)
		for _, s := range []memopt.Strategy{nil, memopt.Level(2)} {
			out = append(out, planned(t, m, s))
		}
	}
	m, err := memopt.Example("transformer", memopt.Options{})
	require.NoError(t, err)
	p, err := m.Plan(context.Background(), memopt.Budget{Share: 0.6, Effort: 0.1},
		memopt.PlanOptions{Options: planner.Options{Chunk: chunk.Exact}})
	require.NoError(t, err)
	require.NotNil(t, p.Whole, "nothing is in parts")
	return append(out, p)
}

// TestData: what a page has, read as docs/page.md says, is the simulation's live bytes at every step,
// in the columns as in the blocks, names are those of the steps, no two blocks share a byte of the
// arena at a time, and the bound is one of plans of the kind.
func TestData(t *testing.T) {
	folder := schematest.Folder(t)
	schema := schematest.Load(t, folder, "page")
	for i, p := range manyPlans(t) {
		page := plainPage(t, p)
		if i < 3 {
			schema.Check(t, unpacked(t, page))
		}
		d := readShown(t, page)
		want := p.PeakRecord().LowerBoundBytes
		if p.Whole != nil {
			want = p.PeakRecord().PartsBoundBytes
		}
		require.Equal(t, want, d.LowerBound)
		base, err := timeline.Baseline(p.Plan)
		require.NoError(t, err)
		executions := []*timeline.Timeline{base}
		if p.Rewrites() {
			executions = append(executions, timelineOf(t, p))
		}
		require.Len(t, d.Executions, len(executions))
		for e, tl := range executions {
			sameExecution(t, d, e, tl)
		}
		require.Equal(t, p.Arena.Bytes, d.Executions[len(executions)-1].ArenaBytes)
	}
}

func sameExecution(t *testing.T, d *shown, e int, tl *timeline.Timeline) {
	t.Helper()
	x := d.Executions[e]
	steps := len(tl.Steps)
	names, nodes := sums(x.Steps.Name), sums(x.Steps.Node)
	require.Len(t, names, steps)
	total, held := make([]int64, steps), make([]int64, steps)
	for _, column := range x.Steps.Live {
		for i, n := range sums(column) {
			total[i] += n
		}
	}
	first := sums(x.Blocks.First)
	for i, from := range first {
		for s := from; s < from+x.Blocks.Length[i]; s++ {
			held[s] += x.Blocks.Bytes[i]
		}
	}
	g := d.Graphs[x.Graph]
	labels, inputs, at, values := sums(g.Name), sums(g.Inputs), sums(g.InputsAt), sums(g.ValueName)
	for i := range tl.Steps {
		require.Equal(t, tl.Simulated.Live[i], total[i])
		require.Equal(t, total[i], held[i])
		require.Equal(t, text(tl.Steps[i].Name), d.Names[names[i]])
		n := tl.Graph.Nodes[nodes[i]]
		require.Equal(t, text(tl.Graph.NodeLabel(tl.Steps[i].Node)), d.Names[labels[nodes[i]]])
		var read []string
		for _, v := range inputs[at[nodes[i]]:at[nodes[i]+1]] {
			read = append(read, d.Names[values[v]])
		}
		var wanted []string
		for _, list := range [][]graph.ValueID{n.Inputs, n.Captures()} {
			for _, v := range list {
				if v != graph.NoValue {
					wanted = append(wanted, text(tl.Graph.ValueName(v)))
				}
			}
		}
		require.Equal(t, wanted, read)
	}
	apart(t, first, x.Blocks.Length, sums(x.Blocks.Offset), x.Blocks.Bytes)
}

// apart wants that no two blocks have a byte of the arena in common at a time.
func apart(t *testing.T, first, length, offset, bytes []int64) {
	t.Helper()
	for i := range first {
		for k := range i {
			if offset[i] < 0 || offset[k] < 0 || first[i] >= first[k]+length[k] || first[k] >= first[i]+length[i] {
				continue
			}
			require.True(t, offset[i]+bytes[i] <= offset[k] || offset[k]+bytes[k] <= offset[i],
				"blocks %d and %d", i, k)
		}
	}
}

// text is a name as JSON has it.
func text(name string) string {
	data, err := json.Marshal(name)
	if err != nil {
		panic(err)
	}
	var out string
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}

// TestLevels: in every group of a level of detail are the least and the largest of its steps, in
// their order, and levels get coarser up to a few points.
func TestLevels(t *testing.T) {
	m, err := memopt.New(graphtest.Training(rand.New(rand.NewPCG(2, 2)),
		graphtest.Options{Nodes: 5000, Layers: true, Rows: 4, Width: 8}), memopt.Options{})
	require.NoError(t, err)
	p := planned(t, m, nil)
	d := readShown(t, plainPage(t, p))
	live := timelineOf(t, p).Simulated.Live
	levels := d.Executions[0].Levels
	require.NotEmpty(t, levels)
	for _, l := range levels {
		at := sums(l.At)
		next := 0
		for from := 0; from < len(live); from += l.Width {
			group := live[from:min(from+l.Width, len(live))]
			low, high := group[0], group[0]
			for _, n := range group {
				low, high = min(low, n), max(high, n)
			}
			var have []int64
			for ; next < len(at) && int(at[next]) < from+l.Width; next++ {
				require.GreaterOrEqual(t, int(at[next]), from)
				have = append(have, live[at[next]])
			}
			require.Contains(t, have, low)
			require.Contains(t, have, high)
			require.LessOrEqual(t, len(have), 2)
		}
		require.Len(t, at, next)
	}
	require.Less(t, len(levels[len(levels)-1].At), 1000)
}

// TestCurve: lower peaks cost more, within their budgets, and the curve ends with the baseline.
func TestCurve(t *testing.T) {
	p := example(t, "transformer", nil)
	points := readShown(t, written(t, p)).Pareto.Points
	require.Greater(t, len(points), 2)
	for i := 1; i < len(points); i++ {
		require.Greater(t, points[i].Live, points[i-1].Live)
		require.Less(t, points[i].Overhead, points[i-1].Overhead)
	}
	require.Equal(t, p.Base.Peak.Bytes, points[len(points)-1].Live)
}

// TestRuns: files of measurements are known by what is in them.
func TestRuns(t *testing.T) {
	d := readShown(t, written(t, example(t, "mlp", memopt.Level(1)), measured(t)...))
	require.Len(t, d.Runs, 5)
	schemas := map[string]string{}
	for _, r := range d.Runs {
		schemas[r.File] = r.Schema
	}
	require.Equal(t, map[string]string{"run.json": "memopt.run/v1", "verify.json": "memopt.verify/v1",
		"train.json": "memopt.train/v1", "metrics.jsonl": "memopt.metrics/v1", "trace.json": "memopt.trace/v1"},
		schemas)
	require.Len(t, d.Runs[0].Lines, 3)
	profile := d.Runs[2].Profile
	require.Equal(t, 3, profile.Steps)
	require.Len(t, profile.Nodes, 2)
	require.Equal(t, "/lm_head/MatMul", profile.Nodes[0].Name)
	require.Equal(t, int64(30_000), profile.Nodes[0].Median, "the median without the first step")
	require.Equal(t, int64(12), profile.Nodes[0].Live)
	require.Equal(t, int64(5500), profile.Nodes[1].Median)
}

// TestRunFaults: what is none of the known files is refused with its name.
func TestRunFaults(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "is not JSON",
		"loss,step":                        "is not JSON",
		"[1]":                              "is not JSON",
		"{}":                               "is a JSON object without a schema",
		`{"schema": "memopt.plan/v1"}`:     `has schema "memopt.plan/v1"`,
		`{"schema": "memopt.run/v1"} more`: "has something behind the JSON object",
		"{\"step\": 1}\n{\"loss\": 1}":     "line 2 is no object with a step",
		"{\"step\": 1}\n{":                 "line 2 is no object with a step",
		`{"traceEvents": []}`:              `is a trace with schema ""`,
		`{"traceEvents": 1, "otherData": {"schema": "memopt.trace/v1"}}`:  "has events that do not belong to a trace",
		`{"traceEvents": [], "otherData": {"schema": "memopt.trace/v1"}}`: "is a trace without events of nodes",
	} {
		file := filepath.Join(t.TempDir(), "measured.json")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		_, err := webpage.ReadRun(file)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, file)
		require.ErrorContains(t, err, "wanted")
	}
	_, err := webpage.ReadRun(filepath.Join(t.TempDir(), "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestUnbound: a page needs sizes.
func TestUnbound(t *testing.T) {
	m, err := memopt.New(graphtest.Training(rand.New(rand.NewPCG(2, 2)),
		graphtest.Options{Nodes: 20, Symbolic: true}), memopt.Options{})
	require.NoError(t, err)
	p := planned(t, m, nil)
	var unbound *symbolic.UnboundError
	require.ErrorAs(t, webpage.Write(t.Context(), io.Discard, p, webpage.Options{}), &unbound)
}
