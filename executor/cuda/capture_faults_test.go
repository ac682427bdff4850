package cuda_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/internal/test/double"
)

// capturedFaults are graphs in which a kernel may meet an element that it cannot use.
var capturedFaults = []struct {
	graph  string
	inputs map[string]*executor.Tensor // with which all is well; the others are made up
	input  string                      // the input that has such an element in bad
	bad    *executor.Tensor
	want   string // part of the error
}{
	{`g (int64[3] x, int64[3] n) => (float[3] y) { q = Div(x, n)  y = Cast<to = 1>(q) }`,
		map[string]*executor.Tensor{"n": int64s(1, 2, 3)},
		"n", int64s(1, 0, 0), `node "Div#0" (Div): input 1, element 1: division by zero`},
	{`g (int64[3] x, int64[3] n) => (float[3] y) { q = Mod(x, n)  y = Cast<to = 1>(q) }`,
		map[string]*executor.Tensor{"n": int64s(1, 2, 3)},
		"n", int64s(1, 2, 0), `node "Mod#0" (Mod): input 1, element 2: division by zero`},
	{`g (float[3] x, int64[2] i, float[2] u) => (float[3] y) { y = ScatterElements(x, i, u) }`,
		map[string]*executor.Tensor{"i": int64s(0, -3)},
		"i", int64s(0, -4),
		`node "ScatterElements#0" (ScatterElements): input 1, index number 1: is outside an axis of length 3`},
}

func int64s(v ...int64) *executor.Tensor { return executor.NewTensor(graph.Int64, []int{len(v)}, v...) }

// TestCaptureFaults: what a kernel finds in a replay is the step's error, with the node's name, and
// replays before and after it give what the CPU gives.
func TestCaptureFaults(t *testing.T) {
	for _, c := range capturedFaults {
		m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]> `+c.graph)
		inputs := made(t, m, nil)
		for name, x := range c.inputs {
			inputs[name] = x
		}
		want, err := verify.Execute(context.Background(), verify.Side{Model: m, Types: types}, inputs,
			verify.Options{Engine: verify.On(cpu.Device{})})
		require.NoError(t, err, c.graph)
		for _, lazy := range []bool{false, true} {
			d, dbl := opened(t, double.Options{Lazy: lazy})
			s, err := executor.Open(context.Background(), m, types, d, executor.Options{Capture: true})
			require.NoError(t, err, c.graph)
			require.Empty(t, s.WhyNoCapture(), c.graph)
			for name, x := range inputs {
				require.NoError(t, s.SetInput(name, x))
			}
			for step, x := range []*executor.Tensor{inputs[c.input], inputs[c.input], c.bad, inputs[c.input], c.bad} {
				require.NoError(t, s.SetInput(c.input, x))
				err := s.Run(context.Background())
				if x == c.bad {
					require.ErrorContains(t, err, c.want, "%s, step %d", c.graph, step)
					continue
				}
				require.NoError(t, err, "%s, step %d", c.graph, step)
				diff, _ := verify.Compare("y", s.Output(0), want.Outputs[0].Tensor, verify.DefaultTolerance)
				require.Nil(t, diff, "%s, step %d", c.graph, step)
			}
			require.Equal(t, 4, dbl.Counts().Replays, c.graph)
			require.NoError(t, s.Close())
		}
	}
}
