package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func groupNormCases() []Case {
	var cases []Case
	epsilon := Attr("epsilon", float32(normTestEpsilon))
	add := func(k graph.Kind, d graph.DType, opset int, shape []int, groups int, attrs ...graph.Attr) {
		last := k == op.GroupNorm
		channels := shape[1]
		if last {
			channels = shape[3]
		}
		places := reduceLen(shape) / max(shape[0]*channels, 1)
		x, y := reduceValues(reduceLen(shape), 101), make([]float64, reduceLen(shape))
		channelOf := func(p int) int {
			if last {
				return p % channels
			}
			return p / places % channels
		}
		at := make([][]int, shape[0]*groups)
		for p := range x {
			g := p/(places*channels)*groups + channelOf(p)*groups/channels
			at[g] = append(at[g], p)
		}
		for _, g := range at {
			normGroup(y, x, g, normTestEpsilon)
		}
		n := channels
		if k == op.GroupNormalization && opset < 21 {
			n = groups
		}
		scale, bias := reduceValues(n, 102), reduceValues(n, 103)
		for p := range y {
			s := channelOf(p) * n / channels
			y[p] = y[p]*scale[s] + bias[s]
			if len(attrs) > 1 { // activation
				y[p] /= 1 + math.Exp(-y[p])
			}
		}
		vec := func(v []float64) *executor.Tensor { return reduceTensor(d, []int{n}, v) }
		cases = append(cases,
			Case{Name: fmt.Sprintf("%v %v in %d groups, version %d, %d attributes",
				d, shape, groups, opset, len(attrs)), Kind: k, Opset: opset,
				Attrs: append([]graph.Attr{epsilon}, attrs...),
				In:    []*executor.Tensor{reduceTensor(d, shape, x), vec(scale), vec(bias)},
				Out:   []graph.DType{d}, Tol: 4 * reduceTol(d), Want: []*executor.Tensor{reduceTensor(d, shape, y)}})
	}
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		for _, shape := range [][]int{{2, 6, 5}, {1, 4, 3, 3}, {2, 4, 70, 70}, {0, 4, 3}} {
			if d != graph.Float32 && reduceLen(shape) > 100 {
				continue
			}
			add(op.InstanceNormalization, d, 6, shape, shape[1])
			add(op.GroupNormalization, d, 18, shape, 2, Attr("num_groups", int64(2)))
			add(op.GroupNormalization, d, 21, shape, 2, Attr("num_groups", int64(2)))
		}
		add(op.GroupNormalization, d, 21, []int{2, 6}, 3, Attr("num_groups", int64(3)))
		add(op.GroupNorm, d, 1, []int{2, 3, 5, 6}, 3, Attr("groups", int64(3)))
		add(op.GroupNorm, d, 1, []int{2, 3, 5, 6}, 2, Attr("groups", int64(2)), Attr("activation", int64(1)))
	}
	add(op.GroupNorm, graph.Float32, 1, []int{2, 30, 30, 32}, 8, Attr("groups", int64(8)), Attr("activation", int64(1)))
	bad := cases[1]
	bad.Name, bad.Want, bad.Attrs, bad.Fails = "groups do not divide", nil, []graph.Attr{Attr("num_groups", int64(4))},
		"num_groups = 4 does not divide"
	none := cases[1]
	none.Name, none.Want, none.Attrs, none.Fails = "no groups", nil, nil, "attribute num_groups is 0 or missing"
	return append(cases, bad, none)
}

func lrnCases() []Case {
	var cases []Case
	for _, t := range []struct {
		d     graph.DType
		shape []int
		size  int
		beta  float64
	}{
		{graph.Float32, []int{2, 5, 3}, 3, 0.75}, {graph.Float32, []int{2, 5, 3}, 4, 0.5},
		{graph.Float32, []int{2, 3}, 1, 0.75},
		{graph.Float32, []int{1, 6, 60, 70}, 5, 0.75}, {graph.Float32, []int{1, 0, 2}, 3, 0.75},
		{graph.Float64, []int{2, 5, 2, 2}, 3, 0.75},
		{graph.Float16, []int{2, 5, 2, 2}, 3, 0.75}, {graph.BFloat16, []int{2, 7, 3, 5}, 4, 0.5},
		{graph.Float32, []int{1, 2, 2}, 99, 2},
	} {
		x, y := reduceValues(reduceLen(t.shape), 111), make([]float64, reduceLen(t.shape))
		inner := reduceLen(t.shape[2:])
		for p, v := range x {
			s, ch := 0.0, p/inner%t.shape[1]
			for c := 0; c < t.shape[1]; c++ {
				if c >= ch-(t.size-1)/2 && c <= ch+t.size/2 {
					w := x[p+(c-ch)*inner]
					s += w * w
				}
			}
			y[p] = v / math.Pow(1.5+0.25/float64(t.size)*s, t.beta)
		}
		cases = append(cases,
			Case{Name: fmt.Sprintf("%v %v size %d beta %v", t.d, t.shape, t.size, t.beta), Kind: op.LRN,
				Attrs: []graph.Attr{Attr("size", int64(t.size)), Attr("alpha", float32(0.25)),
					Attr("beta", float32(t.beta)), Attr("bias", float32(1.5))},
				In: []*executor.Tensor{reduceTensor(t.d, t.shape, x)}, Out: []graph.DType{t.d}, Tol: reduceTol(t.d),
				Want: []*executor.Tensor{reduceTensor(t.d, t.shape, y)}})
	}
	bad := cases[0]
	bad.Name, bad.Attrs, bad.Want, bad.Fails = "no size", nil, nil, "attribute size is 0 or missing"
	return append(cases, bad)
}

func lpNormCases() []Case {
	var cases []Case
	for _, order := range []int{1, 2} {
		for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
			for _, s := range softmaxShapes {
				if d != graph.Float32 && reduceLen(s.shape) > 1000 {
					continue
				}
				x, y := reduceValues(reduceLen(s.shape), 121), make([]float64, reduceLen(s.shape))
				normLines(s.shape, s.axis, false, func(at []int) {
					sum := 0.0
					for _, p := range at {
						sum += math.Pow(math.Abs(x[p]), float64(order))
					}
					for _, p := range at {
						y[p] = x[p] / math.Pow(sum, 1/float64(order))
					}
				})
				cases = append(cases,
					Case{Name: fmt.Sprintf("%v %v along %d, p %d", d, s.shape, s.axis, order), Kind: op.LpNormalization,
						Attrs: []graph.Attr{Attr("axis", int64(s.axis)), Attr("p", int64(order))},
						In:    []*executor.Tensor{reduceTensor(d, s.shape, x)},
						Out:   []graph.DType{d}, Tol: reduceTol(d),
						Want: []*executor.Tensor{reduceTensor(d, s.shape, y)}})
			}
		}
	}
	zero := Case{Name: "zeros stay", Kind: op.LpNormalization,
		In:  []*executor.Tensor{reduceTensor(graph.Float32, []int{2, 2}, []float64{0, 0, 3, 4})},
		Out: []graph.DType{graph.Float32}, Tol: 1e-6,
		Want: []*executor.Tensor{reduceTensor(graph.Float32, []int{2, 2}, []float64{0, 0, 0.6, 0.8})}}
	bad := zero
	bad.Name, bad.Attrs, bad.Want, bad.Fails = "order 3", []graph.Attr{Attr("p", int64(3))}, nil, "attribute p is 3"
	return append(cases, zero, bad)
}

func meanVarianceCases() []Case {
	var cases []Case
	add := func(d graph.DType, shape []int, axes []int64) {
		x, y := reduceValues(reduceLen(shape), 131), make([]float64, reduceLen(shape))
		c := Case{Name: fmt.Sprintf("%v %v over %v", d, shape, axes), Kind: op.MeanVarianceNormalization,
			Tol: 2 * reduceTol(d),
			In:  []*executor.Tensor{reduceTensor(d, shape, x)}, Out: []graph.DType{d}}
		over := []int{0, 2, 3}
		if axes != nil {
			c.Attrs, over = []graph.Attr{Attr("axes", axes)}, nil
			for _, a := range axes {
				over = append(over, (int(a)+len(shape))%len(shape))
			}
		}
		_, groups := reduceGroups(shape, over)
		for _, at := range groups {
			m, v := normGroup(y, x, at, 1)
			for _, p := range at {
				y[p] = (x[p] - m) / (math.Sqrt(v) + 1e-9)
			}
		}
		c.Want = []*executor.Tensor{reduceTensor(d, shape, y)}
		cases = append(cases, c)
	}
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		add(d, []int{2, 3, 4, 5}, nil)
		add(d, []int{3, 40}, []int64{0})
		add(d, []int{3, 40}, []int64{-1})
		add(d, []int{4, 3, 5}, []int64{0, 1})
	}
	add(graph.Float32, []int{3, 4, 50, 60}, nil)
	add(graph.Float32, []int{90, 400}, []int64{0})
	add(graph.Float32, []int{2, 0, 3, 3}, nil)
	bad := cases[0]
	bad.Name, bad.Attrs, bad.Want, bad.Fails = "axis out of range", []graph.Attr{Attr("axes", []int64{4})}, nil,
		"axis 4; input 0 has rank 4"
	return append(cases, bad)
}
