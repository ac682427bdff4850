package examples_test

import (
	"fmt"
	"testing"

	"memopt/graph/examples"
)

func BenchmarkTransformer(b *testing.B) {
	for _, layers := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("layers=%d", layers), func(b *testing.B) {
			nodes := 0
			for b.Loop() {
				m, err := examples.Transformer(examples.TransformerOptions{Layers: layers})
				if err != nil {
					b.Fatal(err)
				}
				nodes = len(m.Graph.Nodes)
			}
			b.ReportMetric(float64(nodes), "nodes")
		})
	}
}
