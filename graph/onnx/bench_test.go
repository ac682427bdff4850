package onnx_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
)

// chain makes the file of a model of many nodes with names such as exporters give.
func chain(t testing.TB, nodes int) []byte {
	g := graph.New("chain", nil)
	m := &graph.Model{IRVersion: 8, Opsets: []graph.Opset{{Version: 17}}, Graph: g}
	shape := graph.Tensor(graph.Float32, graph.Ints(8, 128))
	last := g.Value("input_ids")
	require.NoError(t, g.AddInput(graph.Decl{Value: last, Type: shape}))
	for i := range nodes {
		op := []string{"MatMul", "Add", "Softmax", "Transpose"}[i%4]
		n := &graph.Node{Op: op, Name: fmt.Sprintf("/model/layer.%d/%s", i/4, op), Inputs: []graph.ValueID{last}}
		if i%4 == 0 {
			w, err := g.AddInitializer(graph.Float32Tensor(fmt.Sprintf("onnx::MatMul_%d", i), []int64{2}, 1, 2))
			if err != nil {
				t.Fatal(err)
			}
			n.Inputs = append(n.Inputs, w)
		}
		if op == "Softmax" {
			n.SetAttr("axis", int64(-1))
		}
		if op == "Transpose" {
			n.SetAttr("perm", []int64{1, 0})
		}
		last = g.Value(n.Name + "_output_0")
		n.Outputs = []graph.ValueID{last}
		if err := g.AddNode(n); err != nil {
			t.Fatal(err)
		}
		g.ValueInfo = append(g.ValueInfo, graph.Decl{Value: last, Type: shape})
	}
	require.NoError(t, g.AddOutput(graph.Decl{Value: last, Type: shape}))
	data, err := onnx.Encode(m)
	require.NoError(t, err)
	return data
}

// TestLargeGraph holds the reader to its share of the program's targets: memory grows with the
// file, not faster. BenchmarkDecode has the time.
func TestLargeGraph(t *testing.T) {
	data := chain(t, 100_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	m, err := onnx.Decode(data, "")
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	assert.Len(t, m.Graph.Nodes, 100_000)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(300<<20))
	assert.Less(t, after.Mallocs-before.Mallocs, uint64(20*100_000), "a node takes a few allocations")
	out, err := onnx.Encode(m)
	require.NoError(t, err)
	assert.Equal(t, len(data), len(out))
}

func benchmarkModels(b *testing.B, run func(b *testing.B, data []byte)) {
	for _, n := range []int{500, 100_000} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) { run(b, chain(b, n)) })
	}
	b.Run("model=bloom", func(b *testing.B) {
		data, err := os.ReadFile(filepath.Join(sharedModels, "ort", "3layer_bloom_optimized_training.onnx"))
		if err != nil {
			b.Skip("the sample model is missing; it lies beside the project in ../shared/models: ", err)
		}
		run(b, data)
	})
}

func BenchmarkDecode(b *testing.B) {
	benchmarkModels(b, func(b *testing.B, data []byte) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := onnx.Decode(data, ""); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	benchmarkModels(b, func(b *testing.B, data []byte) {
		m, err := onnx.Decode(data, "")
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := onnx.Encode(m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
