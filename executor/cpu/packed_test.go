package cpu_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/op"
)

// TestPackedWeights runs a weight of 15 uint4 elements, which fill 8 bytes, with a buffer of float8 between
// nodes: y = x·((w-8)*scale), whose columns are exact.
func TestPackedWeights(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 11, opset_import: ["" : 23]> g (float[2, 3] x) => (float[2, 5] y, uint4[5, 3] v)
		<uint4[3, 5] w = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, float s = {0.5}, uint4 z = {8}> {
		f = DequantizeLinear(w, s, z)
		e = Cast<to = 17>(x)
		x8 = Cast<to = 1>(e)
		y = MatMul(x8, f)
		v = Transpose(w) }`, "g")
	require.NoError(t, err)
	types, err := op.Infer(m)
	require.NoError(t, err)
	x := executor.NewTensor[float32](graph.Float32, []int{2, 3}, 1, 0, 2, 0, 4, -1)
	run, err := verify.Execute(context.Background(), verify.Side{Model: m, Types: types},
		map[string]*executor.Tensor{"x": x},
		verify.Options{Engine: verify.On(cpu.Device{}), Session: executor.Options{Threads: 2, Guard: true}, Repeat: 2})
	require.NoError(t, err)
	var want []float32
	for r := range 2 {
		for c := range 5 {
			sum := float32(0)
			for k := range 3 {
				sum += executor.Of[float32](x)[r*3+k] * (float32(k*5+c) - 8) / 2
			}
			want = append(want, sum)
		}
	}
	require.Equal(t, want, executor.Of[float32](run.Outputs[0].Tensor))
	// Column by column, the first in the lowest bits.
	require.Equal(t, []byte{0x50, 0x1a, 0xb6, 0x72, 0x3c, 0xd8, 0x94, 0x0e}, run.Outputs[1].Tensor.Data)
}
