package kerneltest

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(convIntegerCases) }

// convIntegerCases multiply integers less their zero points; padding counts as the zero point.
func convIntegerCases() []Case {
	var cases []Case
	pads := convWindow{begin: []int{1, 1}, end: []int{1, 1}}
	for _, c := range []struct {
		s              convSpec
		xType, wType   graph.DType
		xShift, wShift []float64 // zero points
	}{
		{convSpec{name: "uint8", x: []int{2, 3, 5, 6}, w: []int{4, 3, 3, 3}, win: pads}, graph.Uint8, graph.Uint8,
			[]float64{130}, []float64{7}},
		{convSpec{name: "int8", x: []int{1, 3, 5, 6}, w: []int{4, 3, 3, 3}, win: pads}, graph.Int8, graph.Int8,
			[]float64{-3}, []float64{-100, 0, 3, 127}},
		{convSpec{name: "mixed", x: []int{1, 4, 9}, w: []int{2, 2, 3}, group: 2}, graph.Uint8, graph.Int8, nil, nil},
		{convSpec{name: "many", x: []int{2, 5, 30, 31}, w: []int{4, 5, 3, 3}, win: pads}, graph.Uint8, graph.Int8,
			[]float64{255}, []float64{1}},
	} {
		s := &c.s
		whole := func(d graph.DType, seed int, shape []int) (*executor.Tensor, []float64) {
			v := convNumbers(convRandom(graph.Float64, seed, shape...))
			for i := range v {
				v[i] = v[i]*8*7 + 16 // -96 to 128
				if v[i] = min(v[i], 127); d == graph.Uint8 {
					v[i] += 96
				}
			}
			return convTensor(d, shape, v), v
		}
		x, xs := whole(c.xType, 21, s.x)
		w, ws := whole(c.wType, 22, s.w)
		shift := func(list []float64, i int) float64 {
			if len(list) == 0 {
				return 0
			}
			return list[i%len(list)]
		}
		win := s.window()
		shape := convShape(s.x, s.w, win)
		y := make([]float64, convSize(shape))
		perFilter := convSize(s.w[1:])
		convTerms(s.x, s.w, s.groups(), win, func(yi, xi, wi int) {
			y[yi] += (xs[xi] - shift(c.xShift, 0)) * (ws[wi] - shift(c.wShift, wi/perFilter))
		})
		in := []*executor.Tensor{x, w, nil, nil}
		if c.xShift != nil {
			in[2] = convTensor(c.xType, nil, c.xShift)
			in[3] = convTensor(c.wType, []int{len(c.wShift)}, c.wShift)
		}
		cases = append(cases,
			Case{Name: s.name, Kind: op.ConvInteger, Attrs: s.attrs(), In: in, Out: []graph.DType{graph.Int32},
				Want: []*executor.Tensor{convTensor(graph.Int32, shape, y)}})
	}
	bad := cases[0]
	bad.Name, bad.Want, bad.Fails = "zero points", nil, "w_zero_point"
	bad.In = append(bad.In[:3:3], convTensor(graph.Uint8, []int{3}, []float64{1, 2, 3}))
	return append(cases, bad)
}
