package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(skipNormCases)
	register(embedNormCases)
}

// skipNormCases are of ONNX Runtime's norms of a sum.
func skipNormCases() []Case {
	var cases []Case
	for _, k := range []graph.Kind{op.SkipLayerNormalization, op.SkipSimplifiedLayerNormalization} {
		for _, s := range []struct{ shape, skip []int }{
			{[]int{2, 3, 8}, []int{2, 3, 8}}, {[]int{6, 8}, []int{6, 8}}, {[]int{2, 3, 8}, []int{1, 3, 8}},
			{[]int{2, 3, 8}, []int{3, 8}},
			{[]int{0, 3, 8}, []int{3, 8}}, {[]int{4, 90, 64}, []int{90, 64}},
		} {
			for _, extra := range []bool{false, true} {
				cases = append(cases, skipNormCase(k, graph.Float32, s.shape, s.skip, extra))
			}
		}
		cases = append(cases, skipNormCase(k, graph.Float64, []int{2, 3, 4}, []int{2, 3, 4}, true),
			skipNormCase(k, graph.Float16, []int{2, 3, 4}, []int{2, 3, 4}, true),
			skipNormCase(k, graph.BFloat16, []int{2, 3, 70}, []int{3, 70}, true),
			skipNormCase(k, graph.Float16, []int{2, 3, 41}, []int{1, 3, 41}, true))
		bad := skipNormCase(k, graph.Float32, []int{2, 3, 8}, []int{3, 8}, true)
		bad.Name, bad.Want, bad.Fails = "skip does not fit", nil, "cannot be stretched"
		bad.In[1] = reduceTensor(graph.Float32, []int{2, 8}, make([]float64, 16))
		cases = append(cases, bad)
	}
	return cases
}

func skipNormCase(k graph.Kind, d graph.DType, shape, skip []int, extra bool) Case {
	simple, n := k == op.SkipSimplifiedLayerNormalization, shape[len(shape)-1]
	x, s := reduceValues(reduceLen(shape), 61), reduceValues(reduceLen(skip), 62)
	gamma, beta, bias := reduceValues(n, 63), reduceValues(n, 64), reduceValues(n, 65)
	vec := func(v []float64) *executor.Tensor { return reduceTensor(d, []int{n}, v) }
	c := Case{Name: fmt.Sprintf("%v %v + %v, bias %v", d, shape, skip, extra), Kind: k, Tol: 2 * reduceTol(d),
		Attrs: []graph.Attr{Attr("epsilon", float32(normTestEpsilon))},
		In:    []*executor.Tensor{reduceTensor(d, shape, x), reduceTensor(d, skip, s), vec(gamma)},
		Out:   []graph.DType{d, graph.Float32, graph.Float32, d}}
	if !simple {
		c.In = append(c.In, nil)
		if extra {
			c.In[3] = vec(beta)
		}
	}
	sum := append([]float64(nil), x...)
	for i, v := range normStretched(s, skip, shape) {
		if sum[i] += v; extra {
			sum[i] += bias[i%n]
		}
	}
	if extra {
		c.In = append(c.In, vec(bias))
	}
	y, mean, inv := normedRows(sum, n, simple, normTestEpsilon)
	for i := range y {
		if y[i] *= gamma[i%n]; extra && !simple {
			y[i] += beta[i%n]
		}
	}
	stats := append(append([]int(nil), shape[:len(shape)-1]...), 1)
	c.Want = []*executor.Tensor{reduceTensor(d, shape, y), reduceTensor(graph.Float32, stats, mean),
		reduceTensor(graph.Float32, stats, inv), reduceTensor(d, shape, sum)}
	if d == graph.Float64 {
		c.Tol = reduceTol(graph.Float32) // of the statistics
	}
	return c
}

// embedNormCases are of EmbedLayerNormalization with 2 sequences of 3 and tables of 4, 5 and 2
// rows.
func embedNormCases() []Case {
	var cases []Case
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		cases = append(cases, embedNormCase("plain", d, false, false, false),
			embedNormCase("segments, mask", d, true, true, false),
			embedNormCase("positions", d, true, false, true))
	}
	bad := embedNormCase("id out of range", graph.Float32, true, true, true)
	bad.In[0] = executor.NewTensor[int32](graph.Int32, []int{2, 3}, 0, 1, 4, 0, 0, 0)
	bad.Want, bad.Fails = nil, "element 2 of input 0 is 4; input 2 has 4 rows"
	return append(cases, bad)
}

func embedNormCase(name string, d graph.DType, segments, mask, positions bool) Case {
	const n = 6
	ids, seg := []int32{3, 0, 1, 2, 2, 0}, []int32{0, 0, 1, 0, 1, 1}
	at := []int32{4, 0, 1}
	word, position, segment := reduceValues(4*n, 71), reduceValues(5*n, 72), reduceValues(2*n, 73)
	gamma, beta := reduceValues(n, 74), reduceValues(n, 75)
	sum := make([]float64, 6*n)
	for i := range sum {
		row := i / n
		p := row % 3
		if positions {
			p = int(at[p])
		}
		if sum[i] = word[int(ids[row])*n+i%n] + position[p*n+i%n]; segments {
			sum[i] += segment[int(seg[row])*n+i%n]
		}
	}
	y, _, _ := normedRows(sum, n, false, normTestEpsilon)
	for i := range y {
		y[i] = y[i]*gamma[i%n] + beta[i%n]
	}
	ints := func(shape []int, v ...int32) *executor.Tensor { return executor.NewTensor(graph.Int32, shape, v...) }
	c := Case{Name: fmt.Sprintf("%v %s", d, name), Kind: op.EmbedLayerNormalization, Tol: 2 * reduceTol(d),
		Attrs: []graph.Attr{Attr("epsilon", float32(normTestEpsilon))}, Out: []graph.DType{d, graph.Int32, d},
		In: []*executor.Tensor{ints([]int{2, 3}, ids...), nil, reduceTensor(d, []int{4, n}, word),
			reduceTensor(d, []int{5, n}, position), nil,
			reduceTensor(d, []int{n}, gamma), reduceTensor(d, []int{n}, beta), nil, nil},
		Want: []*executor.Tensor{reduceTensor(d, []int{2, 3, n}, y), ints([]int{2}, 0, 0),
			reduceTensor(d, []int{2, 3, n}, sum)}}
	if segments {
		c.In[1], c.In[4] = ints([]int{2, 3}, seg...), reduceTensor(d, []int{2, n}, segment)
	}
	if mask {
		c.In[7], c.Want[1] = ints([]int{2, 3}, 1, 1, 0, 1, 0, 0), ints([]int{2}, 2, 1)
	}
	if positions {
		c.In[8] = ints([]int{1, 3}, at...)
	}
	return c
}
