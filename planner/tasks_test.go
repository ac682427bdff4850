package planner

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/graphtest"
	"memopt/graph/op"
	"memopt/planner/place"
	"memopt/planner/remat"
)

func planOf(t testing.TB, m *graph.Model, dims map[string]int64) *Plan {
	types, err := op.Infer(m)
	require.NoError(t, err)
	p, err := Make(m, types, Options{Dims: dims})
	require.NoError(t, err)
	require.NotNil(t, p.Base)
	return p
}

// withoutInner leaves out what lives inside subgraphs, which is in no arena.
func withoutInner(p *Plan) *Plan {
	p.Sizes.Inner = nil
	p.bench = place.NewBench(p.Analysis, p.Sizes, place.Memory{})
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
		if !g.Tasks[task].Once && tk.a.Backward[tk.a.Order[before]] {
			out = append(out, remat.Extra{Task: int32(task), Before: int32(before)})
		}
	}
	return remat.SortExtras(out)
}

// same checks that the tasks with some extra runs and the program with their placements have one
// peak.
func same(t *testing.T, p *Plan, tk *tasks, extras []remat.Extra) {
	out, err := tk.graph.Simulate(extras)
	require.NoError(t, err)
	e, err := p.bench.Simulate(tk.placements(extras))
	require.NoError(t, err)
	require.Equal(t, e.Peak, out.Peak, "%d extra runs", len(extras))
}

func exact(n int64) int64 { return n }

// TestTasksAgree: the search's model of a graph and the simulator's agree to the byte.
func TestTasksAgree(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 11))
		m := graphtest.Training(rng, graphtest.Options{Nodes: 20 + rng.IntN(100), Yield: seed%3 == 0, Layers: seed%2 == 0,
			Control: seed%4 > 1, Rows: 1 + rng.Int64N(40), Width: 1 + rng.Int64N(64)})
		p := withoutInner(planOf(t, m, nil))
		tk := newTasks(p, nil, nil, exact)
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
		p := planOf(t, m, ex.Dims)
		tk := newTasks(p, nil, nil, exact)
		rng := rand.New(rand.NewPCG(1, 11))
		for k := range 20 {
			same(t, p, tk, randomExtras(rng, tk, 3*k))
		}
	}
}
