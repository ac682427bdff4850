package planner_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/internal/test/answers"
	"memopt/internal/test/graphtest"
	"memopt/planner"
	"memopt/planner/chunk"
	"memopt/symbolic"
)

// TestAnswers compares plans of small graphs with those in testdata/answers.txt, a line each. A search
// that is changed shows its gains and losses there: peaks, arenas and overheads of all kinds of
// strategies. The sum at the end of a line covers the rest of a plan: placements, orders, offsets, live
// bytes at each step, rows of clusters, bounds. UPDATE_ANSWERS=1 writes the file.
func TestAnswers(t *testing.T) {
	const path = "testdata/answers.txt"
	var have strings.Builder
	have.WriteString("# Plans as TestAnswers finds them; UPDATE_ANSWERS=1 go test ./planner -run TestAnswers\n")
	for _, g := range answerGraphs(t) {
		types, err := op.Infer(g.model)
		require.NoError(t, err)
		for _, q := range g.questions {
			o := q.options
			o.Dims = g.dims
			p, err := planner.Make(g.model, types, o)
			fmt.Fprintf(&have, "%s, %s: %s\n", g.name, q.name, answer(t, p, err))
		}
	}
	answers.Hold(t, path, have.String())
}

// An answerGraph is a graph with the plans that are wanted of it.
type answerGraph struct {
	name      string
	model     *graph.Model
	dims      symbolic.Env
	questions []question
}

// A question asks for one plan.
type question struct {
	name    string
	options planner.Options
}

// answerGraphs returns the small graphs and their questions: examples, and random graphs of each kind.
func answerGraphs(t *testing.T) []answerGraph {
	levels := []question{
		{"as it is", planner.Options{RowPeaks: true}},
		{"level 1", planner.Options{Strategy: planner.Layerwise, RowPeaks: true}},
		{"level 2", planner.Options{Strategy: planner.LayerwiseCompromise, Order: planner.OrderMemory}},
		{"level 1 in the runtime's order", planner.Options{Strategy: planner.Layerwise, Order: planner.OrderORT}},
	}
	budgets := []question{
		{"70 %", planner.Options{Strategy: planner.Budget{Share: 0.7, Effort: 0.01}, Alternatives: true}},
		{"50 %, first plan", planner.Options{Strategy: planner.Budget{Share: 0.5}}},
		{"80 % of clusters", planner.Options{Strategy: planner.Budget{Share: 0.8, Effort: 0.01, Clusters: true}}},
		{"85 % in the runtime", planner.Options{Strategy: planner.Budget{Share: 0.85, Effort: 0.01, Runtime: true}}},
		{"60 %, local search",
			planner.Options{Strategy: planner.Budget{Share: 0.6, Effort: 0.01, Solver: "lns", Seed: 3}}},
		{"50 % in parts", planner.Options{Strategy: planner.Budget{Share: 0.5, Effort: 0.01}, Chunk: chunk.Exact,
			RowPeaks: true, Alternatives: true}},
		{"1 KiB", planner.Options{Strategy: planner.Budget{Arena: 1024, Effort: 0.01}}},
	}
	var graphs []answerGraph
	for _, e := range examples.All() {
		m, err := e.Build()
		require.NoError(t, err)
		g := answerGraph{"example " + e.Name, m, e.Dims, levels}
		if e.Name == "mlp" {
			g.questions = append(g.questions[:len(levels):len(levels)], budgets...)
		}
		graphs = append(graphs, g)
	}
	for seed := range uint64(8) {
		o := graphtest.Options{Nodes: 24 + 8*int(seed), Layers: seed%2 == 0, Yield: seed%3 == 0,
			Parts: seed == 5, Control: seed == 6}
		if seed == 4 {
			o.Rows = 2048
		}
		m := graphtest.Training(rand.New(rand.NewPCG(seed, 41)), o)
		if seed == 7 {
			recordStates(t, m)
		}
		graphs = append(graphs, answerGraph{name: fmt.Sprintf("random %d", seed), model: m,
			questions: append(levels[:len(levels):len(levels)], budgets...)})
	}
	return graphs
}

// answer is the line for a plan, or for the error in its place.
func answer(t *testing.T, p *planner.Plan, err error) string {
	var infeasible *planner.InfeasibleError
	if errors.As(err, &infeasible) {
		return fmt.Sprintf("does not fit: arena %d, live %d, at least %d", infeasible.LowestArena,
			infeasible.LowestLive, infeasible.LowerBound)
	}
	if err != nil {
		return "error: " + err.Error()
	}
	h := sha256.New()
	fmt.Fprintln(h, p.Placements, p.Analysis.Order, p.Arena.Offsets, p.Planned.Live, p.Planned.LowerBound, p.Fission)
	for _, c := range p.Clusters {
		fmt.Fprintln(h, c.Config, c.Frequency, c.SavingBytes, c.PeakDrop, c.Requested, c.Applied)
	}
	for _, a := range p.Alternatives {
		fmt.Fprintf(h, "{Name:%v Live:%v Overhead:%v Fits:%v}\n", a, a.Live, a.Overhead, a.Fits)
	}
	fmt.Fprintf(h, "%v %v %+v %+v %v\n", p.Warnings, p.Solver, p.Bound, p.Lower, p.Recompute)
	anchors, err := p.Anchor(t.Context())
	require.NoError(t, err)
	fmt.Fprintln(h, anchors.Nodes, anchors.Base, anchors.Bare, anchors.Anchored, anchors.AnchoredArena, anchors.Work)
	return fmt.Sprintf("peak %d of %d, arena %d, +%.3f %%, %d nodes, %d in parts, %x", p.Planned.Peak.Bytes,
		p.Baseline().Base.Peak.Bytes, p.Arena.Bytes, 100*p.Overhead, p.Recompute.Nodes, len(p.Fission), h.Sum(nil)[:6])
}
