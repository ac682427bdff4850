package cuda_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/internal/test/double"
)

// TestOptimizerSteps: of an update the host computes numbers in double, none of which waits for what a
// guard finds out, and the results are the CPU's: with the rate from outside, groups, a bound of the
// norm, a guard.
func TestOptimizerSteps(t *testing.T) {
	decay := 0.3
	for _, o := range []autograd.Optimizer{
		{Kind: "adamw", WeightDecay: 0.1, MaxNorm: 1},
		{Kind: "adamw", WeightDecay: 0.1, MaxNorm: 1, Guard: true,
			Groups: []autograd.Group{{Match: []string{"b"}, LRScale: 0.5, WeightDecay: &decay}}},
		{Kind: "sgd", Momentum: 0.9, Nesterov: true, Guard: true},
	} {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
			g (float[8, 4] x, float[4, 3] w, float[3] b, int64[8] labels) => (float loss) {
			h = Gemm(x, w, b)  loss = SoftmaxCrossEntropyLoss(h, labels) }`, "g")
		require.NoError(t, err)
		j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"w", "b"}})
		require.NoError(t, err)
		require.NoError(t, autograd.AppendOptimizer(j, o))
		dev, _ := opened(t, double.Options{})
		var outputs [2][][]byte
		for i, device := range []executor.Device{cpu.Device{}, dev} {
			s, err := executor.Open(context.Background(), j.Model, j.Types, device, executor.Options{Threads: 1})
			require.NoError(t, err)
			for _, d := range j.Model.Graph.Inputs {
				require.NoError(t, s.SetInput(j.Model.Graph.ValueName(d.Value), optimizerInput(d)))
			}
			for _, n := range s.HostNodes() {
				require.Contains(t, n.Why, "for input types [double", n.Label)
				require.NotContains(t, n.Label, "Where", "it asks the guard")
			}
			for range 3 {
				require.NoError(t, s.Run(context.Background()))
			}
			for k := range j.Model.Graph.Outputs {
				outputs[i] = append(outputs[i], append([]byte{}, s.Output(k).Data...))
			}
			require.NoError(t, s.Close())
		}
		for k, d := range j.Model.Graph.Outputs {
			if d.Type.DType != graph.Float32 {
				require.Equal(t, outputs[0][k], outputs[1][k])
				continue
			}
			want := executor.Of[float32](&executor.Tensor{DType: graph.Float32, Data: outputs[0][k]})
			got := executor.Of[float32](&executor.Tensor{DType: graph.Float32, Data: outputs[1][k]})
			require.InDeltaSlice(t, want, got, 1e-6, j.Model.Graph.ValueName(d.Value))
		}
	}
}

// optimizerInput is an input of a step: numbers that differ for data, and zeros for labels and states.
func optimizerInput(d graph.Decl) *executor.Tensor {
	shape := executor.EvalShape(d.Type, nil)
	n, _ := executor.Bytes(d.Type.DType, shape)
	x := &executor.Tensor{DType: d.Type.DType, Shape: shape, Data: make([]byte, n)}
	if d.Type.DType == graph.Float32 && len(shape) != 1 {
		for i := range executor.Of[float32](x) {
			executor.Of[float32](x)[i] = float32(i%7)/8 - 0.25
		}
	}
	return x
}

// TestOptimizerKinds: the updates of all optimizers run on a device, those of matrices, of factors and of codes as
// well, and give the weights that the CPU has: others than before.
func TestOptimizerKinds(t *testing.T) {
	for _, kind := range autograd.OptimizerKinds {
		t.Run(kind, func(t *testing.T) {
			m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]>
				g (float[8, 64] x, float[64, 64] w, float[64] b, float[64, 64] v, int64[8] labels) => (float loss) {
				a = Gemm(x, w, b)  r = Tanh(a)  h = MatMul(r, v)  loss = SoftmaxCrossEntropyLoss(h, labels) }`, "g")
			require.NoError(t, err)
			j, err := autograd.Differentiate(m, autograd.Options{Wrt: []string{"w", "b", "v"}})
			require.NoError(t, err)
			require.NoError(t, autograd.AppendOptimizer(j, autograd.Optimizer{Kind: kind, WeightDecay: 0.1}))
			states, err := live.FindStates(j.Model)
			require.NoError(t, err)
			dev, _ := opened(t, double.Options{})
			changed := 0
			var weights [2][][]float32
			for i, device := range []executor.Device{cpu.Device{}, dev} {
				s, err := executor.Open(t.Context(), j.Model, j.Types, device, executor.Options{Threads: 1})
				require.NoError(t, err)
				for _, d := range j.Model.Graph.Inputs {
					require.NoError(t, s.SetInput(j.Model.Graph.ValueName(d.Value), optimizerInput(d)))
				}
				require.NoError(t, s.Run(t.Context()))
				for k, d := range j.Model.Graph.Outputs {
					if d.Type.DType != graph.Float32 || len(d.Type.Shape.Dims) == 0 {
						continue
					}
					out := s.Output(k)
					weights[i] = append(weights[i], append([]float32{}, executor.Of[float32](out)...))
				}
				for _, st := range states {
					at := func(v graph.ValueID) func(graph.Decl) bool {
						return func(d graph.Decl) bool { return d.Value == v }
					}
					if name := j.Model.Graph.ValueName(st.In); slices.Contains(j.Wrt, name) {
						in := slices.IndexFunc(j.Model.Graph.Inputs, at(st.In))
						k := slices.IndexFunc(j.Model.Graph.Outputs, at(st.Out))
						require.NotEqual(t, optimizerInput(j.Model.Graph.Inputs[in]).Data, s.Output(k).Data, name)
						changed++
					}
				}
				require.NoError(t, s.Close())
			}
			require.Equal(t, 2*3, changed, "weights, on each device")
			for k := range weights[0] {
				require.InDeltaSlice(t, weights[0][k], weights[1][k], 1e-4)
			}
		})
	}
}
