package live

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// Parts begin at multiples of 64 bytes, which depends on types and bindings, and are no smaller.
func TestSlicesOfSizes(t *testing.T) {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
		g (float[N, 4, 24] x, float16[1, 4, 48] h) => (float[N, 1, 24] a, float16[1, 1, 48] c, float16[1, 4, 48] e,
			int64[2] piece)
		<int64[3] n = {1, 1, 2}, int64[3] k = {1, 1, 2}, int64[1] zero = {0}, int64[1] two = {2}> {
			a, b, rest = Split<axis = 1>(x, n)
			c, d, more = Split<axis = 1>(h, k)
			e = Concat<axis = -2>(d, c, more)
			shape = Shape(x)
			piece = Slice(shape, zero, two)
		}`, "parts")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	for n, want := range map[int64][]int64{1: {0, -1, 192}, 2: nil} {
		sizes, err := EvalSizes(m.Graph, symbolic.Env{"N": n})
		require.NoError(t, err)
		if want == nil {
			require.Nil(t, sizes.Slices[0])
		} else {
			require.Equal(t, &Slices{At: want}, sizes.Slices[0])
		}
		require.Equal(t, &Slices{At: []int64{0, -1, 192}}, sizes.Slices[1])
		require.Equal(t, &Slices{Join: true, At: []int64{0, -1, 192}}, sizes.Slices[2])
		require.Nil(t, sizes.Slices[4])
	}
}
