package diff_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/answers/diff"
)

// operators is a plan of the operators of a small perceptron, in which two nodes are computed again.
func operators(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile("../../sim/torch/testdata/net.operators.json")
	require.NoError(t, err)
	var plan map[string]any
	require.NoError(t, json.Unmarshal(data, &plan))
	return plan
}

func parsed(t *testing.T, plan map[string]any, name string) *diff.Subject {
	t.Helper()
	data, err := json.Marshal(plan)
	require.NoError(t, err)
	s, err := diff.Parse(data, name)
	require.NoError(t, err)
	return s
}

// firstTimes drops what a schedule computes again, and the steps that free values: without them all nodes are
// computed once.
func firstTimes(plan map[string]any) (again []string) {
	graph := plan["graphs"].([]any)[0].(map[string]any)
	seen := map[string]bool{}
	var steps []any
	for _, s := range graph["steps"].([]any) {
		node, computes := s.(map[string]any)["compute"].(string)
		switch {
		case !computes:
		case seen[node]:
			again = append(again, node)
		default:
			seen[node] = true
			steps = append(steps, s)
		}
	}
	graph["steps"] = steps
	return again
}

// TestOperators: two plans of the same operators differ in what they compute again, and by measures.
func TestOperators(t *testing.T) {
	plan, plain := operators(t), operators(t)
	again := firstTimes(plain)
	require.NotEmpty(t, again)
	plain["peak_bytes"], plain["cost_us"] = plain["baseline_peak_bytes"], plain["base_cost_us"]
	a, b := parsed(t, plain, "plain.json"), parsed(t, plan, "plan.json")
	require.Equal(t, a.Structure, b.Structure)
	itself, err := diff.Compare(b, parsed(t, operators(t), "copy.json"))
	require.NoError(t, err)
	require.True(t, itself.Same())

	r, err := diff.Compare(a, b)
	require.NoError(t, err)
	var placed, states []string
	for _, c := range r.Changes {
		switch c.Kind {
		case diff.PlacementChange:
			require.Equal(t, diff.Added, c.How)
			placed = append(placed, c.Name[strings.LastIndexByte(c.Name, '/')+1:])
		case diff.StashChange:
			for _, f := range c.Facts {
				states = append(states, f.Name+" "+f.A.Text+" "+f.B.Text)
			}
		}
	}
	slices.Sort(placed)
	slices.Sort(again)
	require.Equal(t, again, placed)
	require.Contains(t, states, "state kept recomputed")
	require.Equal(t, 1, r.Count(diff.OrderChange))
	require.Equal(t, map[string][2]string{
		"peak": {"50688", "34816"}, "overhead": {"0.0000", "0.0625"}, "time": {"0.1217", "0.1293"},
		"nodes": {"0", fmt.Sprint(len(again))}, "placements": {"0", fmt.Sprint(len(again))},
	}, measured(r))
	require.NoError(t, r.Check(conditions(t, "overhead>+5pp", "peak>+1KiB", "recomputations>=1")))
	require.Len(t, r.Failed, 2)

	// Another order of nodes is another structure.
	nodes := plain["graphs"].([]any)[0].(map[string]any)["instance"].(map[string]any)["nodes"].([]any)
	nodes[0], nodes[1] = nodes[1], nodes[0]
	require.NotEqual(t, a.Structure, parsed(t, plain, "turned.json").Structure)
}

// measured are the measures that differ, shares and times with four digits.
func measured(r *diff.Result) map[string][2]string {
	out := map[string][2]string{}
	for _, m := range r.Measures {
		if m.A.Text != m.B.Text {
			out[m.Name] = [2]string{m.A.Text, m.B.Text}
			if m.Unit == diff.Share || m.Unit == diff.Millis {
				out[m.Name] = [2]string{m.A.Number.FloatString(4), m.B.Number.FloatString(4)}
			}
		}
	}
	return out
}

func conditions(t *testing.T, texts ...string) []diff.Condition {
	t.Helper()
	out := make([]diff.Condition, len(texts))
	for i, text := range texts {
		var err error
		out[i], err = diff.ParseCondition(text)
		require.NoError(t, err)
	}
	return out
}

// TestOperatorGraphs: nodes of a second graph have names of their own.
func TestOperatorGraphs(t *testing.T) {
	plan := operators(t)
	plan["graphs"] = append(plan["graphs"].([]any), operators(t)["graphs"].([]any)...)
	one, two := parsed(t, operators(t), "one.json"), parsed(t, plan, "two.json")
	r, err := diff.Compare(one, two)
	require.NoError(t, err)
	require.NotEqual(t, one.Structure, two.Structure)
	for _, c := range r.Changes {
		if c.Kind == diff.PlacementChange {
			require.Equal(t, diff.Added, c.How)
			require.True(t, strings.HasPrefix(c.Name, "graph 2/"), c.Name)
		}
	}
}

// TestDamagedOperators: what is wrong with a plan of operators is said.
func TestDamagedOperators(t *testing.T) {
	for text, wanted := range map[string]string{
		`{"format": "memopt-operators", "version": 2}`:                  "is a plan of operators of version 2, wanted 1",
		`{"format": "memopt-operators", "version": 1, "graphs": "all"}`: "is no plan of operators",
		`{"format": "memopt-operators", "version": 1, "graphs": [{"steps": [{"compute": "x"}]}]}`: `step 0: computes "x", ` +
			`which is no node`,
	} {
		_, err := diff.Parse([]byte(text), "bad.json")
		require.ErrorContains(t, err, "bad.json: "+wanted)
	}
}
