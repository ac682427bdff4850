package budget

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/planner/place"
	"memopt/planner/remat"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
)

// problemOf is a graph in an order, nil being the usual one. Nodes cost what they move and compute.
func problemOf(t testing.TB, m *graph.Model, dims map[string]int64, o graph.Order) *Problem {
	t.Helper()
	types, err := op.Infer(m)
	require.NoError(t, err)
	b, err := live.FindBoundary(m)
	require.NoError(t, err)
	if o == nil {
		o, err = graph.Topological(m.Graph)
		require.NoError(t, err)
		if b.Kind == live.YieldBoundary {
			o = ortsim.MemoryEfficientOrder(m.Graph, b.Node)
		}
	}
	sizes, err := live.EvalSizes(m.Graph, dims)
	require.NoError(t, err)
	evaluator := place.NewEvaluator(recompute.Find(m, b, o, recompute.Probe{Level: 1}), sizes, place.Memory{})
	base, err := evaluator.AsIs().Simulate()
	require.NoError(t, err)
	return &Problem{Evaluator: evaluator, Base: base, Seconds: costsOf(m, types, sizes, dims)}
}

func costsOf(m *graph.Model, types *op.Result, sizes *live.Sizes, dims map[string]int64) []float64 {
	flops := op.FLOPs(m.Graph, m.Opsets, types)
	seconds := make([]float64, len(m.Graph.Nodes))
	for i := range seconds {
		step := live.NewStep(m.Graph, graph.NodeID(i), sizes)
		seconds[i] = float64(step.Traffic(sizes)) / 1e12
		if n, err := flops[i].Eval(dims); err == nil {
			seconds[i] = max(seconds[i], float64(n)/1e13)
		}
	}
	return seconds
}

// withoutInner leaves out what lives inside subgraphs, which is in no arena.
func withoutInner(p *Problem) *Problem {
	p.Evaluator.Sizes.Inner = nil
	p.Evaluator = place.NewEvaluator(p.Evaluator.Analysis, p.Evaluator.Sizes, place.Memory{})
	return p
}

// randomExtras draws extra runs that the graph allows, before backward nodes: those before others
// move to the next of these.
func randomExtras(rng *rand.Rand, tk *tasks, n int) []remat.Extra {
	var out []remat.Extra
	g := tk.graph
	for range n {
		before := int(g.From) + rng.IntN(len(g.Tasks)-int(g.From))
		task := rng.IntN(before)
		until := int(g.Tasks[task].Until)
		if !g.Tasks[task].Once && tk.a.Backward[tk.a.Order[before]] && (until == 0 || before <= until) &&
			!tk.shaped(task) {
			out = append(out, remat.Extra{Task: int32(task), Before: int32(before)})
		}
	}
	return remat.SortExtras(out)
}

// shaped tells whether a task reads a view whose shape is a value of the graph: a clone of the view
// reads that value, too, which the search's model leaves out.
func (t *tasks) shaped(task int) bool {
	g := t.a.Graph
	views := slices.Clone(g.Nodes[t.a.Order[task]].Inputs)
	for i := 0; i < len(views); i++ {
		if views[i] == graph.NoValue || g.Values[views[i]].Def == graph.NoNode {
			continue
		}
		n := g.Nodes[g.Values[views[i]].Def]
		if !t.sizes.View(n) {
			continue
		}
		views = append(views, n.Input(0))
		for _, v := range n.Inputs[1:] {
			if v != graph.NoValue && t.root[v] != graph.NoValue {
				return true
			}
		}
	}
	return false
}

// same checks that the tasks with some extra runs and the program with their placements have one
// peak, if parts are copied, and that the program's is not above it if they share.
func same(t *testing.T, p *Problem, tk *tasks, extras []remat.Extra) {
	out, err := tk.graph.Simulate(extras)
	require.NoError(t, err)
	e, err := p.Evaluator.Simulate(tk.placements(extras))
	require.NoError(t, err)
	require.LessOrEqual(t, e.Peak, out.Peak, "%d extra runs", len(extras))
	parts := p.Evaluator.Sizes.Slices
	p.Evaluator.Sizes.Slices = nil
	e, err = p.Evaluator.Simulate(tk.placements(extras))
	p.Evaluator.Sizes.Slices = parts
	require.NoError(t, err)
	require.Equal(t, e.Peak, out.Peak, "%d extra runs", len(extras))
}

func exact(n int64) int64 { return n }

// TestTasksAgree: the search's model of a graph and the simulator's agree to the byte.
func TestTasksAgree(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 11))
		m := graphtest.Training(rng,
			graphtest.Options{Nodes: 20 + rng.IntN(100), Yield: seed%3 == 0, Layers: seed%2 == 0,
				Control: seed%4 > 1, Parts: seed%8 == 1, Rows: 1 + rng.Int64N(40), Width: 1 + rng.Int64N(64)})
		p := withoutInner(problemOf(t, m, nil, nil))
		tk := newTasks(p.Evaluator, nil, exact, p.Base.State)
		same(t, p, tk, nil)
		if int(tk.graph.From) == len(tk.graph.Tasks) {
			continue
		}
		for range 5 {
			same(t, p, tk, randomExtras(rng, tk, 1+rng.IntN(20)))
		}
	}
	for _, ex := range examples.All() {
		m, err := ex.Build()
		require.NoError(t, err)
		p := problemOf(t, m, ex.Dims, nil)
		tk := newTasks(p.Evaluator, nil, exact, p.Base.State)
		rng := rand.New(rand.NewPCG(1, 11))
		for k := range 20 {
			same(t, p, tk, randomExtras(rng, tk, 3*k))
		}
	}
}

// TestTasksOfStates: what reads a weight may run again until the weight is overwritten in place, and
// what overwrites it never does. Running statistics do not count.
func TestTasksOfStates(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
net (float[8, 8] x, float[8, 8] w, float[8] mean, float[8] var, float[8] one) =>
	(float loss, float[8, 8] w_new, float[8] mean_new, float[8] var_new) {
	v = Transpose(w)
	y = MatMul(x, v)
	n, mean_new, var_new = BatchNormalization<training_mode = 1>(y, one, one, mean, var)
	h = Tanh(n)
	loss = ReduceMean<keepdims = 0>(h)
	d = Mul(h, h)
	g = MatMul(d, x)
	dx = MatMul(d, w)
	s = Mul(dx, g)
	w_new = Sub(w, s)
}`, "net")
	require.NoError(t, err)
	live.RecordStates(m, []live.StatePair{{Input: "w", Output: "w_new"}, {Input: "mean", Output: "mean_new"},
		{Input: "var", Output: "var_new"}})
	p := problemOf(t, m, nil, nil)
	p.Evaluator.Sizes.States, err = live.FindStates(m)
	require.NoError(t, err)
	p.Evaluator = place.NewEvaluator(p.Evaluator.Analysis, p.Evaluator.Sizes, place.Memory{})
	p.Base, err = p.Evaluator.AsIs().Simulate()
	require.NoError(t, err)
	tk := newTasks(p.Evaluator, nil, exact, p.Base.State)
	until := map[string]int32{}
	for i, id := range tk.a.Order {
		name := m.Graph.ValueName(m.Graph.Nodes[id].Output(0))
		until[name] = tk.graph.Tasks[i].Until
		require.Equal(t, name == "w_new", tk.graph.Tasks[i].Once, name)
	}
	require.Equal(t, map[string]int32{"v": 9, "y": 0, "n": 0, "h": 0, "loss": 0, "d": 0, "g": 0, "dx": 9, "s": 0,
		"w_new": 9}, until)
	require.Equal(t, `it writes into the memory of state "w"`, tk.whyNot[9])
}

// TestViewsAgain: a view that is made behind an extra run of its source shows that, and is not made
// once more.
func TestViewsAgain(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
net (float[4, 8] x, float[4, 8] dy) => (float loss, float[32] z) <int64[1] flat = {32}> {
	h = Tanh(x)
	loss = ReduceMean<keepdims = 0>(h)
	g = Mul(h, dy)
	e = Exp(g)
	v = Reshape(g, flat)
	z = Tanh(v)
}`, "net")
	require.NoError(t, err)
	p := problemOf(t, m, nil, nil)
	tk := newTasks(p.Evaluator, nil, exact, p.Base.State)
	for before, nodes := range map[int32][]graph.NodeID{4: {2}, 5: {2, 4}} {
		placements := tk.placements([]remat.Extra{{Task: 2, Before: before}})
		var got []graph.NodeID
		for _, pl := range placements {
			got = append(got, pl.Nodes...)
		}
		require.Equal(t, nodes, got, "before task %d", before)
	}
}
