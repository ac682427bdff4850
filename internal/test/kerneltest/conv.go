package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
)

func init() { register(convCases) }

// convValues returns n numbers from -2 to 2 that are multiples of 1/8: their products and sums are
// exact in float32, and they are exact in 16 bits.
func convValues(n, seed int) []float64 {
	v, s := make([]float64, n), uint32(seed)*2654435761+1
	for i := range v {
		s = s*1664525 + 1013904223
		v[i] = float64(s>>16%33)/8 - 2
	}
	return v
}

// convTensor makes a tensor of any numeric type.
func convTensor(d graph.DType, shape []int, v []float64) *executor.Tensor {
	n := 1
	for _, dim := range shape {
		n *= dim
	}
	t := &executor.Tensor{DType: d, Shape: shape, Data: executor.Memory(make([]float64, n))[:n*d.Bits()/8]}
	for i := range n {
		switch d {
		case graph.Float32:
			executor.Of[float32](t)[i] = float32(v[i])
		case graph.Float64:
			executor.Of[float64](t)[i] = v[i]
		case graph.Float16:
			executor.Of[half.Float16](t)[i] = half.Float16From(float32(v[i]))
		case graph.BFloat16:
			executor.Of[half.BFloat16](t)[i] = half.BFloat16From(float32(v[i]))
		case graph.Int32:
			executor.Of[int32](t)[i] = int32(v[i])
		case graph.Int64:
			executor.Of[int64](t)[i] = int64(v[i])
		default: // 8 bits
			t.Data[i] = byte(int(v[i]))
		}
	}
	return t
}

func convRandom(d graph.DType, seed int, shape ...int) *executor.Tensor {
	n := 1
	for _, dim := range shape {
		n *= dim
	}
	return convTensor(d, shape, convValues(n, seed))
}

// convNumbers returns the elements of a float tensor.
func convNumbers(t *executor.Tensor) []float64 {
	v := make([]float64, t.Len())
	for i := range v {
		v[i], _ = Float(t, i)
	}
	return v
}

func convTol(d graph.DType) float64 {
	switch d {
	case graph.Float64:
		return 1e-12
	case graph.Float16:
		return 1e-3
	case graph.BFloat16:
		return 8e-3
	}
	return 1e-5
}

// convWindow is a window over up to three axes, with explicit pads; absent lists are ones and
// zeros.
type convWindow struct {
	kernel, stride, dilation, begin, end []int
	in, out                              [3]int
}

func convAt(list []int, rank, axis, def int) int {
	if i := axis - (3 - rank); i >= 0 && i < len(list) {
		return list[i]
	}
	return def
}

// over sets in and out for an input.
func (w convWindow) over(spatial []int) *convWindow {
	n := len(spatial)
	full := convWindow{kernel: make([]int, 3), stride: make([]int, 3), dilation: make([]int, 3), begin: make([]int, 3),
		end: make([]int, 3)}
	for a := range 3 {
		full.in[a] = convAt(spatial, n, a, 1)
		full.kernel[a], full.stride[a], full.dilation[a] = convAt(w.kernel, n, a, 1), convAt(w.stride, n, a, 1),
			convAt(w.dilation, n, a, 1)
		full.begin[a], full.end[a] = convAt(w.begin, n, a, 0), convAt(w.end, n, a, 0)
		full.out[a] = (full.in[a]+full.begin[a]+full.end[a]-(full.kernel[a]-1)*full.dilation[a]-1)/full.stride[a] + 1
		if w.out[a] > 0 {
			full.out[a] = w.out[a]
		}
	}
	return &full
}

// each calls f for every place o and tap k, with the element under it, or -1 in the padding.
func (w *convWindow) each(f func(o, k, i int)) {
	var at [3]int
	o := 0
	for od := range w.out[0] {
		for oh := range w.out[1] {
			for ow := range w.out[2] {
				k := 0
				for kd := range w.kernel[0] {
					for kh := range w.kernel[1] {
						for kw := range w.kernel[2] {
							i := 0
							for a, p := range [3][2]int{{od, kd}, {oh, kh}, {ow, kw}} {
								at[a] = p[0]*w.stride[a] - w.begin[a] + p[1]*w.dilation[a]
								if i = i*w.in[a] + at[a]; at[a] < 0 || at[a] >= w.in[a] {
									i = math.MinInt32
								}
							}
							f(o, k, max(i, -1))
							k++
						}
					}
				}
				o++
			}
		}
	}
}

func (w *convWindow) volume(a [3]int) int { return a[0] * a[1] * a[2] }

// attrs states the window as attributes.
func (w *convWindow) attrs(more ...graph.Attr) []graph.Attr {
	list := more
	add := func(name string, v ...int) {
		if len(v) == 0 {
			return
		}
		out := make([]int64, len(v))
		for i, n := range v {
			out[i] = int64(n)
		}
		list = append(list, Attr(name, out))
	}
	add("kernel_shape", w.kernel...)
	add("strides", w.stride...)
	add("dilations", w.dilation...)
	add("pads", append(append([]int{}, w.begin...), w.end...)...)
	return list
}

// convTerms calls f for every product of a convolution: its output, input and weight.
func convTerms(x, w []int, group int, win *convWindow, f func(y, x, w int)) {
	cg, mg := w[1], w[0]/group
	in, out, taps := win.volume(win.in), win.volume(win.out), 1
	for _, k := range w[2:] {
		taps *= k
	}
	var plane [][3]int // place, tap and element of the products of one plane
	win.each(func(o, k, i int) {
		if i >= 0 {
			plane = append(plane, [3]int{o, k, i})
		}
	})
	for n := range x[0] {
		for m := range w[0] {
			for c := range cg {
				toY, toX, toW := (n*w[0]+m)*out, (n*x[1]+m/mg*cg+c)*in, (m*cg+c)*taps
				for _, p := range plane {
					f(toY+p[0], toX+p[2], toW+p[1])
				}
			}
		}
	}
}

// convShape is the shape of the output.
func convShape(x, w []int, win *convWindow) []int {
	shape := []int{x[0], w[0]}
	return append(shape, win.out[3-(len(x)-2):]...)
}

func (s *convSpec) groups() int { return max(s.group, 1) }

func (s *convSpec) attrs() []graph.Attr { return s.win.attrs(Attr("group", int64(s.groups()))) }

func (s *convSpec) kind() graph.DType {
	if s.dtype == graph.Undefined {
		return graph.Float32
	}
	return s.dtype
}

// window returns the window with the sizes of the weights.
func (s *convSpec) window() *convWindow {
	w := s.win
	w.kernel = s.w[2:]
	return w.over(s.x[2:])
}

// convCases are of Conv, FusedConv, ConvGrad and, in files of their own, their relatives.
func convCases() []Case {
	var cases []Case
	for i := range convSpecs {
		s := &convSpecs[i]
		cases = append(cases, s.forward(), s.fused(), s.backward(), s.transposed())
	}
	cases = append(cases, convAutoPads()...)
	return append(cases, convFaults()...)
}

func (s *convSpec) operands() (x, w, b *executor.Tensor) {
	d := s.kind()
	x, w = convRandom(d, 1, s.x...), convRandom(d, 2, s.w...)
	if s.bias {
		b = convRandom(d, 3, s.w[0])
	}
	return x, w, b
}

// result computes the convolution.
func (s *convSpec) result(x, w, b *executor.Tensor) ([]int, []float64) {
	win := s.window()
	shape := convShape(s.x, s.w, win)
	xs, ws := convNumbers(x), convNumbers(w)
	n := 1
	for _, d := range shape {
		n *= d
	}
	y := make([]float64, n)
	convTerms(s.x, s.w, s.groups(), win, func(yi, xi, wi int) { y[yi] += xs[xi] * ws[wi] })
	if b != nil {
		bs, plane := convNumbers(b), win.volume(win.out)
		for i := range y {
			y[i] += bs[i/plane%s.w[0]]
		}
	}
	return shape, y
}

func (s *convSpec) forward() Case {
	x, w, b := s.operands()
	shape, y := s.result(x, w, b)
	c := Case{Name: s.name, Kind: op.Conv, Attrs: s.attrs(), In: []*executor.Tensor{x, w}, Out: []graph.DType{s.kind()},
		Want: []*executor.Tensor{convTensor(s.kind(), shape, y)}, Tol: convTol(s.kind())}
	if b != nil {
		c.In = append(c.In, b)
	}
	return c
}

// fused adds a second summand and a Relu.
func (s *convSpec) fused() Case {
	x, w, b := s.operands()
	shape, y := s.result(x, w, b)
	z := convRandom(s.kind(), 4, shape...)
	for i, v := range convNumbers(z) {
		y[i] = max(0, y[i]+v)
	}
	return Case{Name: s.name, Kind: op.FusedConv, Attrs: append(s.attrs(), Attr("activation", "Relu")),
		In:  []*executor.Tensor{x, w, b, z},
		Out: []graph.DType{s.kind()}, Want: []*executor.Tensor{convTensor(s.kind(), shape, y)}, Tol: convTol(s.kind())}
}

// backward computes the gradients from the same products.
func (s *convSpec) backward() Case {
	d, win := s.kind(), s.window()
	x, w, _ := s.operands()
	dy := convRandom(d, 5, convShape(s.x, s.w, win)...)
	xs, ws, dys := convNumbers(x), convNumbers(w), convNumbers(dy)
	dx, dw, db := make([]float64, len(xs)), make([]float64, len(ws)), make([]float64, s.w[0])
	convTerms(s.x, s.w, s.groups(), win, func(yi, xi, wi int) {
		dx[xi] += dys[yi] * ws[wi]
		dw[wi] += dys[yi] * xs[xi]
	})
	for i, v := range dys {
		db[i/win.volume(win.out)%s.w[0]] += v
	}
	return Case{Name: s.name, Kind: op.ConvGrad, Attrs: s.attrs(), In: []*executor.Tensor{dy, x, w},
		Out:  []graph.DType{d, d, d},
		Want: []*executor.Tensor{convTensor(d, s.x, dx), convTensor(d, s.w, dw), convTensor(d, []int{s.w[0]}, db)},
		Tol:  convTol(d)}
}

// transposed is the case of the transposed convolution, which spreads the convolution's output over
// its input.
func (s *convSpec) transposed() Case {
	d, win := s.kind(), s.window()
	_, w, _ := s.operands()
	y := convRandom(d, 5, convShape(s.x, s.w, win)...)
	b := convRandom(d, 6, s.x[1])
	ys, ws, bs := convNumbers(y), convNumbers(w), convNumbers(b)
	n := s.x[0] * s.x[1] * win.volume(win.in)
	x := make([]float64, n)
	convTerms(s.x, s.w, s.groups(), win, func(yi, xi, wi int) { x[xi] += ys[yi] * ws[wi] })
	for i := range x {
		x[i] += bs[i/win.volume(win.in)%s.x[1]]
	}
	var extra []int64 // the places that the convolution's rounding left out
	for a := 3 - (len(s.x) - 2); a < 3; a++ {
		room := win.in[a] + win.begin[a] + win.end[a] - (win.kernel[a]-1)*win.dilation[a] - 1
		extra = append(extra, int64(room%win.stride[a]))
	}
	return Case{Name: s.name, Kind: op.ConvTranspose, Attrs: append(s.attrs(), Attr("output_padding", extra)),
		In:  []*executor.Tensor{y, w, b},
		Out: []graph.DType{d}, Want: []*executor.Tensor{convTensor(d, s.x, x)}, Tol: convTol(d)}
}

// convAutoPads have the pads that auto_pad stands for, beside the attribute.
func convAutoPads() []Case {
	var cases []Case
	pads := map[string][2][]int{
		"SAME_UPPER": {{0, 1}, {1, 1}}, "SAME_LOWER": {{1, 1}, {0, 1}}, "VALID": {{0, 0}, {0, 0}},
	}
	for _, mode := range []string{"SAME_UPPER", "SAME_LOWER", "VALID"} {
		s := convSpec{name: "auto_pad " + mode, x: []int{1, 2, 6, 7}, w: []int{2, 2, 3, 3},
			win: convWindow{stride: []int{2, 2}, begin: pads[mode][0], end: pads[mode][1]}}
		c := s.forward()
		c.Attrs = []graph.Attr{Attr("auto_pad", mode), Attr("strides", []int64{2, 2})}
		cases = append(cases, c)
		if mode == "VALID" {
			continue
		}
		// The transposed convolution's output is stride times its input.
		s.x = []int{1, 2, 6, 8}
		s.win.begin, s.win.end = []int{0, 0}, []int{1, 1}
		if mode == "SAME_LOWER" {
			s.win.begin, s.win.end = []int{1, 1}, []int{0, 0}
		}
		c = s.transposed()
		c.Attrs = []graph.Attr{Attr("auto_pad", mode), Attr("strides", []int64{2, 2})}
		cases = append(cases, c)
		c.Name, c.Attrs = fmt.Sprintf("output_shape, %s", mode), []graph.Attr{Attr("auto_pad", mode),
			Attr("strides", []int64{2, 2}), Attr("output_shape", []int64{6, 8})}
		cases = append(cases, c)
	}
	return cases
}
