package explain_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/explain"
	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/planner/device"
	"memopt/symbolic"
)

// drawn are small training graphs with subgraphs, views, parts and in-place operators.
func drawn(t *testing.T, seed uint64) *memopt.Model {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 61))
	m, err := memopt.New(graphtest.Training(rng, graphtest.Options{Nodes: 10 + rng.IntN(60), Yield: seed%3 == 0,
		Layers: seed%4 == 0, Control: seed%5 == 0, Parts: seed%4 != 1, Rows: int64(1 + rng.IntN(12)),
		Width: int64(1 + rng.IntN(70))}), memopt.Options{})
	require.NoError(t, err)
	return m
}

func planOf(t *testing.T, m *memopt.Model, s memopt.Strategy, o memopt.PlanOptions) *memopt.Plan {
	t.Helper()
	p, err := m.Plan(context.Background(), s, o)
	require.NoError(t, err)
	return p
}

// TestSum: the rows at the peak are the simulated peak, to the byte, and their kinds the plan's
// composition, whatever the strategy; with persistent bytes they are all that is live.
func TestSum(t *testing.T) {
	clones, parts := 0, 0
	for seed := range uint64(16) {
		m := drawn(t, seed)
		for _, s := range []memopt.Strategy{nil, memopt.Level(1), memopt.Level(2),
			memopt.Budget{Share: 0.85, Effort: 0.01}} {
			p, err := m.Plan(context.Background(), s, memopt.PlanOptions{})
			if err != nil {
				require.ErrorIs(t, err, planner.ErrInfeasible)
				continue
			}
			r, err := explain.Explain(context.Background(), p, explain.Options{Top: 1})
			require.NoError(t, err)
			require.Equal(t, p.Planned.Peak.Bytes, r.Sum(), "seed %d", seed)
			at := p.After.Peak.Parts
			of := map[live.Kind]int64{}
			for _, v := range r.Values {
				require.Positive(t, v.Bytes)
				require.NotEmpty(t, v.Why)
				of[v.Kind] += v.Bytes
				if v.Kind == live.Unfilled {
					parts++
				}
				if len(v.Name) > 10 && v.Name[len(v.Name)-10:] == "_recompute" {
					clones++
				}
				if n, err := v.Expr.Eval(nil); err == nil {
					require.Equal(t, v.Bytes, n, "seed %d: %s", seed, v.Name)
				}
			}
			always := live.PersistentParts(m.Graph, p.Sizes, live.FindRoles(m.Graph, p.Sizes.States,
				p.Analysis.Backward, p.Analysis.Order))
			require.Equal(t, at.Gradients-always.Gradients, of[live.Gradient], "seed %d", seed)
			require.Equal(t, at.Activations, of[live.Activation], "seed %d", seed)
			require.Equal(t, at.Temporaries, of[live.Temporary]+of[live.Unfilled]+of[live.Beside], "seed %d", seed)
			require.Equal(t, at.Workspace, of[live.Workspace], "seed %d", seed)
			require.Equal(t, at.Inner, of[live.Inner], "seed %d", seed)
			require.Equal(t, at.Sum()-p.Persistent, r.Sum())
		}
	}
	require.Greater(t, clones, 5)
	require.Positive(t, parts)
}

// TestAliveByBruteForce: in graphs in which nothing shares memory, a value is live at the peak if it
// is made by then and read from then on, or is an output; who made it, who reads it last and what it
// waits for are those that a search through all runs finds.
func TestAliveByBruteForce(t *testing.T) {
	rows := 0
	for seed := range uint64(80) {
		rng := rand.New(rand.NewPCG(seed, 62))
		read := graphtest.Vectors(5+rng.IntN(12), rng.IntN)
		m, err := memopt.New(read, memopt.Options{})
		require.NoError(t, err)
		if _, err := live.FindBoundary(m.Model); err != nil {
			continue
		}
		// As on a runtime that writes nothing in place, of which no node is said to alias.
		o := planner.Options{Aliased: make([]bool, len(read.Graph.Nodes))}
		p := planOf(t, m, nil, memopt.PlanOptions{Options: o})
		r, err := explain.Explain(context.Background(), p, explain.Options{})
		require.NoError(t, err)
		g, order := m.Graph, p.Analysis.Order
		var want []string
		for at, id := range order {
			for _, v := range g.Nodes[id].Outputs {
				if v == graph.NoValue || p.Sizes.Bytes[v] <= 0 {
					continue
				}
				output := slices.ContainsFunc(g.Outputs, func(d graph.Decl) bool { return d.Value == v })
				next, last := "", ""
				for later, reader := range order {
					if slices.Contains(g.Nodes[reader].Inputs, v) {
						if last = g.NodeLabel(reader); later >= r.Step && next == "" {
							next = last
						}
					}
				}
				if at > r.Step || next == "" && !output && at < r.Step {
					continue
				}
				want = append(want, g.ValueName(v))
				i := slices.IndexFunc(r.Values, func(row *explain.Value) bool { return row.ID == v })
				require.GreaterOrEqual(t, i, 0, "seed %d: %s is live", seed, g.ValueName(v))
				require.Equal(t, next, r.Values[i].HeldBy, "seed %d: %s", seed, g.ValueName(v))
				require.Equal(t, last, r.Values[i].LastReader, "seed %d: %s", seed, g.ValueName(v))
				require.Equal(t, g.NodeLabel(id), r.Values[i].Producer)
				require.Equal(t, p.Sizes.Bytes[v], r.Values[i].Bytes)
				rows++
			}
		}
		require.Len(t, r.Values, len(want), "seed %d", seed)
	}
	require.Greater(t, rows, 100)
}

// TestFixesAreKept: what a fix promises is the peak of the plan that is made with it.
func TestFixesAreKept(t *testing.T) {
	again, saving, parts := 0, 0, 0
	for seed := range uint64(10) {
		m := drawn(t, seed)
		for i, s := range []memopt.Strategy{nil, memopt.Level(1), memopt.Budget{Share: 0.9, Effort: 0.01}} {
			p, err := m.Plan(context.Background(), s, memopt.PlanOptions{})
			if err != nil {
				continue
			}
			r, err := explain.Explain(context.Background(), p, explain.Options{Top: 4})
			require.NoError(t, err)
			for _, v := range r.Values {
				for k, f := range v.Fixes {
					require.Equal(t, p.Planned.Peak.Bytes-f.Saves, f.Peak)
					if k > 0 {
						require.GreaterOrEqual(t, float64(v.Fixes[k-1].Saves)*max(f.Millis, 1e-6),
							float64(f.Saves)*max(v.Fixes[k-1].Millis, 1e-6), "seed %d: the order of fixes", seed)
					}
					o := memopt.PlanOptions{}
					strategy := s
					switch f.What {
					case explain.Recompute:
						o.Recompute = []string{v.Name}
						if i == 2 {
							strategy = &planner.PlanFile{Placements: p.Placements, Order: p.Analysis.Order}
						}
						again++
					case explain.Reorder:
						o.Order = planner.OrderMemory
					case explain.Parts:
						with := planOf(t, m, &planner.PlanFile{Cuts: r.Cuts}, o)
						require.Equal(t, f.Peak, with.Planned.Peak.Bytes, "seed %d: in parts", seed)
						require.Positive(t, f.Saves)
						require.InDelta(t, f.Millis, 1e3*with.Overhead*p.Step.Seconds, 1e-9)
						parts++
						continue
					default:
						require.True(t, f.Hint)
						continue
					}
					with := planOf(t, m, strategy, o)
					require.Equal(t, f.Peak, with.Planned.Peak.Bytes, "seed %d: %s of %s", seed, f.What, v.Name)
					require.Equal(t, f.PeakNode, m.Graph.NodeLabel(with.Planned.Peak.Node))
					require.InDelta(t, f.Millis, 1e3*(with.Recompute.Seconds-p.Recompute.Seconds), 1e-9)
					if f.Saves > 0 {
						saving++
					}
				}
			}
		}
	}
	require.Greater(t, again, 25)
	require.Greater(t, saving, 5)
	require.Positive(t, parts)
}

// TestOffload: a value that is offloaded is not in the peak, and other values are.
func TestOffload(t *testing.T) {
	found := 0
	for seed := range uint64(8) {
		p := planOf(t, drawn(t, seed), nil, memopt.PlanOptions{})
		r, err := explain.Explain(context.Background(), p, explain.Options{})
		require.NoError(t, err)
		for _, v := range r.Values {
			for _, f := range v.Fixes {
				if f.What != explain.Offload {
					continue
				}
				found++
				require.LessOrEqual(t, f.Saves, p.Planned.Peak.Bytes-p.Planned.LowerBound)
				millis := 2e3 * float64(p.Sizes.Bytes[v.ID]) / device.Default.Link
				require.InDelta(t, millis, f.Millis, 1e-3*f.Millis+1e-9)
			}
		}
	}
	require.Greater(t, found, 5)
}

// TestNames: a name, a node, a layer and a glob choose rows; what is not live at the peak is told of.
func TestNames(t *testing.T) {
	ex, _ := examples.Lookup("transformer")
	m, err := memopt.Example("transformer", memopt.Options{})
	require.NoError(t, err)
	p := planOf(t, m, nil, memopt.PlanOptions{Options: planner.Options{SkipLayout: true}})
	ask := func(name string) *explain.Result {
		r, err := explain.Explain(context.Background(), p, explain.Options{Name: name, Top: 1})
		require.NoError(t, err)
		return r
	}
	all := ask("")
	require.Equal(t, p.Planned.Peak.Bytes, all.Sum())
	layer := ask("/transformer/h.0")
	var sum int64
	for _, v := range all.Values {
		if v.Layer == "/transformer/h.0" {
			sum += v.Bytes
		}
	}
	require.Equal(t, sum, layer.Sum())
	require.Positive(t, sum)
	require.NotEmpty(t, layer.Elsewhere)
	one := ask("/transformer/h.0/attn/Softmax_output_0")
	require.Len(t, one.Values, 1)
	require.Equal(t, "/transformer/h.0/attn/Softmax", one.Values[0].Producer)
	require.NotEmpty(t, one.Values[0].Fixes)
	require.Equal(t, one.Values, ask("/transformer/h.0/attn/Softmax").Values)
	weight := ask("transformer.wte.weight")
	require.Empty(t, weight.Values)
	require.Contains(t, weight.Elsewhere[0].Why, "live throughout")
	for _, a := range ask("*").Elsewhere {
		require.NotEmpty(t, a.Why)
		switch {
		case a.First < 0:
		case a.Until < all.Step:
			require.Contains(t, a.Why, "before the peak", a.Name)
		case a.First > all.Step:
			require.Contains(t, a.Why, "after the peak", a.Name)
		default:
			require.Contains(t, a.Why, "in place", a.Name)
		}
	}
	_, err = explain.Explain(context.Background(), p, explain.Options{Name: "nobody"})
	require.ErrorContains(t, err, `"nobody"`)
	free := *m
	free.Dims = symbolic.Env{}
	unbound, err := free.Plan(context.Background(), nil, memopt.PlanOptions{})
	require.NoError(t, err)
	var missing *symbolic.UnboundError
	_, err = explain.Explain(context.Background(), unbound, explain.Options{})
	require.ErrorAs(t, err, &missing)
	require.NotEmpty(t, ex.Dims)
}

// TestStates: in whole steps, what lies in the memory of states is no part of the peak, and is said
// to be there.
func TestStates(t *testing.T) {
	forward, err := memopt.Example("mlp", memopt.Options{Dims: map[string]int64{"batch": 64}})
	require.NoError(t, err)
	_, err = op.Infer(forward.Model)
	require.NoError(t, err)
	step, _, err := forward.Training(autograd.Options{}, &autograd.Optimizer{Kind: "adamw"})
	require.NoError(t, err)
	p := planOf(t, step, nil, memopt.PlanOptions{})
	r, err := explain.Explain(context.Background(), p, explain.Options{Name: "*", Top: 1})
	require.NoError(t, err)
	require.Equal(t, p.Planned.Peak.Bytes, r.Sum())
}
