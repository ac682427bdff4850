package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(affineCases) }

// affineCases are from torch.nn.functional.affine_grid (version 1.13).
func affineCases() []Case {
	plane, volume := []float64{1, .5, -.25, .25, -1, .125}, []float64{1, .5, -.25, 0, .25, -1, .125, 1, 0, .5, .75, -1}
	var cases []Case
	add := func(theta []float64, size []int64, align int64, want ...float64) {
		k := len(size) - 2
		shape := []int{1}
		for _, d := range size[2:] {
			shape = append(shape, int(d))
		}
		shape = append(shape, k)
		for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16} {
			cases = append(cases,
				Case{Name: fmt.Sprintf("%d axes, align %d, %v", k, align, d), Kind: op.AffineGrid,
					Attrs: []graph.Attr{Attr("align_corners", align)},
					In: []*executor.Tensor{convTensor(d, []int{1, k, k + 1}, theta),
						executor.NewTensor(graph.Int64, []int{k + 2}, size...)}, Out: []graph.DType{d},
					Want: []*executor.Tensor{convTensor(d, shape, want)}, Tol: convTol(d)})
		}
	}
	add(plane, []int64{1, 1, 2, 3}, 0, -7./6, 11./24, -0.5, 0.625, 1./6, 19./24, -2./3, -13./24, 0, -0.375,
		2./3, -5./24)
	add(plane, []int64{1, 1, 2, 3}, 1, -1.75, 0.875, -0.75, 1.125, 0.25, 1.375, -0.75, -1.125, 0.25, -0.875,
		1.25, -0.625)
	add(volume, []int64{1, 1, 2, 1, 3}, 0, -13./24, 37./48, -1.375, 0.125, 0.9375, -1.375, 19./24, 53./48, -1.375,
		-19./24, 43./48, -0.625, -0.125, 1.0625, -0.625, 13./24, 59./48, -0.625)
	add(volume, []int64{1, 1, 2, 1, 3}, 1, -0.75, 0.625, -1.75, 0.25, 0.875, -1.75, 1.25, 1.125, -1.75, -1.25, 0.875,
		-0.25, -0.25, 1.125, -0.25, 0.75, 1.375, -0.25)
	bad := cases[0]
	bad.Name, bad.Want, bad.Fails = "theta", nil, "input 0 has shape"
	bad.In = []*executor.Tensor{convRandom(graph.Float32, 1, 1, 2, 3),
		executor.NewTensor[int64](graph.Int64, []int{5}, 1, 1, 2, 2, 2)}
	return append(cases, bad)
}
