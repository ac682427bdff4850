package planner_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/symbolic"
)

// kept is a policy with one answer.
func kept(all bool) planner.Policy { return func(*planner.Activation) bool { return all } }

// TestPolicy: an activation that the policy keeps has no clone; any other has one, or a rejection.
func TestPolicy(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 7))
		m := graphtest.Training(rng, graphtest.Options{Nodes: 20 + rng.IntN(60), Yield: seed%2 == 0})
		asked, refused := map[graph.NodeID]bool{}, 0
		s := strategy(func(_ context.Context, c *planner.Chooser) error {
			for _, a := range c.Activations() {
				if rng.IntN(2) == 0 {
					continue
				}
				no, err := c.Recompute(a.Value)
				if err != nil {
					return err
				}
				if refused += len(no); len(no) == 0 {
					asked[a.Node.ID] = true
				}
			}
			return nil
		})
		p := mustMake(t, m, planner.Options{Strategy: s})
		checkPlan(t, p, seed)
		again := map[graph.NodeID]bool{}
		for _, pl := range p.Placements {
			for _, id := range pl.Nodes {
				again[id] = true
			}
		}
		for id := range asked {
			require.True(t, again[id], "seed %d: node %s is asked for", seed, m.Graph.NodeLabel(id))
		}
		require.Equal(t, len(asked) == 0, p.Recompute.Nodes == 0, "seed %d", seed)
	}
}

// TestPolicyKeepsAll: a policy that keeps everything is no plan.
func TestPolicyKeepsAll(t *testing.T) {
	m, dims := example(t)
	p := mustMake(t, m, planner.Options{Dims: dims, Strategy: kept(true)})
	none := mustMake(t, m, planner.Options{Dims: dims})
	require.Zero(t, p.Recompute.Nodes)
	require.Equal(t, none.Planned.Peak, p.Planned.Peak)
	require.Equal(t, none.Arena.Bytes, p.Arena.Bytes)
}

// TestPolicyPeak: the chooser's peak is that of the plan, and sizes are those of the model.
func TestPolicyPeak(t *testing.T) {
	m, dims := example(t)
	var before, after int64
	s := strategy(func(_ context.Context, c *planner.Chooser) error {
		before = c.Peak()
		for _, a := range c.Activations() {
			require.Positive(t, a.Bytes)
			require.False(t, op.Of(a.Node.Kind).View, "a view counts as the tensor that it shows")
			require.Equal(t, m.Graph.ValueName(a.Value), a.Name)
			if a.Node.Op == "Gelu" {
				_, err := c.Recompute(a.Value)
				require.NoError(t, err)
			}
		}
		after = c.Peak()
		return nil
	})
	p := mustMake(t, m, planner.Options{Dims: dims, Strategy: s})
	require.Equal(t, p.Base.Peak.Bytes, before)
	require.Equal(t, p.Planned.Peak.Bytes, after)
	require.Less(t, after, before)
	require.Equal(t, "policy", p.Solver)

	// Without sizes the same nodes are recomputed, and no bytes are known.
	open := mustMake(t, m, planner.Options{Strategy: planner.Policy(func(a *planner.Activation) bool {
		require.Zero(t, a.Bytes)
		return a.Node.Op != "Gelu"
	})})
	require.Equal(t, p.Recompute.Nodes, open.Recompute.Nodes)
}

// TestPolicyDemands: Options.Keep comes before a policy, and Options.Recompute beside it.
func TestPolicyDemands(t *testing.T) {
	m, dims := example(t)
	p := mustMake(t, m, planner.Options{Dims: dims, Strategy: kept(false), Keep: []string{"*"}})
	require.Zero(t, p.Recompute.Nodes)

	all := mustMake(t, m, planner.Options{Dims: dims, Strategy: kept(false)})
	one := ""
	for _, id := range all.Analysis.Order {
		if n := m.Graph.Nodes[id]; n.Op == "Gelu" && one == "" {
			one = m.Graph.NodeLabel(id)
		}
	}
	few := mustMake(t, m, planner.Options{Dims: dims, Strategy: kept(false), Keep: []string{one}})
	require.Less(t, few.Recompute.Nodes, all.Recompute.Nodes)
	asked := mustMake(t, m, planner.Options{Dims: dims, Strategy: kept(true), Recompute: []string{one}})
	require.Positive(t, asked.Recompute.Nodes)
	want := mustMake(t, m, planner.Options{Dims: dims, Recompute: []string{one}})
	require.Equal(t, want.Placements, asked.Placements)
}

// TestChooserErrors: a value that is no stashed activation is refused by name, and a strategy's own error ends the
// plan.
func TestChooserErrors(t *testing.T) {
	m, dims := example(t)
	types, err := op.Infer(m)
	require.NoError(t, err)
	weight := m.Graph.Inputs[0].Value
	for _, v := range []graph.ValueID{weight, -1, graph.ValueID(len(m.Graph.Values))} {
		s := strategy(func(_ context.Context, c *planner.Chooser) error {
			_, err := c.Recompute(v)
			return err
		})
		_, err := planner.Make(m, types, planner.Options{Dims: dims, Strategy: s})
		require.ErrorIs(t, err, planner.ErrDemand)
	}
	broken := errors.New("broken")
	_, err = planner.Make(m, types, planner.Options{Dims: dims,
		Strategy: strategy(func(context.Context, *planner.Chooser) error { return broken })})
	require.ErrorIs(t, err, broken)
}

// strategy is a strategy from outside.
type strategy func(ctx context.Context, c *planner.Chooser) error

func (s strategy) Choose(ctx context.Context, c *planner.Chooser) error { return s(ctx, c) }

func example(t *testing.T) (*graph.Model, symbolic.Env) {
	t.Helper()
	m, err := examples.Transformer(examples.TransformerOptions{Layers: 2, Hidden: 64, Heads: 4, Vocab: 50,
		Positions: 64})
	require.NoError(t, err)
	return m, symbolic.Env{"batch": 2, "seq": 64}
}

func mustMake(t *testing.T, m *graph.Model, o planner.Options) *planner.Plan {
	t.Helper()
	types, err := op.Infer(m)
	require.NoError(t, err)
	p, err := planner.Make(m, types, o)
	require.NoError(t, err)
	return p
}
