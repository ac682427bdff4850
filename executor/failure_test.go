package executor_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// lateText updates w, v and n before a node looks at indices of which nothing is known. The update of
// u is behind it. seen is looked at twice.
const lateText = `<ir_version: 8, opset_import: ["" : 17]>
step (float[64] w, float[64] v, int64 n, float[64] u, float[64] g, float[8] x, int64[2] late, int64[2] seen)
	=> (float[64] w_updated, float[64] v_updated, int64 n_updated, float[64] u_updated, float[2] a, float[2] b, float[2] c)
	< int64 one = {1} > {
	a = Gather(x, seen)
	v1 = Mul(v, g)  v_updated = Identity(v1)
	w_updated = Sub(w, v1)  n_updated = Add(n, one)
	b = Gather(x, late)
	u_updated = Sub(u, g)
	c = Gather(x, seen)
}`

// Indices that are wrong end a step before it has written any state, wherever they are read: the next
// step goes on from the old ones.
func TestStepThatDataFail(t *testing.T) {
	m, types := parsed(t, lateText)
	in := firstInputs(t, m)
	set := func(name string, indices ...int64) {
		x := &executor.Tensor{DType: graph.Int64, Shape: []int{2}, Data: make([]byte, 16)}
		copy(executor.Of[int64](x), indices)
		in[name] = x
	}
	set("late", 1, -2)
	set("seen", 7, 0)
	want := handedOn(t, m, types, in, 2)
	for _, o := range []executor.Options{{}, {OnDemand: true}, {NoFusion: true, Guard: true}} {
		for _, name := range []string{"late", "seen"} {
			s := opened(t, m, types, o)
			give(t, s, in)
			require.NoError(t, s.Run(context.Background()))
			require.Equal(t, want[0], outputsOf(s))
			good := in[name]
			set(name, 1, 99)
			require.NoError(t, s.SetInput(name, in[name]))
			for range 2 {
				err := s.Run(context.Background())
				require.ErrorContains(t, err, "index 99")
				var torn *executor.TornError
				require.NotErrorAs(t, err, &torn)
			}
			in[name] = good
			require.NoError(t, s.SetInput(name, good))
			require.NoError(t, s.Run(context.Background()))
			require.Equal(t, want[1], outputsOf(s), "%s %+v", name, o)
		}
	}

	sizes, err := live.EvalSizes(m.Graph, nil)
	require.NoError(t, err)
	sizes.States, err = live.FindStates(m)
	require.NoError(t, err)
	order := graph.FileOrder(m.Graph)
	sizes.Failures = op.Failures(m.Graph, types, order, nil)
	tl, err := live.Simulate(m.Graph, order, sizes)
	require.NoError(t, err)
	require.Len(t, tl.Copied, 3, "the update of u is in place")
}

// The states of a first step that fails, for whatever reason, are what they began with.
func TestFirstStepThatFails(t *testing.T) {
	m, types := trainingStep(t, "float", autograd.Optimizer{Kind: "adamw", LR: 0.1}, "")
	in := firstInputs(t, m)
	want := handedOn(t, m, types, in, 2)
	for _, again := range []bool{false, true} {
		for i := range m.Graph.Nodes {
			runs := 1
			if again {
				runs = 2
			}
			d := failing{node: m.Graph.NodeLabel(graph.NodeID(i)), runs: &runs}
			s, err := executor.Open(context.Background(), m, types, d, executor.Options{Threads: 1})
			require.NoError(t, err)
			give(t, s, in)
			if again {
				require.NoError(t, s.Run(context.Background()))
				require.NoError(t, s.Restart())
			}
			if err := s.Run(context.Background()); err != nil {
				require.Equal(t, errBroken.Error(), err.Error()[len(err.Error())-len(errBroken.Error()):], "torn")
				require.NoError(t, s.Run(context.Background()))
			}
			require.Equal(t, want[0], outputsOf(s), d.node)
			require.NoError(t, s.Run(context.Background()))
			require.Equal(t, want[1], outputsOf(s), d.node)
			require.NoError(t, s.Close())
		}
	}
	// Memory that was handed over has no second copy.
	last := m.Graph.NodeLabel(graph.NodeID(len(m.Graph.Nodes) - 1))
	runs := 1
	s, err := executor.Open(context.Background(), m, types, failing{cpu.Device{}, last, &runs},
		executor.Options{Threads: 1, AdoptStates: true, NoFusion: true})
	require.NoError(t, err)
	defer s.Close()
	give(t, s, in)
	var torn *executor.TornError
	require.ErrorAs(t, s.Run(context.Background()), &torn)
}
