package kerneltest

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(roiCases) }

// roiCases have regions small enough to see through, on the plane 4x4 of 0, 1, 2….
func roiCases() []Case {
	v := make([]float64, 32)
	for i := range v {
		v[i] = float64(i)
	}
	x := convTensor(graph.Float32, []int{2, 1, 4, 4}, v)
	one := executor.NewTensor[int64](graph.Int64, []int{1}, 1)
	box := func(v ...float32) *executor.Tensor { return executor.NewTensor(graph.Float32, []int{1, len(v)}, v...) }
	align := func(name string, opset int, rois, batch *executor.Tensor, h, w int, want []float64,
		attrs ...graph.Attr) Case {
		return Case{Name: name, Kind: op.RoiAlign, Opset: opset,
			Attrs: append(attrs, Attr("output_height", int64(h)), Attr("output_width", int64(w))),
			In:    []*executor.Tensor{x, rois, batch}, Out: []graph.DType{graph.Float32},
			Want: []*executor.Tensor{convTensor(graph.Float32, []int{1, 1, h, w}, want)}, Tol: 1e-5}
	}
	pool := func(name string, rois *executor.Tensor, want ...float64) Case {
		return Case{Name: name, Kind: op.MaxRoiPool,
			Attrs: []graph.Attr{Attr("pooled_shape", []int64{2, 2}), Attr("spatial_scale", float32(0.5))},
			In:    []*executor.Tensor{x, rois}, Out: []graph.DType{graph.Float32},
			Want: []*executor.Tensor{convTensor(graph.Float32, []int{1, 1, 2, 2}, want)}}
	}
	fault := func(c Case, name, text string) Case {
		c.Name, c.Want, c.Fails = name, nil, text
		return c
	}
	ratio := Attr("sampling_ratio", int64(1))
	plain := align("output_half_pixel", 10, box(0, 0, 2, 2), one, 2, 2, []float64{18.5, 19.5, 22.5, 23.5}, ratio)
	pooled := pool("max", box(1, 0, 0, 6, 6), 21, 23, 29, 31)
	return []Case{
		// Bins of one element, read in their centres 0.5 and 1.5: element 4y+x of image 1.
		plain,
		// The same half an element up and left.
		align("half_pixel", 0, box(0, 0, 2, 2), one, 2, 2, []float64{16, 17, 20, 21}, ratio),
		align("spatial_scale", 10, box(0, 0, 4, 4), one, 2, 2, []float64{18.5, 19.5, 22.5, 23.5}, ratio,
			Attr("spatial_scale", float32(0.5))),
		// Two points per axis and bin: 0.25, 0.75 around 0.5.
		align("two points", 10, box(0, 0, 2, 2), one, 2, 2, []float64{18.5, 19.5, 22.5, 23.5},
			Attr("sampling_ratio", int64(2))),
		// As many points as the bin has elements: at 0.5, 1.5.
		align("points by size", 10, box(0, 0, 2, 2), one, 1, 1, []float64{21}),
		// At (0.5, 0.5): the largest of the quarters of 16, 17, 20, 21.
		align("max", 10, box(0, 0, 1, 1), one, 1, 1, []float64{21. / 4}, Attr("mode", "max")),
		align("outside", 10, box(10, 10, 12, 12), one, 1, 1, []float64{0}),
		// Elements 0..3 of each axis in two bins.
		pooled,
		// Only element 2 of both axes, in every bin that has an element.
		pool("one element", box(0, 4, 4, 4, 4), 10, 10, 10, 10),
		pool("outside", box(0, 20, 20, 30, 30), 0, 0, 0, 0),
		fault(align("", 0, box(0, 0, 2, 2), executor.NewTensor[int64](graph.Int64, []int{1}, 2), 1, 1, []float64{0}),
			"no such image", "the batch has 2"),
		fault(align("", 0, box(0, 0, 2), one, 1, 1, []float64{0}), "short region", "wanted [regions, 4]"),
		fault(align("", 0, box(0, 0, 1e9, 2), one, 1, 1, []float64{0}), "large region", "not a coordinate in a plane"),
		fault(align("", 0, box(0, 0, 2, 2), one, 0, 1, nil), "no height", "output_height is 0"),
		fault(align("", 0, box(0, 0, 2, 2), one, 1, 1, []float64{0}, Attr("mode", "sum")), "mode", "mode is"),
		fault(pool("", box(2, 0, 0, 6, 6), 0, 0, 0, 0), "no such image", "the batch has 2"),
	}
}
