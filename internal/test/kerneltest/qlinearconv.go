package kerneltest

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(qLinearConvCases) }

// qConvSetting is a case of QLinearConv in short: x [batch, channels, in...], kernel
// [outs, channels/group, kern...].
type qConvSetting struct {
	name               string
	x, w               []int
	strides, dilations []int64
	pads               []int64
	autoPad            string
	group              int
	types              [3]graph.DType
	perChannel, bias   bool
}

func (s qConvSetting) make() Case {
	n := len(s.x) - 2
	whole := func(d graph.DType, v []float64) []float64 {
		low, high := quantRange(d)
		for i := range v {
			v[i] = math.Trunc(low + (v[i]+2)/4*(high-low))
		}
		return v
	}
	x, w := whole(s.types[0], seqValues(seqCount(s.x), 1)), whole(s.types[1], seqValues(seqCount(s.w), 2))
	outs := s.w[0]
	scales := []float64{0.25}
	zeros := []float64{3}
	if s.perChannel {
		scales, zeros = make([]float64, outs), make([]float64, outs)
		for i := range scales {
			scales[i], zeros[i] = 0.125*float64(i+1), float64(i)
		}
	}
	const xScale, xZero, yScale, yZero = 0.5, 5, 512, 7
	bias := make([]float64, outs)
	if s.bias {
		for i := range bias {
			bias[i] = float64(100 * i)
		}
	}
	stride, dil, begin, shape := s.geometry(n)
	y := make([]float64, seqCount(shape))
	low, high := quantRange(s.types[2])
	for i := range y {
		place := seqPlace(i, shape)
		sum, m := bias[place[1]], place[1]
		for j := range seqCount(s.w[1:]) {
			tap := seqPlace(j, s.w[1:])
			from := []int{place[0], m/(outs/s.group)*s.w[1] + tap[0]}
			inside := true
			for k := range n {
				p := place[2+k]*stride[k] - begin[k] + tap[1+k]*dil[k]
				inside = inside && p >= 0 && p < s.x[2+k]
				from = append(from, p)
			}
			if inside {
				at := 0
				for k, p := range from {
					at = at*s.x[k] + p
				}
				sum += (x[at] - xZero) * (w[m*seqCount(s.w[1:])+j] - zeros[m%len(zeros)])
			}
		}
		// The products of scales are powers of two times small integers: exact.
		y[i] = min(max(math.RoundToEven(sum*xScale*scales[m%len(scales)]/yScale)+yZero, low), high)
	}
	one := func(d graph.DType, v float64) *executor.Tensor { return seqTensor(d, []int{}, []float64{v}) }
	c := Case{Name: s.name, Kind: op.QLinearConv, Out: []graph.DType{s.types[2]},
		Want: []*executor.Tensor{seqTensor(s.types[2], shape, y)},
		In: []*executor.Tensor{seqTensor(s.types[0], s.x, x), one(graph.Float32, xScale), one(s.types[0], xZero),
			seqTensor(s.types[1], s.w, w),
			seqTensor(graph.Float32, []int{len(scales)}, scales), seqTensor(s.types[1], []int{len(zeros)}, zeros),
			one(graph.Float32, yScale), one(s.types[2], yZero)}}
	if s.bias {
		c.In = append(c.In, seqTensor(graph.Int32, []int{outs}, bias))
	}
	for _, a := range []struct {
		name string
		v    []int64
	}{{"strides", s.strides}, {"dilations", s.dilations}, {"pads", s.pads}} {
		if a.v != nil {
			c.Attrs = append(c.Attrs, Attr(a.name, a.v))
		}
	}
	if s.autoPad != "" {
		c.Attrs = append(c.Attrs, Attr("auto_pad", s.autoPad))
	}
	c.Attrs = append(c.Attrs, Attr("group", int64(s.group)))
	return c
}

// geometry fills in defaults and returns the shape of y.
func (s *qConvSetting) geometry(n int) (stride, dil, begin, shape []int) {
	shape = []int{s.x[0], s.w[0]}
	for k := range n {
		st, di, pb, pe := 1, 1, 0, 0
		if s.strides != nil {
			st = int(s.strides[k])
		}
		if s.dilations != nil {
			di = int(s.dilations[k])
		}
		if s.pads != nil {
			pb, pe = int(s.pads[k]), int(s.pads[n+k])
		}
		extent := (s.w[2+k]-1)*di + 1
		if s.autoPad == "SAME_UPPER" || s.autoPad == "SAME_LOWER" {
			places := (s.x[2+k] + st - 1) / st
			total := max(0, (places-1)*st+extent-s.x[2+k])
			if pb, pe = total/2, total-total/2; s.autoPad == "SAME_LOWER" {
				pb, pe = pe, pb
			}
		}
		stride, dil, begin = append(stride, st), append(dil, di), append(begin, pb)
		shape = append(shape, (s.x[2+k]+pb+pe-extent)/st+1)
	}
	return stride, dil, begin, shape
}

// seqPlace returns the indices of element i.
func seqPlace(i int, shape []int) []int {
	place := make([]int, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		place[k] = i % shape[k]
		i /= shape[k]
	}
	return place
}

func qLinearConvCases() []Case {
	u, i := graph.Uint8, graph.Int8
	base := qConvSetting{
		x: []int{2, 4, 6, 5}, w: []int{6, 2, 3, 3}, group: 2, types: [3]graph.DType{u, u, u}, bias: true,
	}
	with := func(name string, change func(*qConvSetting)) Case {
		s := base
		s.name = name
		change(&s)
		return s.make()
	}
	cs := []Case{
		with("groups and bias", func(s *qConvSetting) {}),
		with("int8, per channel", func(s *qConvSetting) { s.types, s.perChannel = [3]graph.DType{i, i, i}, true }),
		with("mixed types", func(s *qConvSetting) { s.types, s.bias = [3]graph.DType{u, i, u}, false }),
		with("pads, strides, dilations", func(s *qConvSetting) {
			s.pads, s.strides, s.dilations = []int64{2, 1, 0, 3}, []int64{2, 1}, []int64{1, 2}
		}),
		with("same, more at the end", func(s *qConvSetting) { s.autoPad, s.strides = "SAME_UPPER", []int64{2, 2} }),
		with("same, more at the begin", func(s *qConvSetting) { s.autoPad, s.strides = "SAME_LOWER", []int64{2, 2} }),
		with("valid", func(s *qConvSetting) { s.autoPad = "VALID" }),
		with("one axis", func(s *qConvSetting) { s.x, s.w, s.pads = []int{1, 4, 9}, []int{4, 2, 3}, []int64{1, 1} }),
		with("three axes", func(s *qConvSetting) { s.x, s.w = []int{1, 4, 3, 4, 5}, []int{2, 2, 2, 2, 2} }),
		with("empty batch", func(s *qConvSetting) { s.x = []int{0, 4, 6, 5} }),
		with("large", func(s *qConvSetting) { s.x, s.w = []int{2, 4, 30, 600}, []int{2, 2, 1, 3} }),
	}
	input := func(name, want string, slot int, t *executor.Tensor) Case {
		c := base.make()
		c.In[slot] = t
		return seqFails(c, name, want)
	}
	small := base.make()
	small.In[0] = seqTensor(u, []int{2, 4, 2, 5}, make([]float64, 80))
	pads := base.make()
	pads.Attrs = append(pads.Attrs, Attr("pads", []int64{1}))
	strides := base.make()
	strides.Attrs = append(strides.Attrs, Attr("strides", []int64{0, 1}))
	return append(cs, seqFails(small, "too small", "smaller than the kernel"), seqFails(pads, "pads", "attribute pads"),
		seqFails(strides, "stride 0", "strides [0 1]"),
		input("channels", "the weights", 3, seqTensor(u, []int{6, 3, 3, 3}, make([]float64, 162))),
		input("scales", "wanted 1 or 6 numbers", 4, seqTensor(graph.Float32, []int{2}, []float64{1, 1})),
		input("type of zero point", "input 5 has type int8", 5, seqTensor(i, []int{}, []float64{1})),
		input("bias", "wanted 6 numbers", 8, seqTensor(graph.Int32, []int{2}, []float64{1, 1})))
}
