package configs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/configs"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/planner"
)

// deeployGraphs is a folder beside the repository.
const deeployGraphs = "../../shared/deeploy"

// replayed is what an independent replay of a schedule finds.
type replayed struct {
	peak   int64
	clones int // runs that are marked as such
	alive  int // of these, the ones whose outputs are read
}

// replay executes a schedule by the rules of Deeploy's own replay: a run reads the current version
// of each input, what it makes is the current version from then on, and a buffer dies with its last
// reader; nothing is written in place. It knows nothing of the planner: it reads the schedule's
// text and the names in the graph. An output that the list of aliases names lies in the first
// input's buffer, but those of its clones do not; every clone takes a number of bytes throughout.
// Graph outputs have a reader after the last run.
func replay(
	t *testing.T, g *graph.Graph, schedule []byte, bytes []int64, aliased map[string]bool, cloneBytes int64,
) replayed {
	t.Helper()
	var file struct{ Seq [][2]any }
	require.NoError(t, json.Unmarshal(schedule, &file))
	type buffer struct {
		size, readers int64
		live          bool
	}
	nodes := map[string]*graph.Node{}
	for _, n := range g.Nodes {
		nodes[n.Name] = n
	}
	current, ran := map[string]*buffer{}, map[string]bool{}
	type execution struct{ in, made []*buffer }
	var runs []execution
	var out replayed
	read := map[*buffer]bool{}
	makers := map[*buffer]int{}
	clone := map[int]bool{}
	for _, entry := range file.Seq {
		name, again := entry[0].(string), entry[1].(float64) == 1
		n := nodes[name]
		require.NotNil(t, n, name)
		require.Equal(t, again, ran[name], "%s: a run is marked if it is not the first", name)
		ran[name] = true
		var x execution
		for _, v := range append(append([]graph.ValueID(nil), n.Inputs...), n.Captures()...) {
			if v == graph.NoValue {
				continue
			}
			if b := current[g.Values[v].Name]; b != nil {
				b.readers++
				read[b] = true
				x.in = append(x.in, b)
			}
		}
		for i, v := range n.Outputs {
			if v == graph.NoValue {
				continue
			}
			b := &buffer{size: max(bytes[v], 0)}
			if first := n.Inputs; i == 0 && aliased[name] && !again {
				if b = current[g.Values[first[0]].Name]; b == nil {
					b = &buffer{} // of an input or a weight, which are counted apart
				}
			} else {
				x.made = append(x.made, b)
				makers[b] = len(runs)
			}
			current[g.Values[v].Name] = b
		}
		if again {
			out.clones++
			clone[len(runs)] = true
		}
		runs = append(runs, x)
	}
	require.Len(t, ran, len(g.Nodes))
	for _, d := range g.Outputs {
		if b := current[g.Values[d.Value].Name]; b != nil {
			b.readers++
		}
	}
	alive := map[int]bool{}
	for b := range read {
		if clone[makers[b]] {
			alive[makers[b]] = true
		}
	}
	out.alive = len(alive)
	held := int64(out.clones) * cloneBytes
	for _, x := range runs {
		for _, b := range x.made {
			b.live = true
			held += b.size
		}
		out.peak = max(out.peak, held)
		for _, b := range x.made {
			if b.readers == 0 && b.live {
				b.live = false
				held -= b.size
			}
		}
		for _, b := range x.in {
			if b.readers--; b.readers == 0 && b.live {
				b.live = false
				held -= b.size
			}
		}
	}
	return out
}

// named gives every node a name of its own.
func named(m *graph.Model) *graph.Model {
	for i, n := range m.Graph.Nodes {
		n.Name = fmt.Sprintf("n%d", i)
	}
	return m
}

// checkSchedule makes a plan and checks what it claims against the replay of its schedule.
func checkSchedule(
	t *testing.T, m *graph.Model, types *op.Result, aliases []string, opts planner.Options,
) *planner.Plan {
	t.Helper()
	file := filepath.Join(t.TempDir(), "aliases.json")
	text, err := json.Marshal(map[string]any{"aliased": append([]string{}, aliases...), "by_op": map[string]int{}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, text, 0o644))
	var unknown []string
	opts.Aliased, unknown, err = configs.LoadAliases(file, m.Graph)
	require.NoError(t, err)
	require.Empty(t, unknown)
	p, err := planner.Make(m, types, opts)
	var infeasible *planner.InfeasibleError
	if errors.As(err, &infeasible) {
		return nil
	}
	require.NoError(t, err)
	schedule, err := configs.FormatSchedule(p)
	require.NoError(t, err)
	sizes, err := live.EvalSizes(m.Graph, opts.Dims)
	require.NoError(t, err)
	aliased := map[string]bool{}
	for _, name := range aliases {
		aliased[name] = true
	}
	r := replay(t, m.Graph, schedule, sizes.Bytes, aliased, opts.CloneBytes)
	require.Equal(t, p.Planned.Peak.Bytes, r.peak, "the plan claims a peak, the replay finds another")
	require.Equal(t, p.Recompute.Nodes, r.clones, "clones asked")
	require.Equal(t, r.clones, r.alive, "clones alive")
	require.Equal(t, int64(r.clones)*opts.CloneBytes, p.PeakRecord().CloneBytes)
	require.LessOrEqual(t, p.Planned.Peak.Bytes, p.Arena.Bytes)
	if b := opts.Budget(); b != nil && b.Arena > 0 {
		require.LessOrEqual(t, p.Arena.Bytes, b.Arena)
	}
	return p
}

// TestScheduleOfRandomGraphs: levels and budgets, with and without aliases and a price of clones.
func TestScheduleOfRandomGraphs(t *testing.T) {
	recomputed := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := named(graphtest.Training(rng, graphtest.Options{Nodes: 20 + int(seed), Layers: seed%3 == 0}))
		types, err := op.Infer(m)
		require.NoError(t, err)
		var aliases []string
		for _, n := range m.Graph.Nodes {
			if op.Of(n.Kind).View && rng.IntN(3) > 0 {
				aliases = append(aliases, n.Name)
			}
		}
		opts := planner.Options{CloneBytes: int64(seed%4) * 64}
		base := checkSchedule(t, m, types, aliases, opts)
		for _, level := range []planner.Level{planner.Layerwise, planner.LayerwiseCompromise} {
			opts.Strategy = level
			if p := checkSchedule(t, m, types, aliases, opts); p != nil {
				recomputed += p.Recompute.Nodes
			}
		}
		opts.Strategy = planner.UserSpecified
		for _, share := range []float64{0.5, 0.7, 0.9} {
			opts.Strategy = &planner.Budget{Arena: int64(share * float64(base.Arena.Bytes)), Solver: "greedy"}
			if p := checkSchedule(t, m, types, aliases, opts); p != nil {
				recomputed += p.Recompute.Nodes
			}
		}
	}
	require.Greater(t, recomputed, 100)
}

// TestScheduleOfDeeploysGraphs does the same for the training graphs themselves.
func TestScheduleOfDeeploysGraphs(t *testing.T) {
	for _, name := range []string{"cct2_ft1", "transformer_train"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(deeployGraphs, name, "network.onnx")
			if _, err := os.Stat(file); err != nil {
				t.Skip("Deeploy's training graphs are missing; they lie beside the project in ../shared/deeploy")
			}
			m, closer, err := onnx.Open(file)
			require.NoError(t, err)
			defer closer.Close()
			types, err := op.InferAsIs(m)
			require.NoError(t, err)
			var reshapes []string
			for _, n := range m.Graph.Nodes {
				if n.Kind == op.Reshape {
					reshapes = append(reshapes, n.Name)
				}
			}
			plain := checkSchedule(t, m, types, nil, planner.Options{})
			free := checkSchedule(t, m, types, reshapes, planner.Options{})
			require.LessOrEqual(t, free.Planned.Peak.Bytes, plain.Planned.Peak.Bytes)
			for _, aliases := range [][]string{nil, reshapes} {
				for _, price := range []int64{0, 200} {
					opts := planner.Options{Strategy: planner.Layerwise, CloneBytes: price}
					require.NotNil(t, checkSchedule(t, m, types, aliases, opts))
					opts = planner.Options{
						CloneBytes: price,
						Strategy:   &planner.Budget{Arena: plain.Arena.Bytes * 97 / 100, Solver: "greedy"},
					}
					checkSchedule(t, m, types, aliases, opts)
				}
			}
		})
	}
}

// parse reads a graph in textual form.
func parse(t *testing.T, text string) (*graph.Model, *op.Result) {
	t.Helper()
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+text, "g")
	require.NoError(t, err)
	types, err := op.Infer(named(m))
	require.NoError(t, err)
	return m, types
}

// TestAliasesAreFree: an output that the device aliases takes nothing, and one that only looks like
// a view takes its bytes.
func TestAliasesAreFree(t *testing.T) {
	m, types := parse(t, `g (float[256] x) => (float loss, float[256] g) {
		a = Exp(x)  s = Constant<value = int64[2] {16, 16}>()  b = Reshape(a, s)  c = Tanh(b)  loss = ReduceMean<keepdims = 0>(c)  d = Mul(c, b)  f = Constant<value = int64[1] {256}>()  e = Reshape(d, f)  g = Mul(e, a) }`)
	charged := checkSchedule(t, m, types, nil, planner.Options{})
	free := checkSchedule(t, m, types, []string{"n2", "n7"}, planner.Options{})
	require.Equal(t, int64(1024), charged.Base.Peak.Bytes-free.Base.Peak.Bytes)
}

// TestRetentionIsByTensor: of a node with a large and a small output, only the one that the
// backward half reads is kept.
func TestRetentionIsByTensor(t *testing.T) {
	m, types := parse(t, `g (float[64, 32] x, float[32] w) => (float loss, float[64, 1] g) {
		y, mean, inv = LayerNormalization(x, w)  z = Tanh(y)  u = ReduceSum<keepdims = 0>(z)  loss = Identity(u)
		big = Exp(x)  r = ReduceSum<keepdims = 1, noop_with_empty_axes = 0>(big)  g = Mul(mean, inv) }`)
	p := checkSchedule(t, m, types, nil, planner.Options{})
	y, _ := m.Graph.Lookup("y")
	mean, _ := m.Graph.Lookup("mean")
	require.Less(t, p.Base.Ranges[y].End, p.Base.Ranges[mean].End)
}

// TestClonePrice: what clones take besides their outputs counts against the budget and in the
// claimed peak.
func TestClonePrice(t *testing.T) {
	m, types := parse(t, `g (float[1024] x) => (float loss, float[1024] g) {
		a = Exp(x)  b = Tanh(a)  c = Sin(b)  d = Tanh(c)  loss = ReduceMean<keepdims = 0>(d)  e = Mul(d, c)  f = Mul(e, b)  h = Mul(f, a)  g = Mul(h, x) }`)
	base := checkSchedule(t, m, types, nil, planner.Options{})
	budget := func(arena, price int64) *planner.Plan {
		return checkSchedule(t, m, types, nil,
			planner.Options{CloneBytes: price, Strategy: &planner.Budget{Arena: arena, Solver: "greedy"}})
	}
	arena := base.Arena.Bytes - 4096
	free := budget(arena, 0)
	require.NotNil(t, free)
	require.Positive(t, free.Recompute.Nodes)
	require.Nil(t, budget(arena, 8192), "each clone costs more than it saves")
	slack := arena - free.Arena.Bytes
	priced := budget(arena+int64(free.Recompute.Nodes)*64, slack/int64(free.Recompute.Nodes)+64)
	require.NotNil(t, priced)
}

// TestPlacedBeforeItsReader: a run that is repeated stands right before the backward node, or the
// other repeated run, that reads it.
func TestPlacedBeforeItsReader(t *testing.T) {
	m, types := parse(t, `g (float[1024] x) => (float loss, float[1024] g) {
		a = Exp(x)  b = Tanh(a)  loss = ReduceMean<keepdims = 0>(b)  c = Neg(b)  e = Mul(c, c)  h = Mul(e, a)  g = Mul(h, x) }`)
	p := checkSchedule(t, m, types, nil, planner.Options{Strategy: planner.Layerwise})
	backward := p.Analysis.Backward
	runs := p.Sequence()
	for i, run := range runs {
		if !run.Again {
			continue
		}
		next := runs[i+1]
		require.True(t, next.Again || backward[next.Node])
		reads := false
		for _, in := range m.Graph.Nodes[next.Node].Inputs {
			reads = reads || m.Graph.Values[in].Def == run.Node
		}
		require.True(t, reads, "run %d", i)
	}
}

func TestAliasFaults(t *testing.T) {
	m, _ := parse(t, `g (float[4] x) => (float[4] y) { a = Exp(x)  y = Tanh(a)  c = Constant<value = float[1] {1}>() }`)
	for _, c := range []struct{ text, fails string }{
		{`{"aliased": ["n0", "n1"]}`, ""},
		{`{"aliased": []}`, ""},
		{`{"alias": ["n0"]}`, `is not a list of aliases; wanted {"aliased": ["node name", …]}`},
		{`["n0"]`, "is not a list of aliases"},
		{`{"aliased": ["n0", "x", "y"]}`,
			`the model has only 1 of the 3 nodes in the list (the first missing one is "x"); the list is for another model`},
		{`{"aliased": ["n2"]}`, `node "n2" cannot alias: it has no first input or no first output`},
	} {
		file := filepath.Join(t.TempDir(), "aliases.json")
		require.NoError(t, os.WriteFile(file, []byte(c.text), 0o644))
		aliased, _, err := configs.LoadAliases(file, m.Graph)
		if c.fails != "" {
			require.ErrorContains(t, err, c.fails)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, strings.Contains(c.text, "n0"), aliased[0])
		require.False(t, aliased[2])
	}
	file := filepath.Join(t.TempDir(), "aliases.json")
	many := `"n0"` + strings.Repeat(`, "n1"`, 9) + `, "gone"`
	require.NoError(t, os.WriteFile(file, []byte(`{"aliased": [`+many+`]}`), 0o644))
	_, unknown, err := configs.LoadAliases(file, m.Graph)
	require.NoError(t, err)
	require.Equal(t, []string{"gone"}, unknown)
}

// TestScheduleNeedsNames: the replay finds nodes by name.
func TestScheduleNeedsNames(t *testing.T) {
	for _, c := range []struct{ first, second, fails string }{{"", "b", "has no name"},
		{"a", "a", `two nodes are named "a"`}} {
		m, types := parse(t,
			`g (float[4] x) => (float loss, float[4] g) { a = Exp(x)  loss = ReduceMean<keepdims = 0>(a)  g = Mul(a, a) }`)
		m.Graph.Nodes[0].Name, m.Graph.Nodes[1].Name = c.first, c.second
		p, err := planner.Make(m, types, planner.Options{})
		require.NoError(t, err)
		_, err = configs.FormatSchedule(p)
		require.ErrorContains(t, err, c.fails)
	}
}
