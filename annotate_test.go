package memopt_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/answers/explain"
	"memopt/graph"
)

// noted returns the entries of a node's metadata that a rewrite has written.
func noted(t *testing.T, n *graph.Node) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, p := range n.Rare().Metadata {
		require.NotContains(t, out, p.Key, "said once")
		out[p.Key] = p.Value
	}
	return out
}

// annotated rewrites a model by level 1, with anchors, and annotates it.
func annotated(t *testing.T, m *memopt.Model) (*memopt.Plan, *memopt.Rewritten) {
	t.Helper()
	p, err := m.Plan(context.Background(), memopt.Level(1), memopt.PlanOptions{})
	require.NoError(t, err)
	var o memopt.RewriteOptions
	if p.Sizes != nil {
		o.Anchors, err = p.Anchor()
		require.NoError(t, err)
	}
	r, err := p.Rewrite(o)
	require.NoError(t, err)
	require.NoError(t, r.Annotate())
	return p, r
}

// TestAnnotate: every node of the plan says what it does to memory: as explain says it of what is live at
// the peak, and as the plan says it of what is stashed; anchors say nothing.
func TestAnnotate(t *testing.T) {
	for _, name := range []string{"transformer-small", "cnn", "mlp"} {
		m, err := memopt.Example(name, memopt.Options{})
		require.NoError(t, err)
		p, r := annotated(t, m)
		by := map[string]map[string]string{}
		for i, n := range r.Model.Graph.Nodes {
			got := noted(t, n)
			if r.Origin[i] == graph.NoNode {
				require.Empty(t, got)
				continue
			}
			require.Len(t, got, 3, n.Name)
			by[n.Name] = got
		}
		for _, row := range p.Stashed {
			if row.WhyKept == "" {
				got := by[p.Analysis.Graph.NodeLabel(row.Node)]
				require.Equal(t, "recomputed", got[memopt.DecisionKey])
			}
		}
		x, err := explain.Explain(context.Background(), p, explain.Options{Top: -1})
		require.NoError(t, err)
		held := map[string]int64{}
		for _, v := range x.Values {
			if v.Producer == "" || v.Name == "" {
				continue
			}
			maker := v.Producer + v.Name[len(m.Graph.ValueName(v.ID)):] // a clone's name ends as its values' do
			got := by[maker]
			var first, last, all int
			_, err := fmt.Sscanf(got[memopt.LiveKey], "%d to %d of %d", &first, &last, &all)
			require.NoError(t, err, v.Producer)
			require.LessOrEqual(t, first, x.Step+1)
			require.GreaterOrEqual(t, last, x.Step+1)
			require.Equal(t, x.Steps, all)
			held[maker] += v.Bytes
			require.GreaterOrEqual(t, bytesOf(t, got[memopt.BytesKey]), held[maker])
		}
		clones := 0
		for name, got := range by {
			if origin, ok := strings.CutPrefix(got[memopt.DecisionKey], "clone of "); ok {
				clones++
				require.True(t, strings.HasPrefix(name, origin+"_recompute"))
				require.Equal(t, "recomputed", by[origin][memopt.DecisionKey])
			}
		}
		require.Equal(t, p.Recompute.Nodes, clones)
	}
}

func bytesOf(t *testing.T, text string) (n int64) {
	t.Helper()
	_, err := fmt.Sscan(text, &n)
	require.NoError(t, err)
	return n
}

// TestAnnotateAgain: what was noted is read and written as it is, changes no plan, and is replaced by
// what a later rewrite notes; without sizes it goes.
func TestAnnotateAgain(t *testing.T) {
	m, err := memopt.Example("transformer-small", memopt.Options{})
	require.NoError(t, err)
	p, r := annotated(t, m)
	bare, err := p.Rewrite(memopt.RewriteOptions{Anchors: r.Anchoring})
	require.NoError(t, err)
	var plans []*memopt.Plan
	for _, one := range []*memopt.Rewritten{r, bare} {
		var file bytes.Buffer
		require.NoError(t, one.Write(&file))
		read, err := memopt.Read(&file, "file", memopt.Options{Dims: m.Dims})
		require.NoError(t, err)
		again, err := read.Plan(context.Background(), memopt.Level(1), memopt.PlanOptions{})
		require.NoError(t, err)
		plans = append(plans, again)
	}
	require.Equal(t, plans[1].Planned.Live, plans[0].Planned.Live)
	require.Equal(t, plans[1].Of.StructureSHA256, plans[0].Of.StructureSHA256)
	require.NotEmpty(t, noted(t, plans[0].Of.Graph.Nodes[0]))
	require.Empty(t, noted(t, plans[1].Of.Graph.Nodes[0]))
	steps := len(plans[0].Planned.Live)
	require.NotEqual(t, len(p.Planned.Live), steps)
	_, second := annotated(t, plans[0].Of)
	for _, n := range second.Model.Graph.Nodes {
		if got := noted(t, n); len(got) > 0 {
			require.True(t, strings.HasSuffix(got[memopt.LiveKey], fmt.Sprintf(" of %d", steps)), got[memopt.LiveKey])
		}
	}
	plans[0].Of.Dims = nil
	_, unbound := annotated(t, plans[0].Of)
	for _, n := range unbound.Model.Graph.Nodes {
		require.Empty(t, noted(t, n))
	}
}
