package timeline_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/explain"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/planner/chunk"
	"memopt/recompute"
	"memopt/view/timeline"
)

// drawn are small training graphs with subgraphs, views, parts and in-place operators.
func drawn(t *testing.T, seed uint64) *memopt.Model {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 19))
	m, err := memopt.New(graphtest.Training(rng, graphtest.Options{Nodes: 10 + rng.IntN(60), Yield: seed%3 == 0,
		Layers: seed%4 == 0, Control: seed%5 == 0, Parts: seed%4 != 1, Rows: int64(1 + rng.IntN(12)),
		Width: int64(1 + rng.IntN(70))}), memopt.Options{})
	require.NoError(t, err)
	return m
}

// eachPlan calls f with plans of many graphs by several strategies.
func eachPlan(t *testing.T, f func(p *memopt.Plan)) {
	t.Helper()
	for _, p := range plans(t) {
		f(p)
	}
}

var planned []*memopt.Plan

// plans makes the plans once.
func plans(t *testing.T) []*memopt.Plan {
	t.Helper()
	if planned != nil {
		return planned
	}
	var models []*memopt.Model
	for seed := range uint64(24) {
		models = append(models, drawn(t, seed))
	}
	for _, name := range []string{"transformer-small", "cnn", "mlp"} {
		m, err := memopt.Example(name, memopt.Options{})
		require.NoError(t, err)
		models = append(models, m)
	}
	for i, m := range models {
		for _, s := range []memopt.Strategy{nil, memopt.Level(1), memopt.Level(2),
			memopt.Budget{Share: 0.85, Effort: 0.01}} {
			o := memopt.PlanOptions{}
			if i%2 == 0 {
				o.Device = cpu.Device{}
			}
			if i%3 == 0 {
				o.CloneBytes = 24
			}
			o.Chunk = chunk.Exact
			p, err := m.Plan(context.Background(), s, o)
			if err != nil {
				require.ErrorIs(t, err, planner.ErrInfeasible)
				continue
			}
			planned = append(planned, p)
		}
	}
	return planned
}

// TestLiveBytes: what blocks hold is the simulation's live bytes at every node, to the byte, for the
// plan and for the baseline, and of the same kinds as the plan's composition; in a buffer no two
// blocks, and in the arena no two buffers, have a byte in common at the same time.
func TestLiveBytes(t *testing.T) {
	clones, unfilled, parts, seen := 0, 0, 0, timeline.Bytes{}
	regions, cuts := map[string]bool{}, map[string]bool{}
	eachPlan(t, func(p *memopt.Plan) {
		tl, err := timeline.Of(p.Plan)
		require.NoError(t, err)
		base, err := timeline.Baseline(p.Plan)
		require.NoError(t, err)
		for i := range base.Blocks {
			require.Equal(t, base.Layout != nil && base.Blocks[i].Buffer >= 0, base.Offset(&base.Blocks[i]) >= 0)
		}
		base.Pack(context.Background())
		for _, c := range []struct {
			t          *timeline.Timeline
			simulated  *live.Timeline
			persistent int64
		}{{tl, p.Planned, p.Persistent}, {base, p.Baseline().Base, p.Baseline().Persistent}} {
			require.Len(t, c.t.Steps, len(c.simulated.Live))
			held := make([]timeline.Bytes, len(c.t.Steps))
			for i := range c.t.Blocks {
				b := &c.t.Blocks[i]
				require.Positive(t, b.Bytes)
				require.LessOrEqual(t, b.First, b.Last)
				require.NotEmpty(t, b.Name)
				for at := b.First; at <= b.Last; at++ {
					held[at][b.Kind] += b.Bytes
				}
				seen[b.Kind]++
				if b.Unfilled {
					unfilled++
				}
			}
			for i := range c.t.Steps {
				require.Equal(t, held[i], c.t.Steps[i].Live)
				require.Equal(t, c.simulated.Live[i], c.t.Steps[i].Live.Sum())
			}
			require.Equal(t, c.simulated.Peak.Bytes, c.t.Steps[c.t.Peak].Live.Sum())
			require.Equal(t, c.persistent, c.t.Persistent.Sum())
			apart(t, c.t)
		}
		for _, c := range p.Fission {
			cuts[c.Region] = true
		}
		sameParts(t, tl, p.After)
		sameParts(t, base, p.Baseline().Before)
		for i := range tl.Steps {
			if tl.Steps[i].Clone() {
				clones++
			}
			s := &tl.Steps[i]
			if s.Part > 0 {
				parts++
			}
			require.Equal(t, s.Region < 0, s.Part < 0)
			require.Less(t, int(s.Region), len(p.Fission))
			if s.Region >= 0 {
				require.Less(t, int(s.Part), p.Fission[s.Region].Parts)
				regions[p.Fission[s.Region].Region] = true
			}
		}
	})
	require.Greater(t, clones, 20)
	require.Greater(t, unfilled, 5)
	require.Greater(t, parts, 5)
	require.Equal(t, cuts, regions, "every region has parts")
	for _, k := range []timeline.Kind{timeline.Gradients, timeline.Activations, timeline.Temporaries,
		timeline.Workspaces,
		timeline.Subgraphs} {
		require.Positive(t, seen[k], k.String())
	}
}

// sameParts compares with what a plan says of the worst step of each phase.
func sameParts(t *testing.T, tl *timeline.Timeline, c *live.Composition) {
	t.Helper()
	for ph, m := range c.Phases {
		if m.Step < 0 {
			continue
		}
		s := &tl.Steps[m.Step]
		require.Equal(t, live.Phase(ph), s.Phase)
		require.Equal(t, m.Node, s.Node)
		of := func(k timeline.Kind) int64 { return tl.Persistent[k] + s.Live[k] }
		require.Equal(t, m.Parts, live.Parts{Weights: of(timeline.Weights), State: of(timeline.State),
			Gradients: of(timeline.Gradients), Activations: of(timeline.Activations),
			Temporaries: of(timeline.Temporaries),
			Workspace:   of(timeline.Workspaces), Inner: of(timeline.Subgraphs)})
	}
}

// apart compares every block with every other one.
func apart(t *testing.T, tl *timeline.Timeline) {
	t.Helper()
	for i := range tl.Blocks {
		x := &tl.Blocks[i]
		if tl.Offset(x) < 0 {
			require.Negative(t, x.Buffer)
			continue
		}
		u := &tl.Buffers[x.Buffer]
		require.LessOrEqual(t, x.Lo+x.Bytes, u.Bytes)
		require.LessOrEqual(t, u.First, x.First)
		require.LessOrEqual(t, x.Last, u.Last)
		require.LessOrEqual(t, u.Offset+u.Bytes, tl.Layout.Bytes)
		for j := range i {
			y := &tl.Blocks[j]
			if tl.Offset(y) < 0 || y.Last < x.First || x.Last < y.First {
				continue
			}
			require.True(t, tl.Offset(x)+x.Bytes <= tl.Offset(y) || tl.Offset(y)+y.Bytes <= tl.Offset(x),
				"%s and %s", x.Name, y.Name)
		}
	}
}

// TestAgainstExplain: at the peak the blocks are explain's rows: values, bytes, kinds, makers and last
// readers.
func TestAgainstExplain(t *testing.T) {
	type row struct {
		Name, Producer, Last, Layer string
		Bytes                       int64
		Kind                        timeline.Kind
	}
	kinds := map[live.Kind]timeline.Kind{live.Gradient: timeline.Gradients, live.Activation: timeline.Activations,
		live.Temporary: timeline.Temporaries, live.Unfilled: timeline.Temporaries}
	order := func(x, y row) int { return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Kind, y.Kind)) }
	eachPlan(t, func(p *memopt.Plan) {
		r, err := explain.Explain(context.Background(), p, explain.Options{Top: -1})
		require.NoError(t, err)
		tl, err := timeline.Of(p.Plan)
		require.NoError(t, err)
		var want, got []row
		for _, v := range r.Values {
			if k, ok := kinds[v.Kind]; ok && v.Name != "" {
				want = append(want, row{v.Name, v.Producer, v.LastReader, v.Layer, v.Bytes, k})
			}
		}
		label := func(step int32) string {
			if step < 0 {
				return ""
			}
			return tl.Graph.NodeLabel(tl.Steps[step].Node)
		}
		for i := range tl.Blocks {
			b := &tl.Blocks[i]
			if b.Value == graph.NoValue || int(b.First) > tl.Peak || tl.Peak > int(b.Last) {
				continue
			}
			one := row{b.Name, label(b.Made), label(b.Reader), tl.Layer(b), b.Bytes, b.Kind}
			// Explain has one row for a value that others lie in the midst of.
			if at := slices.IndexFunc(got, func(x row) bool { return order(x, one) == 0 }); at >= 0 {
				got[at].Bytes += one.Bytes
			} else {
				got = append(got, one)
			}
		}
		slices.SortFunc(want, order)
		slices.SortFunc(got, order)
		require.Equal(t, want, got)
	})
}

// TestStepsAreTheRewrittenGraph: steps are the nodes of the graph that apply writes, in its order and
// by its names, and what repeats another has the same operator.
func TestStepsAreTheRewrittenGraph(t *testing.T) {
	clones := 0
	eachPlan(t, func(p *memopt.Plan) {
		tl, err := timeline.Of(p.Plan)
		require.NoError(t, err)
		r, err := p.Rewrite(memopt.RewriteOptions{})
		require.NoError(t, err)
		require.Len(t, tl.Steps, len(r.Model.Graph.Nodes))
		now := 0.0
		for i, n := range r.Model.Graph.Nodes {
			s := &tl.Steps[i]
			require.Equal(t, r.Model.Graph.NodeLabel(graph.NodeID(i)), s.Name)
			require.Equal(t, n.Op, s.Op)
			require.Equal(t, r.Origin[i], s.Node)
			require.InDelta(t, now, s.Start, 1e-12)
			now += s.Seconds
			if s.Clone() {
				clones++
				require.Less(t, int(s.Repeats), i)
				require.Equal(t, r.Origin[i], r.Origin[s.Repeats])
				require.Equal(t, slices.Index(r.Origin, r.Origin[i]), int(s.Repeats))
				require.NotEqual(t, live.ForwardPhase, s.Phase)
				require.Contains(t, s.Name, recompute.Suffix)
			}
		}
		require.InDelta(t, p.Step.Seconds+p.Recompute.Seconds, tl.Seconds(), 1e-9)
	})
	require.Greater(t, clones, 20)
}
