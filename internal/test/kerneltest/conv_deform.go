package kerneltest

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(deformCases) }

// deformSpec is a DeformConv.
type deformSpec struct {
	s       convSpec
	offsets int
	mask    bool
}

// deformCases interpolate element by element.
func deformCases() []Case {
	pads := convWindow{begin: []int{1, 1}, end: []int{1, 1}}
	var cases []Case
	for _, d := range []deformSpec{
		{convSpec{name: "plain", x: []int{2, 2, 5, 6}, w: []int{3, 2, 3, 3}, win: pads}, 1, false},
		{convSpec{name: "mask and bias", x: []int{1, 4, 6, 5}, w: []int{2, 4, 3, 3},
			win:  convWindow{stride: []int{2, 1}, dilation: []int{1, 2}, begin: []int{1, 2}, end: []int{1, 2}},
			bias: true}, 2, true},
		{convSpec{name: "groups", x: []int{2, 4, 5, 5}, w: []int{6, 2, 2, 2}, group: 2, bias: true}, 4, true},
		{convSpec{name: "depthwise", x: []int{1, 2, 5, 5}, w: []int{2, 1, 2, 2}, group: 2}, 1, true},
		{convSpec{name: "float64", x: []int{1, 2, 5, 5}, w: []int{2, 2, 2, 2}, dtype: graph.Float64}, 1, true},
		{convSpec{name: "float16", x: []int{1, 2, 5, 5}, w: []int{2, 2, 2, 2}, dtype: graph.Float16}, 1, true},
		{convSpec{name: "many tiles", x: []int{2, 3, 24, 25}, w: []int{2, 3, 3, 3}, win: pads, bias: true}, 1, true},
	} {
		cases = append(cases, d.forward())
	}
	x, w := convRandom(graph.Float32, 1, 1, 2, 5, 5), convRandom(graph.Float32, 2, 2, 2, 2, 2)
	fault := func(name, text string, attrs []graph.Attr, in ...*executor.Tensor) Case {
		return Case{Name: name, Kind: op.DeformConv, Attrs: attrs, In: in, Out: []graph.DType{graph.Float32},
			Fails: text}
	}
	offset := convRandom(graph.Float32, 3, 1, 8, 4, 4)
	return append(cases,
		fault("offset", "input 2 has shape", nil, x, w, convRandom(graph.Float32, 3, 1, 6, 4, 4)),
		fault("mask", "input 4 has shape", nil, x, w, offset, nil, offset),
		fault("offset_group", "does not divide", []graph.Attr{Attr("offset_group", int64(3))}, x, w, offset),
		fault("3-D", "rank 5", nil, convRandom(graph.Float32, 1, 1, 2, 5, 5, 5), w, offset))
}

func (d *deformSpec) forward() Case {
	s, kind := &d.s, d.s.kind()
	win := s.window()
	x, w, b := s.operands()
	taps, places := win.kernel[1]*win.kernel[2], win.volume(win.out)
	out := []int{win.out[1], win.out[2]}
	offset := convRandom(kind, 15, append([]int{s.x[0], d.offsets * taps * 2}, out...)...)
	c := Case{Name: s.name, Kind: op.DeformConv, Attrs: append(s.attrs(), Attr("offset_group", int64(d.offsets))),
		In:  []*executor.Tensor{x, w, offset, b},
		Out: []graph.DType{kind}, Tol: convTol(kind)}
	masks := make([]float64, s.x[0]*d.offsets*taps*places)
	for i := range masks {
		masks[i] = 1
	}
	if d.mask {
		mask := convRandom(kind, 16, append([]int{s.x[0], d.offsets * taps}, out...)...)
		masks = convNumbers(mask)
		c.In = append(c.In, mask)
	}
	xs, ws, offsets := convNumbers(x), convNumbers(w), convNumbers(offset)
	shape := convShape(s.x, s.w, win)
	y := make([]float64, s.x[0]*s.w[0]*places)
	cg, mg := s.w[1], s.w[0]/s.groups()
	for i := range y {
		n, m, o := i/(s.w[0]*places), i/places%s.w[0], i%places
		for q := range cg * taps {
			ch, k := m/mg*cg+q/taps, q%taps
			plane := (n*d.offsets+ch/(s.x[1]/d.offsets))*taps + k
			h := float64(o/out[1]*win.stride[1]-win.begin[1]+k/win.kernel[2]*win.dilation[1]) +
				offsets[2*plane*places+o]
			v := float64(o%out[1]*win.stride[2]-win.begin[2]+k%win.kernel[2]*win.dilation[2]) +
				offsets[(2*plane+1)*places+o]
			sum := 0.0
			for a := range s.x[2] {
				for e := range s.x[3] {
					near := max(0, 1-math.Abs(h-float64(a))) * max(0, 1-math.Abs(v-float64(e)))
					sum += near * xs[((n*s.x[1]+ch)*s.x[2]+a)*s.x[3]+e]
				}
			}
			y[i] += sum * masks[plane*places+o] * ws[(m*cg+q/taps)*taps+k]
		}
		if b != nil {
			y[i] += convNumbers(b)[m]
		}
	}
	c.Want = []*executor.Tensor{convTensor(kind, shape, y)}
	return c
}
