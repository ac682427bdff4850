package executor_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// seen is what an observer is told of one node.
type seen struct {
	place int
	node  graph.NodeID
	live  int64
}

// watcher collects what an observer is told.
type watcher struct {
	nodes []seen
	start []time.Time
	took  []time.Duration
}

func (w *watcher) Node(i int, id graph.NodeID, start time.Time, took time.Duration, live int64) {
	w.nodes = append(w.nodes, seen{i, id, live})
	w.start, w.took = append(w.start, start), append(w.took, took)
}

// TestFusionIsObserved: of nodes that run block by block an observer is told the same as where
// every node runs on its own, and their times follow each other.
func TestFusionIsObserved(t *testing.T) {
	m, types := parsed(t, fusionModel)
	env := symbolic.Env{"N": 13}
	var want []seen
	for _, o := range []executor.Options{{NoFusion: true, Threads: 1}, {Threads: 1}, {Threads: 3},
		{Threads: 2, OnDemand: true}} {
		w := &watcher{}
		o.Dims, o.Observer = env, w
		s := opened(t, m, types, o)
		fill(t, s, env)
		require.NoError(t, s.Run(context.Background()))
		require.NoError(t, s.Run(context.Background()))
		if want == nil {
			want = w.nodes
			require.Len(t, want, 2*len(m.Graph.Nodes))
		}
		require.Equal(t, want, w.nodes, "%+v", o)
		for i, took := range w.took {
			require.GreaterOrEqual(t, took, time.Duration(0))
			if i > 0 {
				require.False(t, w.start[i].Before(w.start[i-1].Add(w.took[i-1])),
					"node %d starts before the one before it ends", i)
			}
		}
	}
}

// TestObservingChangesNothing: the outputs of observed steps are those of steps that nobody looks
// at.
func TestObservingChangesNothing(t *testing.T) {
	m, types := parsed(t, fusionModel)
	env := symbolic.Env{"N": 13}
	var want []byte
	for _, obs := range []executor.Observer{nil, &watcher{}} {
		s := opened(t, m, types, executor.Options{Threads: 2, Dims: env, Observer: obs})
		fill(t, s, env)
		require.NoError(t, s.Run(context.Background()))
		if want == nil {
			want = append(want, s.Output(0).Data...)
		}
		require.Equal(t, want, s.Output(0).Data)
	}
}

// TestFusionIsCut: a node that turns out to be no plain loop when the run comes to it, as a
// broadcast, runs on its own, first in its group or not.
func TestFusionIsCut(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		cut (float[N, 4096] x, float[N, 1] b) => (float[N, 4096] y) { a = Add(x, b)  c = Exp(a)  d = Mul(c, b)  y = Neg(d) }`)
	env := symbolic.Env{"N": 13}
	var want []byte
	for _, o := range []executor.Options{{NoFusion: true}, {Threads: 2}} {
		o.Dims = env
		s := opened(t, m, types, o)
		fill(t, s, env)
		for range 2 {
			require.NoError(t, s.Run(context.Background()))
		}
		if want == nil {
			want = append(want, s.Output(0).Data...)
		}
		require.Equal(t, want, s.Output(0).Data)
	}
}
