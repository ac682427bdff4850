package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(poolCases) }

// poolSpec is a pool to be tested.
type poolSpec struct {
	name  string
	x     []int
	win   convWindow
	attrs []graph.Attr // besides those of the window
	opset int
	dtype graph.DType
}

var poolSpecs = []poolSpec{
	{name: "1-D", x: []int{2, 3, 9},
		win: convWindow{kernel: []int{3}, stride: []int{2}, begin: []int{1}, end: []int{1}}},
	{name: "2-D", x: []int{2, 3, 6, 7}, win: convWindow{kernel: []int{2, 2}}},
	{name: "2-D stride 2 pads", x: []int{2, 3, 12, 11},
		win: convWindow{kernel: []int{3, 3}, stride: []int{2, 2}, begin: []int{1, 1}, end: []int{1, 1}}},
	{name: "2-D stride 3", x: []int{1, 2, 12, 11},
		win: convWindow{kernel: []int{3, 2}, stride: []int{3, 3}, begin: []int{1, 0}, end: []int{0, 1}}},
	{name: "dilations", x: []int{1, 2, 9, 10},
		win: convWindow{kernel: []int{3, 2}, dilation: []int{2, 3}, begin: []int{2, 1}, end: []int{1, 2}}},
	{name: "3-D", x: []int{1, 2, 4, 5, 6},
		win: convWindow{kernel: []int{2, 3, 2}, stride: []int{1, 2, 2}, begin: []int{1, 1, 0}, end: []int{0, 1, 1}}},
	{name: "ceil", x: []int{1, 2, 6, 8},
		win:   convWindow{kernel: []int{3, 3}, stride: []int{2, 2}, out: [3]int{1, 3, 4}},
		attrs: []graph.Attr{Attr("ceil_mode", int64(1))}},
	{name: "ceil, window in the padding", x: []int{1, 2, 4, 5},
		win: convWindow{kernel: []int{1, 2}, stride: []int{3, 3}, begin: []int{0, 1}, end: []int{1, 2},
			out: [3]int{1, 2, 2}},
		attrs: []graph.Attr{Attr("ceil_mode", int64(1))}},
	{name: "many rows", x: []int{2, 8, 41, 40},
		win: convWindow{kernel: []int{3, 3}, stride: []int{2, 2}, begin: []int{1, 1}, end: []int{1, 1}}},
	{name: "wide rows", x: []int{1, 2, 3, 2500},
		win: convWindow{kernel: []int{2, 3}, stride: []int{1, 3}, begin: []int{0, 1}, end: []int{0, 1}}},
	{name: "empty", x: []int{0, 3, 6, 7}, win: convWindow{kernel: []int{2, 2}}},
	{name: "opset 7", opset: 8, x: []int{2, 3, 6, 7}, win: convWindow{kernel: []int{2, 3}, stride: []int{1, 2}}},
	{name: "float64", x: []int{1, 2, 6, 7}, win: convWindow{kernel: []int{3, 3}, begin: []int{1, 1}, end: []int{1, 1}},
		dtype: graph.Float64},
	{name: "float16", x: []int{1, 2, 6, 7}, win: convWindow{kernel: []int{3, 3}, begin: []int{1, 1}, end: []int{1, 1}},
		dtype: graph.Float16},
	{name: "bfloat16", x: []int{1, 2, 6, 7}, win: convWindow{kernel: []int{3, 3}, begin: []int{1, 1}, end: []int{1, 1}},
		dtype: graph.BFloat16},
}

func (s *poolSpec) kind() graph.DType {
	if s.dtype == graph.Undefined {
		return graph.Float32
	}
	return s.dtype
}

// reduce folds the elements under each place; f gets -1 for padding.
func (s *poolSpec) reduce(v []float64, f func(y []float64, o, i int, v float64)) ([]int, []float64) {
	win := s.win.over(s.x[2:])
	in, out, planes := win.volume(win.in), win.volume(win.out), s.x[0]*s.x[1]
	y := make([]float64, planes*out)
	for p := range planes {
		win.each(func(o, _, i int) {
			if i < 0 {
				f(y, p*out+o, -1, 0)
			} else {
				f(y, p*out+o, p*in+i, v[p*in+i])
			}
		})
	}
	return append([]int{s.x[0], s.x[1]}, win.out[3-(len(s.x)-2):]...), y
}

// attributes without the dilations that not every version has.
func (s *poolSpec) attributes(more ...graph.Attr) []graph.Attr {
	return s.win.attrs(append(more, s.attrs...)...)
}

func poolCases() []Case {
	var cases []Case
	for i := range poolSpecs {
		s := &poolSpecs[i]
		cases = append(cases, s.max()...)
		cases = append(cases, s.average(false), s.average(true), s.lp(1), s.lp(2), s.lp(3))
	}
	first := poolSpecs[0]
	first.name, first.opset = "version 1", 1
	cases = append(cases, first.lp(1.5), first.lp(3))
	cases = append(cases, poolInts()...)
	return append(cases, poolFaults()...)
}

// max has MaxPool with and without indices, in both orders, and MaxPoolGrad.
func (s *poolSpec) max() []Case {
	d := s.kind()
	x := convRandom(d, 7, s.x...)
	index := map[int]int{}
	shape, y := s.reduce(convNumbers(x), func(y []float64, o, i int, v float64) {
		if i < 0 {
			return
		}
		if _, seen := index[o]; !seen || v > y[o] {
			y[o], index[o] = v, i
		}
	})
	size := 1
	for _, n := range s.x[2:] {
		size *= n
	}
	rows, columns := make([]float64, len(y)), make([]float64, len(y))
	dy := convRandom(d, 8, shape...)
	dx := make([]float64, x.Len())
	for o := range y {
		i := index[o]
		rows[o] = float64(i)
		// The same place, the spatial axes counted from the first.
		at, j, step := i%size, 0, size
		for a := len(s.x) - 1; a >= 2; a-- {
			step /= s.x[a]
			j += at % s.x[a] * step
			at /= s.x[a]
		}
		columns[o] = float64(i/size*size + j)
		dx[i] += convNumbers(dy)[o]
	}
	want := convTensor(d, shape, y)
	plain := Case{Name: s.name, Kind: op.MaxPool, Opset: s.opset, Attrs: s.attributes(), In: []*executor.Tensor{x},
		Out: []graph.DType{d}, Want: []*executor.Tensor{want}}
	both := plain
	both.Name += ", indices"
	both.Out, both.Want = []graph.DType{d, graph.Int64}, []*executor.Tensor{want, convTensor(graph.Int64, shape, rows)}
	other := plain
	other.Name += ", indices by columns"
	other.Attrs = s.attributes(Attr("storage_order", int64(1)))
	other.Out, other.Want = []graph.DType{graph.Undefined, graph.Int64},
		[]*executor.Tensor{nil, convTensor(graph.Int64, shape, columns)}
	if s.x[0] == 0 {
		return []Case{plain, both, other} // the size of X is not known
	}
	grad := Case{Name: s.name, Kind: op.MaxPoolGrad, Attrs: s.attributes(), In: []*executor.Tensor{dy, both.Want[1]},
		Out:  []graph.DType{d},
		Want: []*executor.Tensor{convTensor(d, s.x, dx)}, Tol: convTol(d)}
	byColumns := grad
	byColumns.Name += ", indices by columns"
	byColumns.Attrs, byColumns.In = other.Attrs, []*executor.Tensor{dy, other.Want[1]}
	return []Case{plain, both, other, grad, byColumns}
}

// average counts the elements, or with padding all that lie within the pads.
func (s *poolSpec) average(padding bool) Case {
	x := convRandom(s.kind(), 9, s.x...)
	win := s.win.over(s.x[2:])
	count := map[int]float64{}
	shape, y := s.reduce(convNumbers(x), func(y []float64, o, i int, v float64) {
		if i >= 0 {
			count[o]++
		}
		y[o] += v
	})
	if padding { // places of the window in a plane with its pads
		wide := *win
		for a := range 3 {
			wide.in[a] += win.begin[a] + win.end[a]
			wide.begin = []int{0, 0, 0}
		}
		count = map[int]float64{}
		wide.each(func(o, _, i int) {
			if i >= 0 {
				for p := range s.x[0] * s.x[1] {
					count[p*win.volume(win.out)+o]++
				}
			}
		})
	}
	for o := range y {
		y[o] /= max(count[o], 1)
	}
	c := Case{Name: fmt.Sprintf("%s, padding counts: %t", s.name, padding), Kind: op.AveragePool, Opset: s.opset,
		Attrs: s.attributes(),
		In:    []*executor.Tensor{x}, Out: []graph.DType{s.kind()},
		Want: []*executor.Tensor{convTensor(s.kind(), shape, y)}, Tol: convTol(s.kind())}
	if padding {
		c.Attrs = append(c.Attrs, Attr("count_include_pad", int64(1)))
	}
	return c
}

// lp is an LpPool: of version 1, whose order is a float, where the specification is.
func (s *poolSpec) lp(p float64) Case {
	x := convRandom(s.kind(), 10, s.x...)
	shape, y := s.reduce(convNumbers(x), func(y []float64, o, _ int, v float64) { y[o] += math.Pow(math.Abs(v), p) })
	for o := range y {
		y[o] = math.Pow(y[o], 1/p)
	}
	order := Attr("p", int64(p))
	if s.opset == 1 {
		order = Attr("p", float32(p))
	}
	return Case{Name: fmt.Sprintf("%s, p=%g", s.name, p), Kind: op.LpPool, Opset: s.opset, Attrs: s.attributes(order),
		In: []*executor.Tensor{x}, Out: []graph.DType{s.kind()},
		Want: []*executor.Tensor{convTensor(s.kind(), shape, y)}, Tol: convTol(s.kind())}
}

// poolInts have numbers small enough to see through.
func poolInts() []Case {
	attrs := []graph.Attr{Attr("kernel_shape", []int64{2, 2}), Attr("pads", []int64{1, 1, 0, 0})}
	v := []float64{-5, 3, 7, 1, -128, 127}
	u := executor.NewTensor[uint8](graph.Uint8, []int{1, 1, 2, 3}, 5, 0, 255, 3, 200, 7)
	i := convTensor(graph.Int8, []int{1, 1, 2, 3}, v)
	nan := float32(math.NaN())
	inf := float32(math.Inf(-1))
	f := executor.NewTensor(graph.Float32, []int{1, 1, 2, 3}, 1, nan, 2, inf, inf, inf)
	return []Case{
		{Name: "uint8", Kind: op.MaxPool, Attrs: attrs, In: []*executor.Tensor{u}, Out: []graph.DType{graph.Uint8},
			Want: []*executor.Tensor{
				executor.NewTensor[uint8](graph.Uint8, []int{1, 1, 2, 3}, 5, 5, 255, 5, 200, 255),
			}},
		{Name: "int8", Kind: op.MaxPool, Attrs: attrs, In: []*executor.Tensor{i}, Out: []graph.DType{graph.Int8},
			Want: []*executor.Tensor{convTensor(graph.Int8, []int{1, 1, 2, 3}, []float64{-5, 3, 7, 1, 3, 127})}},
		{Name: "NaN and infinities", Kind: op.MaxPool, Attrs: attrs, In: []*executor.Tensor{f},
			Out: []graph.DType{graph.Float32, graph.Int64},
			Want: []*executor.Tensor{executor.NewTensor(graph.Float32, []int{1, 1, 2, 3}, 1, nan, nan, 1, nan, nan),
				executor.NewTensor[int64](graph.Int64, []int{1, 1, 2, 3}, 0, 1, 1, 0, 1, 1)}},
		{Name: "NaN without indices", Kind: op.MaxPool, Attrs: attrs, In: []*executor.Tensor{f},
			Out:  []graph.DType{graph.Float32},
			Want: []*executor.Tensor{executor.NewTensor(graph.Float32, []int{1, 1, 2, 3}, 1, nan, nan, 1, nan, nan)}},
		{Name: "auto_pad", Kind: op.MaxPool,
			Attrs: []graph.Attr{Attr("kernel_shape", []int64{2, 2}), Attr("auto_pad", "SAME_UPPER")},
			In:    []*executor.Tensor{u},
			Out:   []graph.DType{graph.Uint8},
			Want: []*executor.Tensor{
				executor.NewTensor[uint8](graph.Uint8, []int{1, 1, 2, 3}, 200, 255, 255, 200, 200, 7),
			}},
		{Name: "a kernel far beyond the input", Kind: op.AveragePool,
			Attrs: []graph.Attr{Attr("kernel_shape", []int64{1, 1 << 30}),
				Attr("pads", []int64{0, 1 << 29, 0, 1 << 29})},
			In:   []*executor.Tensor{executor.NewTensor[float32](graph.Float32, []int{1, 1, 1, 2}, 1, 2)},
			Out:  []graph.DType{graph.Float32},
			Want: []*executor.Tensor{executor.NewTensor[float32](graph.Float32, []int{1, 1, 1, 3}, 1.5, 1.5, 1.5)}},
	}
}

// poolFaults are nodes that cannot run.
func poolFaults() []Case {
	x := convRandom(graph.Float32, 1, 1, 3, 5, 5)
	kernel := Attr("kernel_shape", []int64{2, 2})
	fault := func(name, text string, kind graph.Kind, attrs []graph.Attr, in ...*executor.Tensor) Case {
		return Case{Name: name, Kind: kind, Attrs: attrs, In: in, Out: []graph.DType{graph.Float32}, Fails: text}
	}
	var cases []Case
	for _, kind := range []graph.Kind{op.MaxPool, op.AveragePool, op.LpPool} {
		cases = append(cases,
			fault("no kernel", "kernel_shape is missing", kind, nil, x),
			fault("rank 2", "rank 2", kind, []graph.Attr{kernel}, convRandom(graph.Float32, 1, 3, 5)),
			fault("kernel of another rank", "wanted 2", kind, []graph.Attr{Attr("kernel_shape", []int64{2})}, x),
			fault("too small", "smaller than the kernel", kind, []graph.Attr{Attr("kernel_shape", []int64{6, 2})}, x))
	}
	many := executor.NewTensor[int64](graph.Int64, []int{1, 1, 2, 2}, 0, 1, 2, 99)
	return append(cases,
		fault("storage_order", "storage_order is 2",
			op.MaxPool, []graph.Attr{kernel, Attr("storage_order", int64(2))}, x),
		fault("p", "attribute p is 0", op.LpPool, []graph.Attr{kernel, Attr("p", int64(0))}, x),
		fault("empty planes", "planes are empty", op.GlobalMaxPool, nil, convRandom(graph.Float32, 1, 1, 2, 0)),
		fault("no such indices", "no input of a MaxPool", op.MaxPoolGrad, []graph.Attr{kernel},
			convRandom(graph.Float32, 1, 1, 1, 2, 2), many),
		fault("indices of another shape", "that of input 0", op.MaxPoolGrad, []graph.Attr{kernel}, x, many))
}
