package planner_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner"
	"memopt/recompute"
)

// showing follows views from a value to the one whose bytes it shows.
func showing(g *graph.Graph, v graph.ValueID) graph.ValueID {
	for def := g.Values[v].Def; def != graph.NoNode; def = g.Values[v].Def {
		n := g.Nodes[def]
		if !op.Of(n.Kind).View || n.Output(0) != v || n.Input(0) == graph.NoValue {
			break
		}
		v = n.Input(0)
	}
	return v
}

func runsAgain(p *planner.Plan, id graph.NodeID) bool {
	return slices.ContainsFunc(p.Placements, func(pl recompute.Placement) bool {
		return slices.Contains(pl.Nodes, id)
	})
}

// strategies are of every kind; those made of a plan take over what it has chosen.
func strategies(p *planner.Plan, rng *rand.Rand) []planner.Strategy {
	var config planner.Config
	for _, c := range p.Analysis.Clusters {
		config = append(config, planner.ConfigEntry{Cluster: c.ID, Strategy: c.Strategy, Count: rng.IntN(4) - 1})
	}
	half := (p.Base.LowerBound + p.Base.Peak.Bytes) / 2
	return []planner.Strategy{nil, planner.Layerwise, planner.LayerwiseCompromise, config,
		planner.Budget{Arena: half, Effort: 0.01}, planner.Budget{Arena: half, Solver: "greedy"},
		planner.Budget{Share: 1.2, Effort: 0.01, Solver: "lns"}, planner.Budget{Share: 0.9, Clusters: true},
		planner.Budget{Share: 1.1, Effort: 0.01, Runtime: true},
		&planner.PlanFile{Placements: p.Placements, Order: p.Analysis.Order}}
}

// TestDemands: whatever the strategy, what is to be kept does not run again, what is to be recomputed
// does, and the plan keeps its promises.
func TestDemands(t *testing.T) {
	kept, forced, refused := 0, 0, 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 51))
		m := smallTraining(rng, seed)
		types, err := op.Infer(m)
		require.NoError(t, err)
		plain, err := planner.Make(m, types, planner.Options{Strategy: planner.Layerwise})
		require.NoError(t, err)
		var keep, again []graph.ValueID
		o := planner.Options{}
		for _, st := range plain.Analysis.Stashed {
			root := showing(m.Graph, st.Value)
			switch rng.IntN(5) {
			case 0:
				if !slices.ContainsFunc(again, func(v graph.ValueID) bool {
					return m.Graph.Values[v].Def == m.Graph.Values[root].Def || m.Graph.Values[v].Def == st.Node
				}) {
					keep, o.Keep = append(keep, root), append(o.Keep, m.Graph.ValueName(st.Value))
				}
			case 1:
				if slices.Contains(keep, root) {
					continue
				}
				alone := planner.Options{Recompute: []string{m.Graph.ValueName(st.Value)}, Keep: o.Keep}
				if _, err := planner.Make(m, types, alone); err != nil {
					require.ErrorIs(t, err, planner.ErrDemand)
					refused++
					continue
				}
				again, o.Recompute = append(again, root), append(o.Recompute, alone.Recompute...)
			}
		}
		for i, s := range strategies(plain, rng) {
			o.Strategy = s
			p, err := planner.Make(m, types, o)
			if err != nil {
				if i < 4 || i > 8 {
					require.NoError(t, err, "seed %d, strategy %d", seed, i)
				}
				require.True(t, i > 3 && i < 9, "seed %d", seed) // a budget
				if !strings.Contains(err.Error(), "in a plan to a budget") {
					require.ErrorIs(t, err, planner.ErrInfeasible, "seed %d, strategy %d", seed, i)
				}
				continue
			}
			for _, v := range keep {
				if def := m.Graph.Values[v].Def; def != graph.NoNode {
					require.False(t, runsAgain(p, def), "seed %d, strategy %d: %q", seed, i, m.Graph.ValueName(v))
					kept++
				}
			}
			for _, v := range again {
				require.True(t, runsAgain(p, m.Graph.Values[v].Def), "seed %d, strategy %d: %q", seed, i,
					m.Graph.ValueName(v))
				forced++
			}
			for _, st := range p.Stashed {
				if root := showing(m.Graph, st.Value); slices.Contains(keep, root) {
					require.NotEmpty(t, st.WhyKept, "seed %d, strategy %d", seed, i)
				}
			}
			if p.Bound != nil {
				require.LessOrEqual(t, p.Bound.Overhead, p.Overhead*(1+1e-9)+1e-12)
				require.Equal(t, p.Bound.Optimal, p.Bound.Gap == 0)
			}
			if seed%5 == 0 { // a graph without subgraphs
				checkPlan(t, p, seed)
			}
			// The plan's own placements obey already: nothing is added, nothing left out.
			file := o
			file.Strategy = &planner.PlanFile{Placements: p.Placements, Order: p.Analysis.Order}
			same, err := planner.Make(m, types, file)
			require.NoError(t, err)
			require.Equal(t, p.Planned.Peak, same.Planned.Peak, "seed %d, strategy %d", seed, i)
			require.Equal(t, p.Recompute.Nodes, same.Recompute.Nodes)
		}
	}
	require.Greater(t, kept, 300)
	require.Greater(t, forced, 300)
	require.Positive(t, refused)
}

// TestDemandErrors: contradictions and names that nothing has are told, with what to do.
func TestDemandErrors(t *testing.T) {
	ex, _ := examples.Lookup("transformer")
	m, err := ex.Build()
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	plain, err := planner.Make(m, types, planner.Options{Dims: ex.Dims, Strategy: planner.Layerwise})
	require.NoError(t, err)
	g := m.Graph
	at := slices.IndexFunc(plain.Placements, func(pl recompute.Placement) bool {
		return showing(g, pl.Value) == pl.Value
	})
	again := g.ValueName(plain.Placements[at].Value)
	var unread, backward graph.ValueID = graph.NoValue, graph.NoValue
	for _, id := range plain.Analysis.Order {
		v := g.Nodes[id].Output(0)
		stashed := slices.ContainsFunc(plain.Analysis.Stashed, func(s live.Stash) bool {
			return showing(g, s.Value) == showing(g, v)
		})
		if plain.Analysis.Backward[id] {
			backward = v
		} else if !stashed && !op.IsConstant(g, id) && g.Values[showing(g, v)].Def != graph.NoNode {
			unread = v
		}
	}
	for _, c := range []struct {
		keep, recompute string
		wants           []string
	}{
		{keep: "nothing_like_it*", wants: []string{"Keep", `no value, node or layer matches "nothing_like_it*"`}},
		{recompute: again + "x", wants: []string{"Recompute", "did you mean", again}},
		{keep: again, recompute: again, wants: []string{again, "Keep", "Recompute", "one of the two"}},
		{recompute: g.ValueName(g.Inputs[0].Value), wants: []string{"live throughout"}},
		{recompute: g.ValueName(unread), wants: []string{"no backward node reads it"}},
		{recompute: g.ValueName(backward), wants: []string{"in the backward half"}},
		{keep: again + ",nothing", wants: []string{`"nothing"`}},
	} {
		o := planner.Options{Dims: ex.Dims}
		if c.keep != "" {
			o.Keep = []string{c.keep}
		}
		if c.recompute != "" {
			o.Recompute = []string{c.recompute}
		}
		_, err := planner.Make(m, types, o)
		require.ErrorIs(t, err, planner.ErrDemand, "%+v", c)
		for _, want := range c.wants {
			require.ErrorContains(t, err, want)
		}
	}
	// What is kept within the subgraph of what is forced does not run again: it is there.
	const where, softmax = "/transformer/h.0/attn/Where_output_0", "/transformer/h.0/attn/Softmax_output_0"
	both, err := planner.Make(m, types,
		planner.Options{Dims: ex.Dims, Keep: []string{where}, Recompute: []string{softmax}})
	require.NoError(t, err)
	def := func(name string) graph.NodeID {
		v, ok := g.Lookup(name)
		require.True(t, ok)
		return g.Values[v].Def
	}
	require.False(t, runsAgain(both, def(where)))
	require.True(t, runsAgain(both, def(softmax)))
	checkPlan(t, both, 0)
	// Globs leave out what cannot run again, and say so.
	p, err := planner.Make(m, types, planner.Options{Dims: ex.Dims, Recompute: []string{"*"}})
	require.NoError(t, err)
	require.Greater(t, p.Recompute.Nodes, len(plain.Placements))
	checkPlan(t, p, 0)
	_, err = planner.Pareto(context.Background(), m, types,
		planner.Options{Dims: ex.Dims, Keep: []string{"*"}, Strategy: &planner.Budget{Effort: 0.01}}, 3)
	require.NoError(t, err)
}
