package cpu_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
)

// benchmarkSequence measures a node on 1 and 2 threads.
func benchmarkSequence(b *testing.B, kind graph.Kind, attrs []graph.Attr, in []*executor.Tensor, out ...graph.DType) {
	for threads := 1; threads <= 2; threads++ {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			info := op.Of(kind)
			p := &executor.Prep{Node: &graph.Node{Op: info.Name, Kind: kind, Attrs: attrs}, Info: info,
				Version: info.SinceVersion(1 << 30), Out: out, Threads: threads}
			for _, x := range in {
				p.In = append(p.In, x.DType)
			}
			k, err := cpu.Device{}.Kernel(p)
			require.NoError(b, err)
			pool := executor.NewPool(threads)
			defer pool.Close()
			var outs []*executor.Tensor
			for _, d := range out {
				outs = append(outs, &executor.Tensor{DType: d})
			}
			mem := &keptMemory{}
			c := executor.NewCtx(p, pool, mem, in, outs)
			for b.Loop() {
				mem.used = 0
				require.NoError(b, executor.Invoke(k, c))
			}
		})
	}
}

func sequenceInput(shape ...int) *executor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i%97)/970 - 0.05
	}
	return executor.NewTensor(graph.Float32, shape, v...)
}

func BenchmarkLSTM(b *testing.B) {
	for _, batch := range []int{1, 32} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			const seq, input, hidden = 50, 256, 256
			in := []*executor.Tensor{sequenceInput(seq, batch, input), sequenceInput(1, 4*hidden, input),
				sequenceInput(1, 4*hidden, hidden), sequenceInput(1, 8*hidden)}
			benchmarkSequence(b, op.LSTM, nil, in, graph.Float32, graph.Float32, graph.Float32)
		})
	}
}

func BenchmarkQuantizeLinear(b *testing.B) {
	in := []*executor.Tensor{sequenceInput(1<<10, 1<<12), executor.NewTensor[float32](graph.Float32, []int{}, 0.01)}
	benchmarkSequence(b, op.QuantizeLinear, nil, in, graph.Uint8)
}

func BenchmarkAdamOptimizer(b *testing.B) {
	const n = 1 << 22
	in := []*executor.Tensor{sequenceInput(1), executor.NewTensor[int64](graph.Int64, []int{1}, 3), sequenceInput(n),
		sequenceInput(n), sequenceInput(n), sequenceInput(n)}
	benchmarkSequence(b, op.AdamOptimizer, nil, in, graph.Int64, graph.Float32, graph.Float32, graph.Float32)
}

func BenchmarkQLinearConv(b *testing.B) {
	u := func(shape ...int) *executor.Tensor {
		n := 1
		for _, d := range shape {
			n *= d
		}
		return &executor.Tensor{DType: graph.Uint8, Shape: shape, Data: make([]byte, n)}
	}
	s := executor.NewTensor[float32](graph.Float32, []int{}, 0.1)
	in := []*executor.Tensor{u(1, 64, 56, 56), s, u(), u(64, 64, 3, 3), s, u(), s, u()}
	benchmarkSequence(b, op.QLinearConv, nil, in, graph.Uint8)
}
