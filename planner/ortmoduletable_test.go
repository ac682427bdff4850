package planner_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/planner"
	"memopt/recompute"
	"memopt/view/report"
)

// tableRow is a row of the table that ORTModule prints with its level of logging at INFO or DEVINFO.
var tableRow = regexp.MustCompile(`^ - Plan \d+ +: +(ON|OFF) +: +(\S+) +(\d+) +(\S+) +(\S.*)$`)

// namedDim is a symbol as ORTModule names it. Of equal ones it keeps any, another one in the next run.
var namedDim = regexp.MustCompile(`[a-z_]+_dim(\d)`)

// normal brings a formula into one form: dims without their inputs, factors sorted.
func normal(formula string) string {
	terms := strings.Split(namedDim.ReplaceAllString(formula, "d$1"), " + ")
	for i, t := range terms {
		factors := strings.Split(strings.ReplaceAll(t, "**", "^"), "*")
		slices.Sort(factors)
		terms[i] = strings.Join(factors, "*")
	}
	return strings.Join(terms, " + ")
}

// TestORTModuleTable: the rows of ORTModule's table of memory optimization plans (INFO, DEVINFO) are memopt's: state,
// configuration, frequency, bytes and formula, text by text, in the same order. Rows that differ do so in known
// ways. ORTModule counts one of several stashed outputs of a norm, another one in the next run. It has a row of its own
// for views of another row's stash, and counts them 0 there. And it does not know a dim that a Slice makes.
func TestORTModuleTable(t *testing.T) {
	data, err := os.ReadFile("testdata/ortmodule/tables.txt")
	require.NoError(t, err)
	equal := map[string]int{}
	for _, section := range strings.Split(string(data), "== ")[1:] {
		head, text, _ := strings.Cut(section, "\n")
		name, level, _ := strings.Cut(head, " ")
		n, err := strconv.Atoi(level)
		require.NoError(t, err)
		m, dims := ofORTModule(t, name)
		p, err := planner.Make(m.Model, m.Types, planner.Options{Dims: dims, ORTModule: true, SkipLayout: true,
			Strategy: planner.Level(n)})
		require.NoError(t, err)
		rows := map[string]*planner.ClusterRow{}
		var own, theirs []string // configurations of equal rows, in order
		for i := range p.Clusters {
			rows[p.Clusters[i].Config] = &p.Clusters[i]
		}
		listed := map[string]bool{}
		for _, line := range strings.Split(strings.TrimSpace(text), "\n")[1:] {
			c := tableRow.FindStringSubmatch(" " + strings.TrimSpace(line))
			require.NotNil(t, c, line)
			for _, config := range strings.Split(c[2], ",") {
				require.Contains(t, rows, config, "%s: %s", head, line)
				require.Equal(t, c[1] == "ON", rows[config].Enabled, line)
				listed[config] = true
			}
			r := rows[c[2]]
			if r == nil {
				continue // of a view and another row's stash
			}
			freq, err := strconv.Atoi(c[3])
			require.NoError(t, err)
			bytes, err := strconv.ParseInt(strings.ReplaceAll(c[4], ",", ""), 10, 64)
			switch {
			case err != nil:
				require.Contains(t, c[4], "empty_dim_param", line)
			case freq == r.Frequency && bytes == r.SavingBytes:
				require.Equal(t, c[4], report.Thousands(r.SavingBytes))
				theirs = append(theirs, c[2])
				// Not a product of a difference, nor a number alone, which are other texts for the same.
				formula := strings.TrimSpace(c[5])
				if !strings.Contains(formula, "(") && strings.Contains(formula, "*") {
					require.Equal(t, normal(formula), normal(r.SavingExpr()), line)
				}
			default:
				require.Regexp(t, `^(Simplified)?LayerNormalization\+:|^(Slice\+)?Reshape\+:`, c[2], "%s: %+v", line, r)
				require.LessOrEqual(t, freq, r.Frequency, line)
				require.Less(t, bytes, r.SavingBytes, line)
			}
		}
		for i := range p.Clusters {
			config := p.Clusters[i].Config
			require.True(t, listed[config], "%s: %s", head, config)
			if slices.Contains(theirs, config) {
				own = append(own, config)
			}
		}
		require.Equal(t, theirs, own, head)
		equal[head] = len(own)
	}
	require.Equal(t, map[string]int{"bert 0": 9, "bert 1": 9, "gpt2 0": 9, "gpt2 1": 9, "llama 0": 12, "llama 1": 12},
		equal) // of 12, 12, 13, 13, 14 and 14
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
