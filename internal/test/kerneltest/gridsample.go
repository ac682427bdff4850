package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(gridCases) }

// gridTorch is the result of torch.nn.functional.grid_sample (version 1.13) on the plane 3x4 of
// i*i/8 at gridPlaces.
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
	{"bicubic", "border", 0, []float64{-0.1904296875, 4.0067598125, 12.4976950625, 2.9870937500, 8, 0.7168887969}},
	{"bicubic", "border", 1, []float64{0, 3.7304300938, 10.9449522813, 3.8267240000, 8.0405, 0.3737667338}},
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
	for _, mode := range []string{"linear", "nearest", "cubic"} {
		for _, padding := range []string{"zeros", "border", "reflection"} {
			for align := range int64(2) {
				for _, dims := range [][]int{{5, 6}, {1, 3}, {3, 4, 2}} {
					shape := append([]int{2, 2}, dims...)
					x := convRandom(graph.Float64, len(dims), shape...)
					sampled := append([]int{2, 6, 7, 1}[:1+len(dims)], len(dims))
					places := convRandom(graph.Float64, 7+len(dims), sampled...)
					for i := range executor.Of[float64](places) {
						executor.Of[float64](places)[i] *= 1.7
					}
					out := append([]int{2, 2}, places.Shape[1:1+len(dims)]...)
					want := gridReference(x, places, mode, padding, align != 0)
					add(x, places, 20, mode, padding, align, out, want)
					if mode != "nearest" { // places that are rounded have other neighbours
						add(convTensor(graph.Float32, x.Shape, convNumbers(x)),
							convTensor(graph.Float32, places.Shape, convNumbers(places)),
							20, mode, padding, align, out, want)
					}
				}
			}
		}
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

// gridReference samples as PyTorch does: every tap is an element of the axes of length n, of an index
// that its padding maps on its own.
func gridReference(x, grid *executor.Tensor, mode, padding string, align bool) []float64 {
	rank := len(x.Shape) - 2
	plane, places := 1, 1
	for i := range rank {
		plane *= x.Shape[2+i]
		places *= grid.Shape[1+i]
	}
	elems, coordinates := executor.Of[float64](x), executor.Of[float64](grid)
	var out []float64
	for image := range x.Shape[0] {
		for channel := range x.Shape[1] {
			from := elems[(image*x.Shape[1]+channel)*plane:][:plane]
			for p := range places {
				at := coordinates[(image*places+p)*rank:][:rank]
				out = append(out, gridValue(from, x.Shape[2:], at, mode, padding, align))
			}
		}
	}
	return out
}

// gridValue is the sample at a place, whose coordinates begin with that of the last axis.
func gridValue(from []float64, dims []int, at []float64, mode, padding string, align bool) float64 {
	if len(dims) == 0 {
		return from[0]
	}
	n, inner := dims[0], len(from)/dims[0]
	g := at[len(dims)-1]
	x := ((g+1)*float64(n) - 1) / 2
	if align {
		x = (g + 1) / 2 * float64(n-1)
	}
	base, taps := math.Floor(x), map[float64]float64{}
	switch r := x - base; mode {
	case "nearest":
		taps[math.RoundToEven(x)] = 1
	case "linear":
		taps[base], taps[base+1] = 1-r, r
	case "cubic":
		for i := -1.; i <= 2; i++ {
			taps[base+i] = gridCubic(math.Abs(i - r))
		}
	}
	sum := 0.
	for i := base - 1; i <= base+2; i++ { // in order
		index, weight := gridIndex(i, n, padding, align), taps[i]
		if index >= 0 && weight != 0 {
			sum += weight * gridValue(from[index*inner:][:inner], dims[1:], at, mode, padding, align)
		}
	}
	return sum
}

// gridCubic is Keys' kernel with a = -3/4.
func gridCubic(d float64) float64 {
	if d <= 1 {
		return 1.25*d*d*d - 2.25*d*d + 1
	}
	return -0.75*d*d*d + 3.75*d*d - 6*d + 3
}

// gridIndex maps an index into an axis of length n, or returns -1: a border repeats, a mirror goes step
// by step. For example, -1 becomes 0 at a border.
func gridIndex(i float64, n int, padding string, align bool) int {
	switch padding {
	case "border":
		return int(min(max(i, 0), float64(n-1)))
	case "reflection":
		for n > 1 && (i < 0 || i > float64(n-1)) {
			switch last := float64(n - 1); {
			case align && i < 0:
				i = -i
			case align:
				i = 2*last - i
			case i < 0:
				i = -1 - i
			default:
				i = 2*last + 1 - i
			}
		}
		return int(min(max(i, 0), float64(n-1)))
	}
	if i < 0 || i > float64(n-1) {
		return -1
	}
	return int(i)
}
