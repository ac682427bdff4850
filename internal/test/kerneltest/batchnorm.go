package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(batchNormCases)
	register(batchNormGradCases)
}

// normGroup normalises the elements of x at the given places into y and returns their mean and
// variance.
func normGroup(y, x []float64, at []int, epsilon float64) (m, v float64) {
	for _, p := range at {
		m += x[p] / float64(len(at))
	}
	for _, p := range at {
		v += (x[p] - m) * (x[p] - m) / float64(len(at))
	}
	for _, p := range at {
		y[p] = (x[p] - m) / math.Sqrt(v+epsilon)
	}
	return m, v
}

// channelPlaces lists the places of each channel of [N, C, D…].
func channelPlaces(shape []int) [][]int {
	_, groups := reduceGroups([]int{shape[0], shape[1], reduceLen(shape[2:])}, []int{0, 2})
	return groups
}

var batchShapes = [][]int{{2, 3}, {2, 3, 4}, {4, 2, 3, 5}, {300, 70}, {3, 9, 40, 31}, {2, 80, 3}}

func batchNormCases() []Case {
	var cases []Case
	for _, shape := range batchShapes {
		for _, opset := range []int{7, 9, 14, 15} {
			for _, training := range []bool{false, true} {
				cases = append(cases, batchNormCase(op.BatchNormalization, graph.Float32, shape, opset, training))
			}
		}
		cases = append(cases, batchNormCase(op.BatchNormInternal, graph.Float32, shape, 1, true))
	}
	for _, d := range []graph.DType{graph.Float64, graph.Float16} {
		cases = append(cases, batchNormCase(op.BatchNormalization, d, []int{4, 3, 5}, 15, false),
			batchNormCase(op.BatchNormalization, d, []int{4, 3, 5}, 15, true),
			batchNormCase(op.BatchNormInternal, d, []int{4, 3, 5}, 1, true))
	}
	empty := batchNormCase(op.BatchNormalization, graph.Float32, []int{0, 3, 4}, 15, false)
	bad := batchNormCase(op.BatchNormalization, graph.Float32, []int{2, 3}, 15, false)
	bad.Name, bad.Want, bad.Fails = "scale does not fit", nil, "input 1 is float[2]"
	bad.In[1] = reduceTensor(graph.Float32, []int{2}, []float64{1, 1})
	nothing := batchNormCase(op.BatchNormalization, graph.Float32, []int{0, 3, 4}, 15, true)
	nothing.Name, nothing.Want, nothing.Fails = "mean of nothing", nil, "the mean of no elements is undefined"
	// Version 7 with spatial = 0 has statistics for each place; mean 0, variance 1 and epsilon 0
	// leave 2x+1.
	two, one, zero := []float64{2, 2, 2, 2}, []float64{1, 1, 1, 1}, make([]float64, 4)
	place := func(v []float64) *executor.Tensor { return reduceTensor(graph.Float32, []int{2, 2}, v) }
	perPlace := Case{Name: "per place", Kind: op.BatchNormalization, Opset: 7, Out: []graph.DType{graph.Float32},
		Attrs: []graph.Attr{Attr("spatial", int64(0)), Attr("epsilon", float32(0))},
		In: []*executor.Tensor{reduceTensor(graph.Float32, []int{1, 2, 2}, []float64{1, 2, 3, 4}), place(two),
			place(one), place(zero), place(one)},
		Want: []*executor.Tensor{reduceTensor(graph.Float32, []int{1, 2, 2}, []float64{3, 5, 7, 9})}}
	return append(cases, empty, bad, nothing, perPlace)
}

func batchNormCase(k graph.Kind, d graph.DType, shape []int, opset int, training bool) Case {
	n := shape[1]
	x, y := reduceValues(reduceLen(shape), 81), make([]float64, reduceLen(shape))
	scale, bias, mean, vari := reduceValues(n, 82), reduceValues(n, 83), reduceValues(n, 84), reduceValues(n, 85)
	newMean, newVar, m2, v2 := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for ch, at := range channelPlaces(shape) {
		vari[ch] = math.Abs(vari[ch]) + 1
		m, v := normGroup(y, x, at, normTestEpsilon)
		for _, p := range at {
			if !training {
				y[p] = (x[p] - mean[ch]) / math.Sqrt(vari[ch]+normTestEpsilon)
			}
			y[p] = y[p]*scale[ch] + bias[ch]
		}
		newMean[ch], newVar[ch], m2[ch], v2[ch] = mean[ch]*0.75+m*0.25, vari[ch]*0.75+v*0.25, m, v
		if k == op.BatchNormInternal {
			v2[ch] = 1 / math.Sqrt(v+normTestEpsilon)
		}
	}
	vec := func(v []float64) *executor.Tensor { return reduceTensor(d, []int{n}, v) }
	c := Case{Name: fmt.Sprintf("%v %v version %d training %v", d, shape, opset, training), Kind: k, Opset: opset,
		Tol:   2 * reduceTol(d),
		Attrs: []graph.Attr{Attr("epsilon", float32(normTestEpsilon)), Attr("momentum", float32(0.75))},
		Out:   []graph.DType{d},
		In:    []*executor.Tensor{reduceTensor(d, shape, x), vec(scale), vec(bias), vec(mean), vec(vari)},
		Want:  []*executor.Tensor{reduceTensor(d, shape, y)}}
	if training {
		c.Out, c.Want = append(c.Out, d, d), append(c.Want, vec(newMean), vec(newVar))
		if opset < 14 {
			c.Out, c.Want = append(c.Out, d, d), append(c.Want, vec(m2), vec(v2))
		} else {
			c.Attrs = append(c.Attrs, Attr("training_mode", int64(1)))
		}
	}
	return c
}

// batchNormGradCases take each channel for a row of a layer norm, whose gradient is known.
func batchNormGradCases() []Case {
	var cases []Case
	for _, shape := range batchShapes {
		cases = append(cases, batchNormGradCase(graph.Float32, shape))
	}
	cases = append(cases, batchNormGradCase(graph.Float64, []int{4, 3, 5}),
		batchNormGradCase(graph.Float16, []int{4, 3, 5}))
	bad := batchNormGradCase(graph.Float32, []int{2, 3})
	bad.Name, bad.Want, bad.Fails = "mean does not fit", nil, "wanted a vector of 3 elements"
	bad.In[3] = reduceTensor(graph.Float32, []int{2}, []float64{1, 1})
	return append(cases, bad)
}

func batchNormGradCase(d graph.DType, shape []int) Case {
	n, size := shape[1], reduceLen(shape)
	x, dy, scale, h, dx := reduceValues(size, 91), reduceValues(size, 92), reduceValues(n, 93), make([]float64, size),
		make([]float64, size)
	mean, inv, dscale, dbias := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for ch, at := range channelPlaces(shape) {
		m, v := normGroup(h, x, at, normTestEpsilon)
		mean[ch], inv[ch] = m, 1/math.Sqrt(v+normTestEpsilon)
		for _, p := range at {
			dbias[ch] += dy[p]
			dscale[ch] += dy[p] * h[p]
		}
		for _, p := range at {
			dx[p] = scale[ch] * inv[ch] * (dy[p] - (dbias[ch]+h[p]*dscale[ch])/float64(len(at)))
		}
	}
	vec := func(v []float64) *executor.Tensor { return reduceTensor(d, []int{n}, v) }
	tol := 8 * reduceTol(d)
	return Case{Name: fmt.Sprintf("%v %v", d, shape), Kind: op.BatchNormalizationGrad, Tol: tol,
		Out: []graph.DType{d, d, d},
		In: []*executor.Tensor{reduceTensor(d, shape, dy), reduceTensor(d, shape, x), vec(scale),
			vec(mean), vec(inv)},
		Want: []*executor.Tensor{reduceTensor(d, shape, dx), vec(dscale), vec(dbias)}}
}
