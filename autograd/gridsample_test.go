package autograd_test

import (
	"fmt"
	"testing"

	"memopt/executor"
	"memopt/symbolic"
)

// TestGridSample: modes, paddings, corners, planes, volumes and lines, symbolic sizes, elements that are not
// in the middle of places' kinks.
func TestGridSample(t *testing.T) {
	var cases []gradCase
	n := symbolic.Env{"N": 2, "C": 2, "H": 4, "W": 5, "P": 3, "Q": 2}
	for _, mode := range []string{"linear", "cubic", "nearest"} {
		for _, padding := range []string{"zeros", "border", "reflection"} {
			for align := range 2 {
				attrs := fmt.Sprintf(`<mode = "%s", padding_mode = "%s", align_corners = %d>`, mode, padding, align)
				cases = append(cases, gradCase{Name: "plane " + attrs, Opset: 20, Dims: n, Range: [2]float64{-1.6, 1.6},
					Graph: `g (double[N, C, H, W] x, double[N, P, Q, 2] p) => (double[N, C, P, Q] y) { y = GridSample` +
						attrs + `(x, p) }`})
				if align == 0 {
					cases = append(cases, gradCase{Name: "volume " + attrs, Opset: 22, Range: [2]float64{-1.3, 1.3},
						Graph: `g (double[1, 2, 3, 2, 4] x, double[1, 2, 1, 3, 3] p) => (double[1, 2, 2, 1, 3] y) { y = GridSample` +
							attrs + `(x, p) }`})
				}
			}
		}
	}
	cases = append(cases,
		gradCase{Name: "old names", Opset: 16, Wrt: []string{"x"},
			Graph: `g (double[1, 1, 3, 4] x, double[1, 2, 2, 2] p) => (double[1, 1, 2, 2] y) { y = GridSample<mode = "bicubic">(x, p) }`},
		gradCase{Name: "one row", Opset: 20, Wrt: []string{"x"},
			Graph: `g (double[1, 1, 1, 4] x, double[1, 2, 2, 2] p) => (double[1, 1, 2, 2] y) { y = GridSample<padding_mode = "reflection", align_corners = 1>(x, p) }`})
	checkGradients(t, cases)
}

// TestAffineGrid: planes and volumes, and a network that places its samples itself.
func TestAffineGrid(t *testing.T) {
	size := map[string]*executor.Tensor{"s": nnInts([]int{4}, 2, 1, 3, 4)}
	checkGradients(t, []gradCase{
		{Name: "plane", Opset: 20, In: size, Dims: symbolic.Env{"N": 2, "H": 3, "W": 4},
			Graph: `g (double[N, 2, 3] theta, int64[4] s) => (double[N, H, W, 2] y) { y = AffineGrid(theta, s) }`},
		{Name: "corners", Opset: 20, In: size,
			Graph: `g (double[2, 2, 3] theta, int64[4] s) => (double[2, 3, 4, 2] y) { y = AffineGrid<align_corners = 1>(theta, s) }`},
		{Name: "volume", Opset: 20,
			Graph: `g (double[1, 3, 4] theta) => (double[1, 2, 3, 4, 3] y) <int64[5] s = {1, 1, 2, 3, 4}> { y = AffineGrid(theta, s) }`},
		{Name: "spatial transformer", Opset: 20, Range: [2]float64{-0.7, 0.7},
			Graph: `g (double[1, 2, 4, 5] x, double[1, 2, 3] theta) => (double[1, 2, 3, 3] y) <int64[4] s = {1, 2, 3, 3}> {
				p = AffineGrid(theta, s)  y = GridSample(x, p) }`},
	})
}
