package planner_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/planner"
	"memopt/planner/ortmodule"
	"memopt/recompute"
)

// tableRow is a row of the table that ORTModule prints with its level of logging at INFO or DEVINFO: state,
// configuration, frequency, saving, formula.
var tableRow = regexp.MustCompile(`^ - Plan \d+ +: +(ON|OFF) +: +(\S+) +(\d+) +(\S.*?)  +(\S.*)$`)

// named writes a formula with one name for dims that are equal in all batches. ORTModule's exporter takes any of the
// names, another one in the next run, and sympy sorts the factors of a product by name.
func named(net, formula string) string {
	formula = strings.ReplaceAll(formula, "attention_mask_dim", "input_ids_dim")
	if net == "t5" {
		formula = strings.ReplaceAll(formula, "labels_dim0", "input_ids_dim0")
	}
	if strings.Contains(formula, "(") {
		return formula
	}
	terms := strings.Split(formula, " + ")
	for i, t := range terms {
		factors := strings.Split(strings.ReplaceAll(t, "**", "^"), "*")
		slices.Sort(factors)
		terms[i] = strings.Join(factors, "*")
	}
	return strings.Join(terms, " + ")
}

// savingsOf returns each saving in bytes that ORTModule may print for a cluster: at every node it counts one of the
// stashed outputs, whichever its hash table of values has last.
func savingsOf(t *testing.T, p *planner.Plan, config string) map[int64]bool {
	t.Helper()
	a := p.Analysis
	i := slices.IndexFunc(a.Clusters, func(c recompute.Cluster) bool { return c.Config() == config })
	require.GreaterOrEqual(t, i, 0, config)
	sums := map[int64]bool{0: true}
	for _, m := range a.Clusters[i].Members {
		next := map[int64]bool{}
		for _, v := range a.Candidates[m].Stashed {
			bytes, err := a.Graph.Values[v].Type.Bytes().Eval(p.Options.Dims)
			require.NoError(t, err)
			for sum := range sums {
				next[sum+bytes] = true
			}
		}
		sums = next
	}
	return sums
}

// severalStashes reports whether a cluster has a node with several stashed outputs.
func severalStashes(p *planner.Plan, config string) bool {
	a := p.Analysis
	return slices.ContainsFunc(a.Candidates, func(c recompute.Candidate) bool {
		return len(c.Stashed) > 1 && a.Clusters[c.Cluster].Config() == config
	})
}

// TestORTModuleTable: the rows of ORTModule's table of memory optimization plans (INFO, DEVINFO) are memopt's, text by
// text and in the same order: state, configuration, frequency, bytes, formula. The saving of nodes with several stashed
// outputs, such as norms, is one of those that ORTModule can print, there and here: its source counts one of the
// outputs, by the order of a hash table whose seed is new in every run.
func TestORTModuleTable(t *testing.T) {
	data, err := os.ReadFile("testdata/ortmodule/tables.txt")
	require.NoError(t, err)
	equal := map[string][2]int{} // rows that are equal, and rows of several stashed outputs
	for _, section := range strings.Split(string(data), "== ")[1:] {
		head, text, _ := strings.Cut(section, "\n")
		name, level, _ := strings.Cut(head, " ")
		n, err := strconv.Atoi(level)
		require.NoError(t, err)
		m, dims := ofORTModule(t, name)
		p, err := planner.Make(m.Model, m.Types, planner.Options{Dims: dims, ORTModule: true, SkipLayout: true,
			Strategy: planner.Level(n)})
		require.NoError(t, err)
		rows, err := ortmodule.Rows(p)
		require.NoError(t, err)
		var theirs, own []string
		any := map[string]string{} // the saving of rows of several stashed outputs, as ORTModule printed it
		for _, line := range strings.Split(strings.TrimSpace(text), "\n")[1:] {
			c := tableRow.FindStringSubmatch(" " + strings.TrimSpace(line))
			require.NotNil(t, c, line)
			if severalStashes(p, c[2]) {
				any[strings.Join(c[1:4], " ")] = c[4]
				continue
			}
			theirs = append(theirs, strings.Join(append(c[1:5:5], named(name, c[5])), " "))
		}
		for _, r := range rows {
			state := map[bool]string{true: "ON", false: "OFF"}[r.On]
			key := fmt.Sprintf("%s %s %d", state, r.Config, r.Frequency)
			if !severalStashes(p, r.Config) {
				own = append(own, key+" "+r.Saving+" "+named(name, r.Formula))
				continue
			}
			require.Contains(t, any, key, head)
			for _, saving := range []string{any[key], r.Saving} {
				bytes, err := strconv.ParseInt(strings.ReplaceAll(saving, ",", ""), 10, 64)
				require.NoError(t, err)
				require.Contains(t, savingsOf(t, p, r.Config), bytes, "%s: %s", head, key)
			}
			delete(any, key)
			equal[head] = [2]int{0, equal[head][1] + 1}
		}
		require.Empty(t, any, head)
		require.Equal(t, theirs, own, head)
		equal[head] = [2]int{len(own), equal[head][1]}
	}
	require.Equal(t, map[string][2]int{"bert 0": {11, 1}, "bert 1": {11, 1}, "gpt2 0": {12, 1}, "gpt2 1": {12, 1},
		"llama 0": {13, 1}, "llama 1": {13, 1}, "opt 0": {10, 1}, "opt 1": {11, 1}, "t5 0": {6, 1}, "t5 1": {6, 1}},
		equal)
	// Three runs of bert's table.
	m, dims := ofORTModule(t, "bert")
	p, err := planner.Make(m.Model, m.Types, planner.Options{Dims: dims, ORTModule: true, SkipLayout: true})
	require.NoError(t, err)
	sums := savingsOf(t, p, "LayerNormalization+:1:-1")
	for _, bytes := range []int64{1_064_960, 2_631_680, 542_720} {
		require.True(t, sums[bytes], bytes)
	}
	require.False(t, sums[4_759_552]) // all outputs of all norms
}

// TestORTModuleClones: the nodes that level 2 recomputes are those that ORTModule's own optimizer recomputed there, in
// nets with activations that are stashed as float16 (cast, sums), with functions of Python, which are never recomputed
// (python, sums), and with two results (logits).
func TestORTModuleClones(t *testing.T) {
	data, err := os.ReadFile("testdata/ortmodule/clones.txt")
	require.NoError(t, err)
	for _, section := range strings.Split(string(data), "== ")[1:] {
		names := strings.Fields(section)
		m, dims := ofORTModule(t, names[0])
		m.Dims = dims
		p, err := m.Plan(t.Context(), planner.Level(2), memopt.PlanOptions{Options: planner.Options{ORTModule: true}})
		require.NoError(t, err)
		r, err := p.Rewrite(memopt.RewriteOptions{})
		require.NoError(t, err)
		var clones []string
		for _, n := range r.Model.Graph.Nodes {
			if strings.HasSuffix(n.Name, recompute.Suffix) {
				clones = append(clones, n.Name)
			}
		}
		slices.Sort(clones)
		require.Equal(t, names[1:], clones, names[0])
		require.Equal(t, len(clones), p.Recompute.Nodes, names[0])
	}
}
