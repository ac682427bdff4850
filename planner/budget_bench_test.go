package planner_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/planner"
)

// BenchmarkBudget plans to half of the baseline peak with the effort of ten seconds. overhead-% and
// bound-% are of a step; level1-% is what ONNX Runtime's level 1 costs, layers-% what running whole
// layers again costs that fit the budget too.
func BenchmarkBudget(b *testing.B) {
	run := func(name string, m *graph.Model, dims map[string]int64) {
		b.Run(fmt.Sprintf("%s/nodes=%d", name, len(m.Graph.Nodes)), func(b *testing.B) {
			types, err := op.Infer(m)
			require.NoError(b, err)
			var p *planner.Plan
			opts := planner.Options{Dims: dims, Strategy: &planner.Budget{Share: 0.5, Effort: 10}}
			for b.Loop() {
				p, err = planner.Make(m, types, opts)
				require.NoError(b, err)
			}
			b.ReportMetric(100*p.Overhead, "overhead-%")
			b.ReportMetric(100*p.Bound.Overhead, "bound-%")
			level1, err := planner.Make(m, types,
				planner.Options{Dims: dims, Strategy: planner.Layerwise, SkipLayout: true})
			require.NoError(b, err)
			b.ReportMetric(100*level1.Overhead, "level1-%")
			opts.Alternatives = true
			beside, err := planner.Make(m, types, opts)
			require.NoError(b, err)
			for _, alt := range beside.Alternatives {
				if alt.Fits {
					b.ReportMetric(100*alt.Overhead, "layers-%")
				}
			}
		})
	}
	for _, ex := range examples.All() {
		m, err := ex.Build()
		require.NoError(b, err)
		run(ex.Name, m, ex.Dims)
	}
	for _, n := range []int{1000, 10_000} {
		run("layered", graphtest.Training(rand.New(rand.NewPCG(1, 2)), graphtest.Options{Nodes: n, Layers: true}), nil)
	}
}
