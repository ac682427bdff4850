package cuda_test

import (
	"context"
	"math"
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
	{roiAligned, goodRegions, "rois", float32s([]int{2, 4}, 0, 0, 3, 3, 1, notANumber, 2, 2),
		`node "RoiAlign#0" (RoiAlign): input 1 has a number at element 5, in region 1, that is not a coordinate in a plane`},
	{roiAligned, goodRegions, "images", int64s(0, 2),
		`node "RoiAlign#0" (RoiAlign): region 1 names an image that is not there; the batch has 2`},
	{roiPooled, goodImages, "rois", float32s([]int{2, 5}, 0, 0, 0, 3, 1e9, 1, 1, 1, 2, 2),
		`node "MaxRoiPool#0" (MaxRoiPool): input 1 has a number at element 4, in region 0, that is not a coordinate in a plane`},
	{roiPooled, goodImages, "rois", float32s([]int{2, 5}, 0, 0, 0, 3, 3, -1, 1, 1, 2, 2),
		`node "MaxRoiPool#0" (MaxRoiPool): region 1 names an image that is not there; the batch has 2`},
	{`g (float[1, 1, 1, 2] x, int64[1, 1, 1, 2] i) => (float[1, 1, 2, 4] y) { y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i) }`,
		map[string]*executor.Tensor{"i": pooledIndices(1, 6)}, "i", pooledIndices(1, 8),
		`node "MaxUnpool#0" (MaxUnpool): input 1, element 1: the index is not in that element's plane of 8 elements`},
	{`g (float[3] x, int64[2] i, float[2] u) => (float[3] y) { y = ScatterElements(x, i, u) }`,
		map[string]*executor.Tensor{"i": int64s(0, -3)},
		"i", int64s(0, -4),
		`node "ScatterElements#0" (ScatterElements): input 1, index number 1: is outside an axis of length 3`},
}

const (
	roiAligned = `g (float[2, 1, 4, 4] x, float[2, 4] rois, int64[2] images) => (float[2, 1, 2, 2] y) {
		y = RoiAlign<output_height = 2, output_width = 2>(x, rois, images) }`
	roiPooled = `g (float[2, 1, 4, 4] x, float[2, 5] rois) => (float[2, 1, 2, 2] y) { y = MaxRoiPool<pooled_shape = [2, 2]>(x, rois) }`
)

var (
	notANumber  = float32(math.NaN())
	goodRegions = map[string]*executor.Tensor{
		"rois": float32s([]int{2, 4}, 0, 0, 3, 3, 1, 1, 2, 2), "images": int64s(1, 0),
	}
	goodImages = map[string]*executor.Tensor{"rois": float32s([]int{2, 5}, 0, 0, 0, 3, 3, 1, 1, 1, 2, 2)}
)

func int64s(v ...int64) *executor.Tensor { return executor.NewTensor(graph.Int64, []int{len(v)}, v...) }

func pooledIndices(v ...int64) *executor.Tensor {
	return executor.NewTensor(graph.Int64, []int{1, 1, 1, len(v)}, v...)
}

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
