package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

// TestATenGradients: the functions of PyTorch that ORTModule's exporter writes, by finite differences.
func TestATenGradients(t *testing.T) {
	const head = `<ir_version: 8, opset_import: ["": 17, "org.pytorch.aten": 1]> g `
	call := func(in, out, constants, name, args string) string {
		return head + "(" + in + ") => (" + out + ") <" + constants + "> { y = org.pytorch.aten.ATen<operator = \"" +
			name + "\">(" + args + ") }"
	}
	over := func(in, out, constants, name, overload, args string) string {
		return head + "(" + in + ") => (" + out + ") <" + constants + "> { y, i = org.pytorch.aten.ATen<operator = \"" +
			name + "\", overload_name = \"" + overload + "\">(" + args + ") }"
	}
	vec := func(in, out, constants, name, args string) string {
		return head + "(" + in + ") => (" + out + ") <" + constants + "> { y = org.pytorch.aten.ATen<operator = \"" +
			name + "\", overload_name = \"vec\">(" + args + ") }"
	}
	const pool = `int64[2] k = {3, 2}, int64[2] s = {2, 1}, int64[2] p = {1, 0}, int64[2] d = {1, 1}, bool yes = {1}, bool no = {0}`
	const image, any4 = `double[2, 2, 5, 6] x`, `double[?, ?, ?, ?] y`
	checkGradients(t, []gradCase{
		{Name: "max pool", Graph: head + `(` + image + `) => (` + any4 + `) <` + pool +
			`> { y, i = org.pytorch.aten.ATen<operator = "max_pool2d_with_indices">(x, k, s, p, d, no) }`},
		{Name: "max pool, rounded up", Graph: head + `(` + image + `) => (` + any4 + `) <` + pool +
			`> { y, i = org.pytorch.aten.ATen<operator = "max_pool2d_with_indices">(x, k, s, p, d, yes) }`},
		{Name: "max pool and its places", Graph: head + `(` + image + `) => (` + any4 + `) <` + pool +
			`> { z, i = org.pytorch.aten.ATen<operator = "max_pool2d_with_indices">(x, k, s, p, d, no)
			f = CastLike(i, x)  y = Mul(z, f) }`, Tol: 1e-4},
		{Name: "max pool, kernel unknown", Graph: head + `(` + image + `, int64[2] k) => (` + any4 + `)
			{ y, i = org.pytorch.aten.ATen<operator = "max_pool2d_with_indices">(x, k) }`,
			In: tensors{"k": ints([]int{2}, 2, 2)}, Fails: "settings are not constants"},
		{Name: "mean pool", Graph: call(image, any4, pool, "avg_pool2d", "x, k, s, p, yes, no")},
		{Name: "mean pool with padding", Graph: call(image, any4, pool, "avg_pool2d", "x, k, s, p, no, yes")},
		{Name: "mean pool by a divisor", Graph: call(image, any4, pool+`, int64 n = {7}`, "avg_pool2d",
			"x, k, s, p, no, no, n")},
		{Name: "adaptive to one", Graph: call(image, any4, `int64[2] n = {1, 1}`, "_adaptive_avg_pool2d", "x, n")},
		{Name: "adaptive, divisible", Graph: call(image, any4, `int64[2] n = {5, 3}`, "_adaptive_avg_pool2d", "x, n")},
		{Name: "adaptive", Graph: call(image, any4, `int64[2] n = {2, 4}`, "_adaptive_avg_pool2d", "x, n")},
		{Name: "diagonal", Graph: call(`double[3, 2, 4] x`, `double[?, ?] y`,
			`int64 o = {1}, int64 a = {0}, int64 b = {2}`, "diagonal", "x, o, a, b")},
		{Name: "diagonal below", Graph: call(`double[3, 2, 4] x`, `double[?, ?] y`,
			`int64 o = {-1}, int64 a = {0}, int64 b = {-1}`, "diagonal", "x, o, a, b")},
		{Name: "largest", Graph: call(`double[3, 4] x`, `double y`, `int64 o = {1}`, "max", "x")},
		{Name: "smallest", Graph: call(`double[3, 4] x`, `double y`, `int64 o = {1}`, "min", "x")},
		{Name: "largest of rows", Graph: over(`double[3, 4] x`, `double[3] y`, `int64 a = {1}, bool no = {0}`, "max",
			"dim", "x, a, no")},
		{Name: "smallest of columns", Graph: over(`double[3, 4] x`, `double[1, 4] y, int64[1, 4] i`,
			`int64 a = {-2}, bool yes = {1}`, "min", "dim", "x, a, yes")},
		{Name: "reversed", Graph: call(`double[3, 2, 4] x`, `double[?, ?, ?] y`, `int64 a = {1}`, "numpy_T", "x")},
		{Name: "overlapping pieces", Graph: call(`double[2, 7, 3] x`, `double[?, ?, ?, ?] y`,
			`int64 a = {1}, int64 n = {3}, int64 s = {2}`, "unfold", "x, a, n, s")},
		{Name: "pieces of the last axis", Graph: call(`double[2, 7] x`, `double[?, ?, ?] y`,
			`int64 a = {-1}, int64 n = {2}, int64 s = {2}`, "unfold", "x, a, n, s")},
		{Name: "group norm", Graph: head + `(double[2, 4, 3, 2] x, double[4] w, double[4] b) => (double[2, 4, 3, 2] y)
			<int64 n = {2}, int64 c = {4}, int64 hw = {6}, int64 g = {2}, float e = {1e-3}>
			{ y, m, r = org.pytorch.aten.ATen<operator = "native_group_norm">(x, w, b, n, c, hw, g, e) }`, Tol: 1e-4},
		{Name: "nearest, sizes", Graph: vec(`double[1, 2, 4] x`, `double[1, 2, 7] y`, `int64[1] n = {7}`,
			"upsample_nearest1d", "x, n, ")},
		{Name: "nearest, scales", Graph: vec(`double[1, 2, 3, 4] x`, `double[?, ?, ?, ?] y`, `float[2] s = {2, 1.5}`,
			"upsample_nearest2d", "x, , s")},
		{Name: "nearest in space", Graph: vec(`double[1, 1, 2, 3, 2] x`, `double[?, ?, ?, ?, ?] y`,
			`int64[3] n = {3, 3, 4}`, "upsample_nearest3d", "x, n, ")},
		{Name: "bilinear", Graph: vec(`double[1, 2, 3, 4] x`, `double[?, ?, ?, ?] y`,
			`int64[2] n = {5, 6}, bool no = {0}`, "upsample_bilinear2d", "x, n, no, "), Tol: 1e-4},
		{Name: "bicubic, corners aligned", Graph: vec(`double[1, 1, 3, 4] x`, `double[?, ?, ?, ?] y`,
			`int64[2] n = {5, 6}, bool yes = {1}`, "upsample_bicubic2d", "x, n, yes, "), Tol: 1e-4},
		{Name: "places have none", Graph: head + `(double[3, 4] x) => (double[3, 4] y) <int64 a = {1}, bool yes = {1}>
			{ i = org.pytorch.aten.ATen<operator = "argmax">(x, a, yes)  f = CastLike(i, x)  y = Mul(x, f) }`, Tol: 1e-4},
		{Name: "fused attention", Graph: call(`double[1, 1, 2, 2] x`, any4, `bool no = {0}`,
			"_scaled_dot_product_efficient_attention", "x, x, x, , no"), Fails: "ORTMODULE_ATEN_SDPA_FALLBACK"},
	})
}

// TestATenComplete: every function whose types are inferred has a gradient, or a reason why it has none.
func TestATenComplete(t *testing.T) {
	require.Equal(t, op.ATenFunctions(false), autograd.ATenFunctions())
}

// TestATenBits: an integer function on the way to no gradient stays as it is.
func TestATenBits(t *testing.T) {
	c := gradCase{Graph: `<ir_version: 8, opset_import: ["": 17, "org.pytorch.aten": 1]>
		g (double[2] x, bool[2] a, bool[2] b) => (double[2] y) {
		m = org.pytorch.aten.ATen<operator = "bitwise_or", overload_name = "Tensor">(a, b)
		z = Neg(x)  y = Where(m, x, z) }`,
		In: tensors{"a": executor.NewTensor(graph.Bool, []int{2}, uint8(1), 0),
			"b": executor.NewTensor(graph.Bool, []int{2}, uint8(0), 0)}}
	checkGradients(t, []gradCase{c})
}
