package graph_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/internal/test/graphtest"
)

// benchSizes runs a benchmark on joint graphs of growing size, built of equal layers.
func benchSizes(b *testing.B, run func(b *testing.B, m *graph.Model)) {
	for _, nodes := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			m := graphtest.Training(rand.New(rand.NewPCG(1, 1)),
				graphtest.Options{Nodes: nodes, Yield: true, Layers: true, Symbolic: true})
			b.ReportAllocs()
			run(b, m)
		})
	}
}

func BenchmarkFormat(b *testing.B) {
	benchSizes(b, func(b *testing.B, m *graph.Model) {
		for b.Loop() {
			b.SetBytes(int64(len(graph.Format(m, everything))))
		}
	})
}

func BenchmarkParse(b *testing.B) {
	benchSizes(b, func(b *testing.B, m *graph.Model) {
		text := graph.Format(m, everything)
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			_, err := graph.Parse(text, "bench")
			require.NoError(b, err)
		}
	})
}

// BenchmarkTopological orders a file whose nodes stand in reverse, which is no order.
func BenchmarkTopological(b *testing.B) {
	benchSizes(b, func(b *testing.B, m *graph.Model) {
		nodes := slices.Clone(m.Graph.Nodes)
		slices.Reverse(nodes)
		m.Graph.SetNodes(nodes)
		for b.Loop() {
			_, err := graph.Topological(m.Graph)
			require.NoError(b, err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	benchSizes(b, func(b *testing.B, m *graph.Model) {
		for b.Loop() {
			require.NoError(b, graph.Verify(m))
		}
	})
}
