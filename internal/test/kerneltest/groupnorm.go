package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(groupNormCases) }

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
