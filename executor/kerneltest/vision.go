package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(visionCases) }

// gridTorch is what torch.nn.functional.grid_sample (version 1.13) reads from the plane 3x4 of
// i*i/8 at gridPlaces. Cubic with border padding is left out where a place is outside: ONNX moves
// the place, torch its neighbours.
var gridTorch = []struct {
	mode, padding string
	align         int64
	want          []float64
}{
	{"bilinear", "zeros", 0, []float64{0, 3.9425, 7.661875, 0, 0, 0.240625}},
	{"bilinear", "zeros", 1, []float64{0, 3.79625, 10.90375, 1.85, 0, 0.59765625}},
	{"bilinear", "border", 0, []float64{0, 3.9425, 11.7875, 3.875, 8, 0.875}},
	{"bilinear", "border", 1, []float64{0, 3.79625, 10.90375, 4.625, 8, 0.703125}},
	{"bilinear", "reflection", 0, []float64{0, 3.9425, 11.7875, 3.5225, 6.9425, 0.875}},
	{"bilinear", "reflection", 1, []float64{0, 3.79625, 10.90375, 3.83, 5.99, 1.351875}},
	{"nearest", "zeros", 0, []float64{0, 2, 12.5, 0, 0, 0}},
	{"nearest", "zeros", 1, []float64{0, 2, 12.5, 0, 0, 0.5}},
	{"nearest", "border", 0, []float64{0, 2, 12.5, 6.125, 8, 1.125}},
	{"nearest", "border", 1, []float64{0, 2, 12.5, 6.125, 8, 0.5}},
	{"nearest", "reflection", 0, []float64{0, 2, 12.5, 6.125, 6.125, 1.125}},
	{"nearest", "reflection", 1, []float64{0, 2, 12.5, 4.5, 4.5, 0.5}},
	{"bicubic", "zeros", 0, []float64{-0.0908203125, 4.65179002, 8.61951421, -0.339687571, 0, 0.0455833984}},
	{"bicubic", "zeros", 1, []float64{0, 4.29150575, 11.6463139, 1.56197187, 0, 0.310944391}},
	{"bicubic", "reflection", 0, []float64{-0.36328125, 4.00675981, 12.9550212, 2.72520127, 7.24375899, 0.209095625}},
	{"bicubic", "reflection", 1, []float64{0, 3.73800162, 11.4076167, 2.961068, 6.433916, 0.852150458}},
}

var gridPlaces = []float64{-1, -1, -0.7, 0.2, 0.1, 0.9, 1.4, -0.3, -2.6, 1.9, 0.55, -1.15}

// gridTorch3 is the same for the volume 2x3x4 at gridPlaces3.
var gridTorch3 = []struct {
	mode, padding string
	align         int64
	want          []float64
}{
	{"linear", "zeros", 0, []float64{0, 34.4525, 1.532375, 0}},
	{"linear", "zeros", 1, []float64{0, 27.42125, 9.2681875, 10.346}},
	{"linear", "border", 0, []float64{0, 34.4525, 11.7875, 27.395}},
	{"linear", "border", 1, []float64{0, 27.42125, 10.90375, 25.865}},
	{"linear", "reflection", 0, []float64{0, 34.4525, 11.7875, 26.4125}},
	{"linear", "reflection", 1, []float64{0, 27.42125, 17.76625, 23.99}},
	{"nearest", "zeros", 0, []float64{0, 32, 0, 0}},
	{"nearest", "border", 0, []float64{0, 32, 12.5, 45.125}},
	{"nearest", "reflection", 1, []float64{0, 32, 12.5, 40.5}},
}

var gridPlaces3 = []float64{-1, -1, -1, -0.7, 0.2, 0.4, 0.1, 0.9, -1.3, 1.4, -0.3, 0.2}

func visionCases() []Case {
	cases := gridCases()
	cases = append(cases, affineCases()...)
	cases = append(cases, roiCases()...)
	cases = append(cases, nonMaxCases()...)
	cases = append(cases, col2ImCases()...)
	return append(cases, deformCases()...)
}

func eighths(d graph.DType, shape ...int) *executor.Tensor {
	n := 1
	for _, s := range shape {
		n *= s
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i*i) / 8
	}
	return convTensor(d, shape, v)
}

func gridCases() []Case {
	var cases []Case
	add := func(x, grid *executor.Tensor, opset int, mode, padding string, align int64, shape []int, want []float64) {
		d := x.DType
		c := Case{Name: fmt.Sprintf("%v, %v, %s, %s, align %d", x, grid, mode, padding, align), Kind: op.GridSample,
			Opset: opset,
			Attrs: []graph.Attr{Attr("mode", mode), Attr("padding_mode", padding), Attr("align_corners", align)},
			In:    []*executor.Tensor{x, grid}, Out: []graph.DType{d},
			Want: []*executor.Tensor{convTensor(d, shape, want)}, Tol: convTol(d)}
		if d == graph.Float64 {
			c.Tol = 1e-7 // the digits that are printed
			if grid.DType == graph.Float32 {
				c.Tol = 1e-5
			}
		}
		if d == graph.Float16 {
			c.Tol = 1e-2 // places are rounded, too
		}
		cases = append(cases, c)
	}
	for _, g := range gridTorch {
		grid := func(d graph.DType) *executor.Tensor { return convTensor(d, []int{1, 2, 3, 2}, gridPlaces) }
		shape := []int{1, 1, 2, 3}
		add(eighths(graph.Float32, 1, 1, 3, 4), grid(graph.Float32), 16, g.mode, g.padding, g.align, shape, g.want)
		add(eighths(graph.Float64, 1, 1, 3, 4), grid(graph.Float64), 16, g.mode, g.padding, g.align, shape, g.want)
		if g.mode == "bilinear" {
			add(eighths(graph.Float64, 1, 1, 3, 4), grid(graph.Float32), 20, "linear",
				g.padding, g.align, shape, g.want)
			add(eighths(graph.Float16, 1, 1, 3, 4), grid(graph.Float16), 20, "linear",
				g.padding, g.align, shape, g.want)
		}
	}
	for _, g := range gridTorch3 {
		add(eighths(graph.Float32, 1, 1, 2, 3, 4), convTensor(graph.Float32, []int{1, 1, 2, 2, 3}, gridPlaces3), 20,
			g.mode, g.padding, g.align, []int{1, 1, 1, 2, 2}, g.want)
	}
	// The centres of all elements give the elements.
	x := convRandom(graph.Float32, 13, 2, 7, 30, 40)
	places := make([]float64, 2*30*40*2)
	for i := range 2 * 30 * 40 {
		places[2*i], places[2*i+1] = float64(2*(i%40)+1)/40-1, float64(2*(i/40%30)+1)/30-1
	}
	add(x, convTensor(graph.Float32, []int{2, 30, 40, 2}, places), 0, "nearest", "zeros", 0, x.Shape, convNumbers(x))
	odd := convTensor(graph.Float32, []int{1, 1, 2, 2}, []float64{math.NaN(), 0, math.Inf(1), 0})
	add(eighths(graph.Float32, 1, 1, 3, 4), odd, 0, "linear", "zeros", 0, []int{1, 1, 1, 2}, []float64{0, 0})
	add(convTensor(graph.Float32, []int{0, 1, 3, 4}, nil), convTensor(graph.Float32, []int{0, 2, 2, 2}, nil), 0,
		"linear", "zeros", 0, []int{0, 1, 2, 2}, nil)
	fault := func(name, text string, attrs []graph.Attr, x, grid *executor.Tensor) {
		cases = append(cases,
			Case{
				Name: name, Kind: op.GridSample, Attrs: attrs, In: []*executor.Tensor{x, grid},
				Out: []graph.DType{x.DType}, Fails: text,
			})
	}
	plane := eighths(graph.Float32, 1, 1, 3, 4)
	fault("batch", "input 1 (grid)", nil, plane, convRandom(graph.Float32, 1, 2, 2, 2, 2))
	fault("coordinates", "input 1 (grid)", nil, plane, convRandom(graph.Float32, 1, 1, 2, 2, 3))
	fault("mode", "attribute mode", []graph.Attr{Attr("mode", "lanczos")}, plane,
		convRandom(graph.Float32, 1, 1, 2, 2, 2))
	fault("padding", "padding_mode", []graph.Attr{Attr("padding_mode", "wrap")}, plane,
		convRandom(graph.Float32, 1, 1, 2, 2, 2))
	return cases
}

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
		fault(align("", 0, box(0, 0, 1e9, 2), one, 1, 1, []float64{0}), "large region", "no place in a plane"),
		fault(align("", 0, box(0, 0, 2, 2), one, 0, 1, nil), "no height", "output_height is 0"),
		fault(align("", 0, box(0, 0, 2, 2), one, 1, 1, []float64{0}, Attr("mode", "sum")), "mode", "mode is"),
		fault(pool("", box(2, 0, 0, 6, 6), 0, 0, 0, 0), "no such image", "the batch has 2"),
	}
}

// nonMaxCases have the boxes [0,1], [0.1,1.1], [10,11] of equal height, of which the first two
// overlap by 0.9/1.1.
func nonMaxCases() []Case {
	boxes := executor.NewTensor[float32](graph.Float32, []int{1, 3, 4}, 0, 0, 1, 1, 0, 1.1, 1, 0.1, 1, 11, 0, 10)
	centred := executor.NewTensor[float32](graph.Float32, []int{1, 3, 4}, .5, .5, 1, 1, .6, .5, 1, 1, 10.5, .5, 1, 1)
	scores := executor.NewTensor[float32](graph.Float32, []int{1, 2, 3}, 0.9, 0.75, 0.6, 0.1, 0.8, 0.8)
	most := func(n int64) *executor.Tensor { return executor.NewTensor(graph.Int64, nil, n) }
	number := func(v float32) *executor.Tensor { return executor.NewTensor(graph.Float32, []int{1}, v) }
	c := func(name string, in []*executor.Tensor, want ...int64) Case {
		return Case{Name: name, Kind: op.NonMaxSuppression, In: in, Out: []graph.DType{graph.Int64},
			Want: []*executor.Tensor{executor.NewTensor(graph.Int64, []int{len(want) / 3, 3}, want...)}}
	}
	byCentre := c("centres", []*executor.Tensor{centred, scores, most(3), number(0.5)}, 0, 0, 0, 0, 0, 2, 0,
		1, 1, 0, 1, 2)
	byCentre.Attrs = []graph.Attr{Attr("center_point_box", int64(1))}
	old := c("opset 10", []*executor.Tensor{boxes, scores, most(3), number(0.5)}, 0, 0, 0, 0, 0, 2, 0, 1, 1, 0, 1, 2)
	old.Opset = 10
	fault := func(name, text string, in ...*executor.Tensor) Case {
		f := c(name, in)
		f.Want, f.Fails = nil, text
		return f
	}
	return []Case{
		byCentre, old,
		c("corners", []*executor.Tensor{boxes, scores, most(3), number(0.5)}, 0, 0, 0, 0, 0, 2, 0, 1, 1, 0, 1, 2),
		c("high threshold", []*executor.Tensor{boxes, scores, most(3), number(0.9)}, 0, 0, 0, 0, 0, 1, 0, 0, 2, 0, 1, 1,
			0, 1, 2, 0, 1, 0),
		c("one per class", []*executor.Tensor{boxes, scores, most(1), number(0.5)}, 0, 0, 0, 0, 1, 1),
		c("least score", []*executor.Tensor{boxes, scores, most(3), number(0.5), number(0.7)}, 0, 0, 0, 0, 1,
			1, 0, 1, 2),
		c("none asked for", []*executor.Tensor{boxes, scores}),
		c("no boxes", []*executor.Tensor{convTensor(graph.Float32, []int{1, 0, 4}, nil),
			convTensor(graph.Float32, []int{1, 2, 0}, nil), most(3)}),
		fault("scores", "input 1 (scores)", boxes, convRandom(graph.Float32, 1, 1, 2, 4), most(3)),
		fault("boxes", "input 0 (boxes)", convRandom(graph.Float32, 1, 1, 3, 5), scores, most(3)),
		fault("threshold", "iou_threshold", boxes, scores, most(3), number(1.5)),
	}
}
