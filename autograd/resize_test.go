package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/symbolic"
)

// gradient returns the gradient of the sum of output y.
func (c *gradCase) gradient(t *testing.T, of string) []float64 {
	t.Helper()
	m := c.parse(t)
	j, err := autograd.Differentiate(m,
		autograd.Options{Wrt: []string{of}, Losses: []autograd.Loss{{Name: "y", Seed: true}}})
	require.NoError(t, err)
	in := map[string]*executor.Tensor{}
	for name, x := range c.In {
		in[name] = x
	}
	y := newRunner(t, m, c.Dims)(in)[0]
	ones := make([]float64, len(y.Data)/8)
	for i := range ones {
		ones[i] = 1
	}
	in["y"+autograd.SeedSuffix] = &executor.Tensor{DType: graph.Float64, Shape: y.Shape, Data: executor.Memory(ones)}
	return executor.Of[float64](newRunner(t, j.Model, c.Dims)(in)[1])
}

// TestResize: modes, scales and sizes, in the file and as inputs, all dialects.
func TestResize(t *testing.T) {
	n := symbolic.Env{"N": 2, "C": 2, "H": 3, "W": 4}
	given := symbolic.Env{"N": 2, "C": 2, "H": 3, "W": 4, "a": 2, "b": 2, "c": 4, "d": 8}
	stated := symbolic.Env{"N": 2, "C": 2, "H": 3, "W": 4, "a": 2, "b": 2, "c": 5, "d": 3}
	scales := &executor.Tensor{DType: graph.Float32, Shape: []int{4}, Data: executor.Memory([]float32{1, 1, 1.5, 2})}
	const two, free = `double[1, 2, 3, 4] x`, `double[N, C, H, W] x`
	const up = ` => (double[a, b, c, d] y) <float[0] r = {}, float[4] s = {1, 1, 2, 3}> { y = Resize`
	const odd = ` => (double[a, b, c, d] y) <float[0] r = {}, float[4] s = {1, 1, 1.7, 0.6}> { y = Resize`
	const size = ` => (double[a, b, c, d] y) <float[0] r = {}, float[0] s = {}, int64[4] z = {1, 2, 5, 3}> { y = Resize`
	x := []string{"x"}
	checkGradients(t, []gradCase{
		{Name: "nearest, repeats",
			Graph: `g (` + two + `)` + up +
				`<coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, r, s) }`},
		{Name: "nearest, half pixel", Graph: `g (` + free + `)` + up + `(x, r, s) }`, Dims: n},
		{Name: "nearest, ceil",
			Graph: `g (` + two + `)` + up +
				`<coordinate_transformation_mode = "asymmetric", nearest_mode = "ceil">(x, r, s) }`},
		{Name: "nearest, odd", Graph: `g (` + two + `)` + odd + `(x, , s) }`},
		{Name: "nearest, opset 11", Opset: 11, Graph: `g (` + two + `)` + odd + `(x, r, s) }`},
		{Name: "nearest, shifted", Opset: 11,
			Graph: `g (` + two + `)` + odd + `<coordinate_transformation_mode = "tf_half_pixel_for_nn">(x, r, s) }`},
		{Name: "linear", Graph: `g (` + free + `)` + odd + `<mode = "linear">(x, r, s) }`, Dims: n},
		{Name: "linear, corners",
			Graph: `g (` + two + `)` + odd +
				`<mode = "linear", coordinate_transformation_mode = "align_corners">(x, r, s) }`},
		{Name: "linear, pytorch",
			Graph: `g (` + two + `)` + size +
				`<mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel">(x, r, s, z) }`},
		{Name: "linear, sizes, opset 11", Opset: 11,
			Graph: `g (` + two + `)` + size + `<mode = "linear">(x, r, s, z) }`},
		{Name: "cubic", Graph: `g (` + two + `)` + odd + `<mode = "cubic", cubic_coeff_a = -0.5>(x, r, s) }`},
		{Name: "cubic, excluding",
			Graph: `g (` + two + `)` + size + `<mode = "cubic", exclude_outside = 1>(x, , , z) }`},
		{Name: "antialias", Opset: 18, Graph: `g (` + two + `)` + odd + `<mode = "linear", antialias = 1>(x, r, s) }`},
		{Name: "axes", Opset: 18,
			Graph: `g (` + free +
				`) => (double[a, b, c, d] y) <float[2] s = {1.5, 2}> { y = Resize<mode = "linear", axes = [3, -3]>(x, , s) }`,
			Dims: n},
		{Name: "given scales", Opset: 18,
			Graph: `g (` + free + `, float[4] s) => (double[a, b, c, d] y) { y = Resize<mode = "linear">(x, , s) }`,
			Dims:  given, In: map[string]*executor.Tensor{"s": scales}, Wrt: x},
		{Name: "given sizes", Opset: 19,
			Graph: `g (` + free + `, int64[4] z) => (double[a, b, c, d] y) { y = Resize<mode = "linear">(x, , , z) }`,
			Dims:  stated, In: map[string]*executor.Tensor{"z": nnInts([]int{4}, 2, 2, 5, 3)}, Wrt: x},
		{Name: "opset 10", Opset: 10,
			Graph: `g (` + two +
				`) => (double[a, b, c, d] y) <float[4] s = {1, 1, 1.5, 2}> { y = Resize<mode = "linear">(x, s) }`},
		{Name: "opset 10, repeats", Opset: 10,
			Graph: `g (` + two + `) => (double[a, b, c, d] y) <float[4] s = {1, 1, 3, 2}> { y = Resize(x, s) }`},
		{Name: "upsample 9", Opset: 9,
			Graph: `g (` + two +
				`) => (double[a, b, c, d] y) <float[4] s = {1, 1, 1.5, 2}> { y = Upsample<mode = "linear">(x, s) }`},
		{Name: "upsample 9, repeats", Opset: 9,
			Graph: `g (` + free + `) => (double[a, b, c, d] y) <float[4] s = {1, 1, 3, 2}> { y = Upsample(x, s) }`,
			Dims:  n},
		{Name: "upsample 7", Opset: 7,
			Graph: `g (` + two + `) => (double[a, b, c, d] y) { y = Upsample<scales = [1.0, 1.0, 2.0, 2.0]>(x) }`},
		{Name: "upsample 7, linear", Opset: 7,
			Graph: `g (` + two +
				`) => (double[a, b, c, d] y) { y = Upsample<mode = "linear", scales = [1.0, 1.0, 2.0, 2.0]>(x) }`,
			Fails: "EyeLike"},
		{Name: "crop", Graph: `g (` + two +
			`) => (double[a, b, c, d] y) <float[8] r = {0, 0, 0, 0, 1, 1, 1, 1}, float[4] s = {1, 1, 2, 2}> { y = Resize<coordinate_transformation_mode = "tf_crop_and_resize">(x, r, s) }`,
			Fails: "tf_crop_and_resize"},
	})
}
