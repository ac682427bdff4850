package compare_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/inference/compare"
)

func read(t *testing.T, text string) *memopt.Model {
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["": 17]> `+text, "test")
	require.NoError(t, err)
	model, err := memopt.New(m, memopt.Options{})
	require.NoError(t, err)
	return model
}

// outputs compares two models on given x.
func outputs(t *testing.T, a, b string, x ...float32) []compare.Output {
	data := &dataset.Set{Inputs: map[string]*executor.Tensor{
		"x": executor.NewTensor(graph.Float32, []int{len(x)}, x...)}}
	list, err := compare.Outputs(t.Context(), read(t, a), read(t, b), compare.Options{
		Engine: verify.On(cpu.Device{}), Data: data, Tolerance: verify.Tolerance{Abs: 0.3}})
	require.NoError(t, err)
	return list
}

// TestOutputs: differences by hand. y is 1 more at 2 and 0.25 more at -4; z is the same; an output that
// one model alone has is not compared.
func TestOutputs(t *testing.T) {
	list := outputs(t,
		`g (float[2] x) => (float[2] y, float[2] z, float[2] other) { y = Identity (x) z = Neg (x) other = Abs (x) }`,
		`g (float[2] x) => (float[2] z, float[2] y) <float[2] w = {1, 0.25}> { y = Add (x, w) z = Neg (x) }`, 2, -4)
	require.Equal(t, []string{"z", "y"}, []string{list[0].Name, list[1].Name})
	require.True(t, list[0].Bits && list[0].Equal)
	y := list[1]
	require.False(t, y.Bits || y.Equal)
	require.Equal(t, "float[2]", y.Type)
	require.Equal(t, []float64{1, 4}, []float64{y.MaxAbs, y.MaxValue})
	require.InDelta(t, math.Sqrt((1+0.0625)/2), y.RMS, 1e-9)
	require.InDelta(t, math.Sqrt((4+16.0)/2), y.RMSValue, 1e-9)
	require.Contains(t, y.First, "element 0")

	s := compare.Summarize(list, "there", "cpu")
	require.False(t, s.Equal || s.Bits)
	name, share := s.Worst()
	require.Equal(t, "y", name)
	require.Equal(t, 0.25, share)
	require.Equal(t, "Outputs differ by at most 1, 25 % of the largest element (y), on there (cpu).", s.Sentence())
	require.Contains(t, s.First(), `output "y": element 0`)
}

// TestNotFinite: a difference that is no number is the worst one, and null in JSON.
func TestNotFinite(t *testing.T) {
	list := outputs(t, `g (float[1] x) => (float[1] y, float[1] z) { y = Neg (x) z = Abs (x) }`,
		`g (float[1] x) => (float[1] y, float[1] z) <float[1] w = {1}> { y = Log (x) z = Add (x, w) }`, -2)
	s := compare.Summarize(list, "there", "cpu")
	name, share := s.Worst()
	require.Equal(t, "y", name)
	require.False(t, share <= 1, "%v: no limit accepts it", share)
	raw, err := json.Marshal(s)
	require.NoError(t, err)
	require.Contains(t, string(raw), `"max_abs_diff":null`)
}

// TestDraws: random nodes draw the same in both models, wherever they stand.
func TestDraws(t *testing.T) {
	list := outputs(t, `g (float[2] x) => (float[2] y) { r = RandomNormalLike (x) y = Add (x, r) }`,
		`g (float[2] x) => (float[2] y) { a = Neg (x) b = Neg (a) r = RandomNormalLike (b) y = Add (b, r) }`, 1, 2)
	require.True(t, list[0].Bits)
	require.Greater(t, list[0].MaxValue, 0.0)
}
