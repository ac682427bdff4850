package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(resizeCases) }

// squares is a plane 3x4 of 0, 1, 4, 9….
func squares(d graph.DType) *executor.Tensor {
	v := make([]float64, 12)
	for i := range v {
		v[i] = float64(i * i)
	}
	return convTensor(d, []int{1, 1, 3, 4}, v)
}

// resizeTorch has the results of torch.nn.functional.interpolate (version 1.13) on squares.
var resizeTorch = []struct {
	mode, coordinates, nearest string
	h, w                       int
	want                       []float64
}{
	{"linear", "half_pixel", "", 5, 7,
		[]float64{0.0, 0.3571428571428571, 0.9285714285714285, 2.5, 4.357142857142856, 7.2142857142857135, 9.0, 6.4,
			7.9, 10.3, 13.7, 17.385714285714283, 22.071428571428573, 25.0, 16.0, 19.214285714285715, 24.357142857142854,
			30.5, 36.92857142857142, 44.357142857142854, 49.0, 44.8, 49.72857142857143, 57.6142857142857, 66.5,
			75.67142857142856, 85.84285714285713, 92.2, 64.0, 70.07142857142857, 79.78571428571428, 90.5, 101.5,
			113.5, 121.0}},
	{"linear", "align_corners", "", 5, 7,
		[]float64{0.0, 0.5, 1.0, 2.5, 4.0, 6.5, 9.0, 8.0, 10.5, 13.0, 16.5, 20.0, 24.5, 29.0, 16.0, 20.5, 25.0, 30.5,
			36.0, 42.5, 49.0, 40.0, 46.5, 53.0, 60.5, 68.0, 76.5, 85.0, 64.0, 72.5, 81.0, 90.5, 100.0, 110.5, 121.0}},
	{"linear", "pytorch_half_pixel", "", 2, 3, []float64{4.5, 9.5, 17.833333333333332, 54.5, 75.5, 99.83333333333333}},
	{"cubic", "half_pixel", "", 5, 7,
		[]float64{-1.5590182215743447, -1.5942106413994188, -1.420373906705542, -0.563, 1.2732368804664655,
			3.8552368804664645, 5.579884110787168, 2.401964285714251, 3.6141829446063714, 5.822795189504325, 8.669,
			12.494067784256497, 17.11084329446057, 20.082901603498488, 15.10705174927113, 18.390215014577244,
			23.9769497084548, 30.125, 37.251913265306115, 45.24681122448978, 50.289814139941726, 45.09213921282793,
			50.44624708454803, 59.411104227405175, 68.861, 79.28975874635563, 90.66277915451884, 97.77672667638484,
			66.84512172011661, 73.4466406705539, 84.44627332361516, 95.885, 108.3025896501458, 121.71038556851312,
			130.07174416909635}},
	{"cubic", "align_corners", "", 5, 7,
		[]float64{0.0, 0.21875, 1.0, 2.125, 4.0, 6.78125, 9.0, 3.5, 5.0390625, 7.75, 10.5, 14.0, 18.7109375, 22.25,
			16.0, 19.46875, 25.0, 30.125, 36.0, 43.53125, 49.0, 41.5, 46.8984375, 55.25, 62.75, 71.0, 81.3515625, 88.75,
			64.0, 70.71875, 81.0, 90.125, 100.0, 112.28125, 121.0}},
	{"nearest", "asymmetric", "floor", 5, 7,
		[]float64{0, 0, 1, 1, 4, 4, 9, 0, 0, 1, 1, 4, 4, 9, 16, 16, 25, 25, 36, 36, 49, 16, 16, 25, 25, 36, 36, 49, 64,
			64, 81, 81, 100, 100, 121}},
	{"nearest", "asymmetric", "floor", 2, 3, []float64{0, 1, 4, 16, 25, 36}},
	{"nearest", "half_pixel", "round_prefer_ceil", 5, 7,
		[]float64{0, 0, 1, 4, 4, 9, 9, 0, 0, 1, 4, 4, 9, 9, 16, 16, 25, 36, 36, 49, 49, 64, 64, 81, 100, 100, 121, 121,
			64, 64, 81, 100, 100, 121, 121}},
	{"nearest", "half_pixel", "round_prefer_ceil", 2, 3, []float64{0, 4, 9, 64, 100, 121}},
}

// resizeCase is a Resize to the given sizes, or by scales where sizes are nil.
func resizeCase(
	name string, x *executor.Tensor, scales []float32, sizes []int64, want *executor.Tensor, attrs ...graph.Attr,
) Case {
	c := Case{Name: name, Kind: op.Resize, Attrs: attrs, In: []*executor.Tensor{x, nil, nil, nil},
		Out:  []graph.DType{x.DType},
		Want: []*executor.Tensor{want}, Tol: max(1e-5, convTol(x.DType))}
	if scales != nil {
		c.In[2] = executor.NewTensor(graph.Float32, []int{len(scales)}, scales...)
	}
	if sizes != nil {
		c.In[3] = executor.NewTensor(graph.Int64, []int{len(sizes)}, sizes...)
	}
	return c
}

func resizeCases() []Case {
	var cases []Case
	for i, r := range resizeTorch {
		attrs := []graph.Attr{Attr("mode", r.mode), Attr("coordinate_transformation_mode", r.coordinates)}
		if r.nearest != "" {
			attrs = append(attrs, Attr("nearest_mode", r.nearest))
		}
		for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16} {
			name := fmt.Sprintf("as torch %d, %s, %s, %v", i, r.mode, r.coordinates, d)
			cases = append(cases,
				resizeCase(name, squares(d), nil, []int64{1, 1, int64(r.h), int64(r.w)},
					convTensor(d, []int{1, 1, r.h, r.w}, r.want), attrs...))
		}
	}
	cases = append(cases, resizeByHand()...)
	cases = append(cases, resizeLarge()...)
	cases = append(cases, resizeDialects()...)
	cases = append(cases, resizeGradCases()...)
	return append(cases, resizeFaults()...)
}

// resizeByHand has rows small enough to see through.
func resizeByHand() []Case {
	row := func(v ...float64) *executor.Tensor { return convTensor(graph.Float32, []int{len(v)}, v) }
	mode := func(m, c string, more ...graph.Attr) []graph.Attr {
		return append([]graph.Attr{Attr("mode", m), Attr("coordinate_transformation_mode", c)}, more...)
	}
	yes := int64(1)
	crop := resizeCase("crop", row(0, 1, 2, 3, 4, 5), nil, []int64{4}, row(-7, 0.5, 2.5, 4.5),
		mode("linear", "tf_crop_and_resize", Attr("extrapolation_value", float32(-7)))...)
	// From -0.3 to 0.9 of 5: at -1.5, 0.5, 2.5, 4.5.
	crop.In[1] = executor.NewTensor[float32](graph.Float32, []int{2}, -0.3, 0.9)
	near := resizeCase("crop, nearest", row(0, 1, 2, 3, 4, 5), nil, []int64{4}, row(-7, 1, 3, 5),
		mode("nearest", "tf_crop_and_resize", Attr("extrapolation_value", float32(-7)),
			Attr("nearest_mode", "ceil"))...)
	near.In[1] = crop.In[1]
	x := row(1, 2, 3, 4)
	aspect := convTensor(graph.Float32, []int{2, 4}, []float64{1, 2, 3, 4, 5, 6, 7, 8})
	bytes := convTensor(graph.Uint8, []int{2}, []float64{10, 21})
	return []Case{
		crop, near,
		// x+0.5 twice as dense: at -0.25, 0.25, 0.75…; weights 3/4 and 1/4.
		resizeCase("half_pixel", row(0, 4, 8), []float32{2}, nil, row(0, 1, 3, 5, 7, 8),
			mode("linear", "half_pixel")...),
		resizeCase("asymmetric", row(0, 4, 8), []float32{2}, nil, row(0, 2, 4, 6, 8, 8),
			mode("linear", "asymmetric")...),
		// Length 2 of 4*0.6 = 2.4: both ends lose 0.2/0.6; at 0.6667 and 2.3333.
		resizeCase("half_pixel_symmetric", x, []float32{0.6}, nil, row(5./3, 10./3),
			mode("linear", "half_pixel_symmetric")...),
		resizeCase("one element", x, nil, []int64{1}, row(1), mode("linear", "pytorch_half_pixel")...),
		// At 0.5, 1, 1.5… plus 0.25 each.
		resizeCase("tf_half_pixel_for_nn", row(1, 2), nil, []int64{4}, row(1, 1, 2, 2),
			mode("nearest", "tf_half_pixel_for_nn", Attr("nearest_mode", "floor"))...),
		// At 0, 0.5, 1, 1.5.
		resizeCase("round_prefer_floor", row(1, 2), []float32{2}, nil, row(1, 1, 2, 2),
			mode("nearest", "asymmetric", Attr("nearest_mode", "round_prefer_floor"))...),
		resizeCase("round_prefer_ceil", row(1, 2), []float32{2}, nil, row(1, 2, 2, 2),
			mode("nearest", "asymmetric", Attr("nearest_mode", "round_prefer_ceil"))...),
		resizeCase("ceil", row(1, 2), []float32{2}, nil, row(1, 2, 2, 2),
			mode("nearest", "asymmetric", Attr("nearest_mode", "ceil"))...),
		resizeCase("floor", row(1, 2), []float32{2}, nil, row(1, 1, 2, 2),
			mode("nearest", "asymmetric", Attr("nearest_mode", "floor"))...),
		// Half as many: a triangle of width 4 around 0.5 and 2.5, weights 1/8 3/8 3/8 1/8.
		resizeCase("antialias", x, []float32{0.5}, nil, row((1+3*1+3*2+3)/8., (2+3*3+3*4+4)/8.),
			mode("linear", "half_pixel", Attr("antialias", yes))...),
		resizeCase("antialias, exclude_outside", x, []float32{0.5}, nil, row((3*1+3*2+3)/7., (2+3*3+3*4)/7.),
			mode("linear", "half_pixel", Attr("antialias", yes), Attr("exclude_outside", yes))...),
		resizeCase("antialias does not concern larger ones", row(0, 4, 8), []float32{2}, nil, row(0, 1, 3, 5, 7, 8),
			mode("linear", "half_pixel", Attr("antialias", yes))...),
		// At 0.5 with a = -0.5: -1/16, 9/16, 9/16, -1/16 without the outside ones, of 0.5 + 0.5.
		resizeCase("cubic, exclude_outside", row(2, 6), nil, []int64{1}, row(4),
			mode("cubic", "half_pixel", Attr("cubic_coeff_a", float32(-0.5)), Attr("exclude_outside", yes))...),
		resizeCase("axes", aspect, []float32{0.5}, nil,
			convTensor(graph.Float32, []int{2, 2}, []float64{1.5, 3.5, 5.5, 7.5}),
			mode("linear", "half_pixel", Attr("axes", []int64{-1}))...),
		resizeCase("not_larger", aspect, nil, []int64{2, 2},
			convTensor(graph.Float32, []int{1, 2}, []float64{3.5, 5.5}),
			mode("linear", "half_pixel", Attr("axes", []int64{0, 1}),
				Attr("keep_aspect_ratio_policy", "not_larger"))...),
		resizeCase("not_smaller", aspect, nil, []int64{1, 4}, aspect,
			mode("linear", "half_pixel", Attr("keep_aspect_ratio_policy", "not_smaller"))...),
		resizeCase("integers", bytes, nil, []int64{4}, convTensor(graph.Uint8, []int{4}, []float64{10, 13, 18, 21}),
			mode("linear", "half_pixel")...),
		resizeCase("nearest integers",
			bytes, nil, []int64{4}, convTensor(graph.Uint8, []int{4}, []float64{10, 10, 21, 21}),
			Attr("mode", "nearest")),
		resizeCase("nothing to do", x, []float32{1}, nil, x, mode("cubic", "half_pixel")...),
		resizeCase("scalar", convTensor(graph.Float32, nil, []float64{3}), nil, nil,
			convTensor(graph.Float32, nil, []float64{3}), mode("nearest", "half_pixel")...),
		resizeCase("no rows", convTensor(graph.Float32, []int{0, 2}, nil), nil, []int64{0, 3},
			convTensor(graph.Float32, []int{0, 3}, nil), mode("linear", "half_pixel")...),
		resizeCase("to nothing", x, []float32{0.1}, nil, row(), mode("nearest", "half_pixel")...),
	}
}

// resizeLarge compares with the formula element by element.
func resizeLarge() []Case {
	x := convRandom(graph.Float32, 12, 3, 5, 37, 41)
	v := convNumbers(x)
	var cases []Case
	for _, to := range [][2]int{{74, 90}, {20, 64}, {37, 10}} {
		linear, nearest := make([]float64, 15*to[0]*to[1]), make([]float64, 15*to[0]*to[1])
		for i := range linear {
			p, h, w := i/(to[0]*to[1]), i/to[1]%to[0], i%to[1]
			y := min(max((float64(h)+0.5)*37/float64(to[0])-0.5, 0), 36)
			z := min(max((float64(w)+0.5)*41/float64(to[1])-0.5, 0), 40)
			at := func(a, b float64) float64 { return v[(p*37+int(min(a, 36)))*41+int(min(b, 40))] }
			fy, fz := y-math.Floor(y), z-math.Floor(z)
			y0, z0 := math.Floor(y), math.Floor(z)
			linear[i] = (1-fy)*((1-fz)*at(y0, z0)+fz*at(y0, z0+1)) + fy*((1-fz)*at(y0+1, z0)+fz*at(y0+1, z0+1))
			nearest[i] = at(math.Ceil(y-0.5), math.Ceil(z-0.5))
		}
		sizes, shape := []int64{3, 5, int64(to[0]), int64(to[1])}, []int{3, 5, to[0], to[1]}
		c := resizeCase(fmt.Sprint("linear to ", to), x, nil, sizes, convTensor(graph.Float32, shape, linear),
			Attr("mode", "linear"))
		c.Tol = 1e-4 // the coordinates are computed in float32
		cases = append(cases, c,
			resizeCase(fmt.Sprint("nearest to ", to), x, nil, sizes, convTensor(graph.Float32, shape, nearest),
				Attr("mode", "nearest")))
	}
	return cases
}

// resizeDialects are of the versions before 11.
func resizeDialects() []Case {
	x := convTensor(graph.Float32, []int{1, 4}, []float64{1, 2, 3, 4})
	f := []graph.DType{graph.Float32}
	list := func(v ...float32) *executor.Tensor { return executor.NewTensor(graph.Float32, []int{len(v)}, v...) }
	twice := convTensor(graph.Float32, []int{2, 8}, []float64{1, 1, 2, 2, 3, 3, 4, 4, 1, 1, 2, 2, 3, 3, 4, 4})
	slopes := convTensor(graph.Float32, []int{1, 8}, []float64{1, 1.5, 2, 2.5, 3, 3.5, 4, 4})
	wrong := Case{Name: "scales for another rank", Kind: op.Upsample, Opset: 9, In: []*executor.Tensor{x, list(2)},
		Out: f, Fails: "1 scales are given for 2 axes"}
	return []Case{
		{Name: "opset 7", Kind: op.Upsample, Opset: 7, Attrs: []graph.Attr{Attr("scales", []float32{2, 2})},
			In: []*executor.Tensor{x}, Out: f, Want: []*executor.Tensor{twice}},
		{Name: "opset 9", Kind: op.Upsample, Opset: 9, In: []*executor.Tensor{x, list(2, 2)}, Out: f,
			Want: []*executor.Tensor{twice}},
		{Name: "opset 9 linear", Kind: op.Upsample, Opset: 9, Attrs: []graph.Attr{Attr("mode", "linear")},
			In: []*executor.Tensor{x, list(1, 2)}, Out: f, Want: []*executor.Tensor{slopes}},
		{Name: "opset 10", Kind: op.Resize, Opset: 10, In: []*executor.Tensor{x, list(2, 2)}, Out: f,
			Want: []*executor.Tensor{twice}},
		{Name: "opset 10 smaller", Kind: op.Resize, Opset: 10, In: []*executor.Tensor{x, list(1, 0.6)}, Out: f,
			Want: []*executor.Tensor{convTensor(graph.Float32, []int{1, 2}, []float64{1, 3})}},
		{Name: "opset 10 linear", Kind: op.Resize, Opset: 10, Attrs: []graph.Attr{Attr("mode", "linear")},
			In: []*executor.Tensor{x, list(1, 2)}, Out: f, Want: []*executor.Tensor{slopes}},
		wrong,
	}
}

// resizeGradCases are from torch's gradients of interpolate, the gradient of the output being
// -1, -3/4, -1/2….
func resizeGradCases() []Case {
	var cases []Case
	for _, r := range []struct {
		coordinates string
		h, w        int
		want        []float64
	}{
		{"half_pixel", 5, 7,
			[]float64{-0.6285714285714287, 0.5035714285714288, 1.8178571428571435, 2.857142857142857, 8.067857142857143,
				9.707142857142857, 11.185714285714289, 11.989285714285714, 14.971428571428572, 16.753571428571426,
				18.067857142857143, 18.45714285714285}},
		{"align_corners", 2, 3, []float64{-1, -0.375, -0.375, -0.5, 0, 0, 0, 0, -0.25, 0, 0, 0.25}},
	} {
		dy := make([]float64, r.h*r.w)
		for i := range dy {
			dy[i] = float64(i)/4 - 1
		}
		for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16} {
			scales := executor.NewTensor(graph.Float32, []int{4}, 1, 1, float32(r.h)/3, float32(r.w)/4)
			c := Case{Name: fmt.Sprintf("%s, %v", r.coordinates, d), Kind: op.ResizeGrad,
				Attrs: []graph.Attr{Attr("mode", "linear"), Attr("coordinate_transformation_mode", r.coordinates)},
				In:    []*executor.Tensor{convTensor(d, []int{1, 1, r.h, r.w}, dy), squares(d), nil, scales},
				Out:   []graph.DType{d},
				Want:  []*executor.Tensor{convTensor(d, []int{1, 1, 3, 4}, r.want)}, Tol: max(1e-5, convTol(d))}
			bare := c
			bare.Name, bare.In = c.Name+", without scales", c.In[:2]
			cases = append(cases, c, bare)
		}
	}
	dy := convTensor(graph.Float32, []int{4}, []float64{1, 2, 3, 4})
	x := convTensor(graph.Float32, []int{2}, []float64{0, 0})
	nearest := Case{Name: "nearest", Kind: op.ResizeGrad, Attrs: []graph.Attr{Attr("mode", "nearest")},
		In: []*executor.Tensor{dy, x}, Out: []graph.DType{graph.Float32},
		Want: []*executor.Tensor{convTensor(graph.Float32, []int{2}, []float64{3, 7})}}
	rank := nearest
	rank.Name, rank.In, rank.Want, rank.Fails = "ranks", []*executor.Tensor{squares(graph.Float32), x}, nil, "rank"
	return append(cases, nearest, rank)
}

func resizeFaults() []Case {
	x := squares(graph.Float32)
	fault := func(name, text string, scales []float32, sizes []int64, attrs ...graph.Attr) Case {
		c := resizeCase(name, x, scales, sizes, nil, attrs...)
		c.Fails, c.Want = text, nil
		return c
	}
	empty := resizeCase("empty axis", convTensor(graph.Float32, []int{0}, nil), nil, []int64{2}, nil)
	empty.Fails, empty.Want = "is empty", nil
	return []Case{
		empty,
		fault("mode", "attribute mode", nil, []int64{1, 1, 2, 2}, Attr("mode", "lanczos")),
		fault("coordinates", "coordinate_transformation_mode", nil, []int64{1, 1, 2, 2},
			Attr("coordinate_transformation_mode", "centre")),
		fault("nothing given", "neither scales nor sizes", nil, nil),
		fault("scale 0", "wanted a positive number", []float32{1, 1, 0, 1}, nil),
		fault("few sizes", "wanted 4 int64s", nil, []int64{2, 2}),
		fault("negative size", "size 3 is -1", nil, []int64{1, 1, 2, -1}),
		fault("axis", "attribute axes has 4", nil, []int64{2}, Attr("axes", []int64{4})),
		fault("axis twice", "twice", nil, []int64{2, 2}, Attr("axes", []int64{3, -1})),
		fault("no region", "roi", nil, []int64{1, 1, 2, 2},
			Attr("coordinate_transformation_mode", "tf_crop_and_resize")),
	}
}
