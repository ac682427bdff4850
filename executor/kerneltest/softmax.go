package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(softmaxCases) }

// normLines calls f with the places of the elements that one softmax runs over: lines along the
// axis, or rows of all dims from the axis on if coerced.
func normLines(shape []int, axis int, coerced bool, f func(at []int)) {
	if !coerced {
		axisViews(shape, axis, func(_ int, at []int) { f(at) })
		return
	}
	if axis < 0 {
		axis += len(shape)
	}
	axisViews([]int{reduceLen(shape[:axis]), reduceLen(shape[axis:])}, 1, func(_ int, at []int) { f(at) })
}

// softmaxOf writes the softmax of x to y at the given places.
func softmaxOf(y, x []float64, at []int) {
	m, s := math.Inf(-1), 0.0
	for _, p := range at {
		m = math.Max(m, x[p])
	}
	for _, p := range at {
		s += math.Exp(x[p] - m)
	}
	for _, p := range at {
		y[p] = math.Exp(x[p]-m) / s
	}
}

func logOf(y []float64) []float64 {
	l := make([]float64, len(y))
	for i, v := range y {
		l[i] = math.Log(v)
	}
	return l
}

// softmaxShapes are shapes and axes of softmaxes.
var softmaxShapes = []struct {
	shape []int
	axis  int
}{
	{[]int{5}, 0}, {[]int{3, 4}, 1}, {[]int{3, 4}, 0}, {[]int{2, 3, 4}, -2}, {[]int{2, 3, 4}, 2}, {[]int{2, 0, 3}, 1},
	{[]int{2, 3, 0}, 1},
	{[]int{30, 1100}, 1}, {[]int{40, 3, 300}, 1}, {[]int{1, 1}, 1}, {[]int{2, 40, 20}, 1},
}

func softmaxCases() []Case {
	var cases []Case
	for _, k := range []graph.Kind{op.Softmax, op.LogSoftmax, op.Hardmax} {
		for _, s := range softmaxShapes {
			for _, coerced := range []bool{false, true} {
				cases = append(cases, softmaxCase(k, graph.Float32, s.shape, s.axis, coerced))
			}
		}
		for _, d := range []graph.DType{graph.Float64, graph.Float16, graph.BFloat16} {
			cases = append(cases, softmaxCase(k, d, []int{3, 5}, 1, false), softmaxCase(k, d, []int{3, 5}, 0, false))
		}
		bad := softmaxCase(k, graph.Float32, []int{3, 5}, 1, false)
		bad.Name, bad.Attrs, bad.Want, bad.Fails = "axis out of range", []graph.Attr{Attr("axis", int64(2))}, nil,
			"axis 2; input 0 has rank 2"
		vector := softmaxCase(k, graph.Float32, []int{5}, 0, true)
		vector.Name, vector.Attrs = "old default axis beyond a vector", nil
		ones := []float64{1, 1, 1, 1, 1}
		if k == op.LogSoftmax {
			ones = make([]float64, 5)
		}
		vector.Want = []*executor.Tensor{reduceTensor(graph.Float32, []int{5}, ones)}
		cases = append(cases, bad, vector)
	}
	inf, nan := math.Inf(1), math.NaN()
	special := func(name string, k graph.Kind, x, y []float64) {
		cases = append(cases,
			Case{Name: name, Kind: k, In: []*executor.Tensor{reduceTensor(graph.Float32, []int{1, len(x)}, x)},
				Out: []graph.DType{graph.Float32}, Tol: 1e-6,
				Want: []*executor.Tensor{reduceTensor(graph.Float32, []int{1, len(x)}, y)}})
	}
	special("masked", op.Softmax, []float64{-inf, 0, 0, -inf}, []float64{0, 0.5, 0.5, 0})
	special("all masked", op.Softmax, []float64{-inf, -inf}, []float64{nan, nan})
	special("NaN", op.Softmax, []float64{nan, 0, 1}, []float64{nan, nan, nan})
	special("large", op.LogSoftmax, []float64{10000, 10001}, []float64{-1.3132617, -0.3132617})
	special("NaN", op.Hardmax, []float64{5, nan, inf, nan}, []float64{0, 1, 0, 0})
	cases = append(cases, softmaxGradCases()...)
	return append(cases, biasSoftmaxCases()...)
}

func softmaxCase(k graph.Kind, d graph.DType, shape []int, axis int, coerced bool) Case {
	x := reduceValues(reduceLen(shape), 21)
	y := make([]float64, len(x))
	normLines(shape, axis, coerced, func(at []int) {
		softmaxOf(y, x, at)
		if k == op.Hardmax && len(at) > 0 {
			best := at[0]
			for _, p := range at {
				if x[p] > x[best] {
					best = p
				}
				y[p] = 0
			}
			y[best] = 1
		}
	})
	if k == op.LogSoftmax {
		y = logOf(y)
	}
	c := Case{Name: fmt.Sprintf("%v %v along %d", d, shape, axis), Kind: k, Opset: 13,
		Attrs: []graph.Attr{Attr("axis", int64(axis))},
		In:    []*executor.Tensor{reduceTensor(d, shape, x)}, Out: []graph.DType{d}, Tol: reduceTol(d) / 4,
		Want: []*executor.Tensor{reduceTensor(d, shape, y)}}
	if d == graph.Float16 || d == graph.BFloat16 {
		c.Tol = reduceTol(d)
	}
	if coerced {
		c.Name, c.Opset = c.Name+", coerced", 11
	}
	return c
}

func softmaxGradCases() []Case {
	var cases []Case
	for _, k := range []graph.Kind{op.SoftmaxGrad, op.SoftmaxGrad13, op.LogSoftmaxGrad, op.LogSoftmaxGrad13} {
		coerced := k == op.SoftmaxGrad || k == op.LogSoftmaxGrad
		for _, s := range softmaxShapes {
			cases = append(cases, softmaxGradCase(k, graph.Float32, s.shape, s.axis, coerced))
		}
		for _, d := range []graph.DType{graph.Float64, graph.Float16, graph.BFloat16} {
			cases = append(cases, softmaxGradCase(k, d, []int{3, 5}, 1, coerced),
				softmaxGradCase(k, d, []int{2, 3, 5}, 1, coerced), softmaxGradCase(k, d, []int{2, 40, 20}, 1, coerced))
		}
		bad := softmaxGradCase(k, graph.Float32, []int{3, 5}, 1, coerced)
		bad.Name, bad.Want, bad.Fails = "unequal shapes", nil, "the shapes must be equal"
		bad.In = []*executor.Tensor{bad.In[0], reduceTensor(graph.Float32, []int{5, 3}, make([]float64, 15))}
		cases = append(cases, bad)
	}
	return cases
}

// softmaxGradCase multiplies by the Jacobian: dX[i] = Σ dY[j] * ∂Y[j]/∂X[i].
func softmaxGradCase(k graph.Kind, d graph.DType, shape []int, axis int, coerced bool) Case {
	n := reduceLen(shape)
	x, dy, y, dx := reduceValues(n, 22), reduceValues(n, 23), make([]float64, n), make([]float64, n)
	log := k == op.LogSoftmaxGrad || k == op.LogSoftmaxGrad13
	in := y
	normLines(shape, axis, coerced, func(at []int) {
		softmaxOf(y, x, at)
		for _, p := range at {
			y[p] = mustFloat(reduceTensor(d, []int{1}, y[p:p+1]))
		}
		s := 0.0
		for _, p := range at {
			if log {
				s += dy[p]
			} else {
				s += dy[p] * y[p]
			}
		}
		for _, p := range at {
			if log {
				dx[p] = dy[p] - y[p]*s
			} else {
				dx[p] = y[p] * (dy[p] - s)
			}
		}
	})
	if log {
		in = logOf(y)
	}
	tol := reduceTol(d)
	if log {
		tol *= 8 // the sum of many dY multiplies the rounding of e^Y
	}
	return Case{Name: fmt.Sprintf("%v %v along %d", d, shape, axis), Kind: k,
		Attrs: []graph.Attr{Attr("axis", int64(axis))},
		In:    []*executor.Tensor{reduceTensor(d, shape, dy), reduceTensor(d, shape, in)},
		Out:   []graph.DType{d}, Tol: tol,
		Want: []*executor.Tensor{reduceTensor(d, shape, dx)}}
}

func mustFloat(t *executor.Tensor) float64 {
	v, _ := Float(t, 0)
	return v
}

func biasSoftmaxCases() []Case {
	var cases []Case
	for _, s := range []struct {
		shape, bias []int
		axis        int
	}{
		{[]int{3, 4}, []int{4}, 1}, {[]int{2, 3, 4, 5}, []int{2, 1, 1, 5}, 3}, {[]int{2, 3, 4, 5}, []int{4, 5}, 3},
		{[]int{2, 3, 4}, []int{3, 1}, 1}, {[]int{2, 3, 4}, []int{}, 2}, {[]int{2, 0}, []int{1}, 1},
		{[]int{20, 8, 150}, []int{20, 1, 150}, 2},
	} {
		for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
			n := reduceLen(s.shape)
			x, bias, y := reduceValues(n, 31), reduceValues(reduceLen(s.bias), 32), make([]float64, n)
			sum := append([]float64(nil), x...)
			for i := range sum {
				from, rest, step := 0, i, 1
				for a := len(s.shape) - 1; a >= 0; a-- {
					if j := a - (len(s.shape) - len(s.bias)); j >= 0 && s.bias[j] != 1 {
						from += rest % s.shape[a] * step
						step *= s.bias[j]
					}
					rest /= s.shape[a]
				}
				sum[i] += bias[from]
			}
			normLines(s.shape, s.axis, true, func(at []int) { softmaxOf(y, sum, at) })
			cases = append(cases, Case{Name: fmt.Sprintf("%v %v + %v", d, s.shape, s.bias), Kind: op.BiasSoftmax,
				Attrs: []graph.Attr{Attr("axis", int64(s.axis)), Attr("is_inner_broadcast", int64(1))},
				In:    []*executor.Tensor{reduceTensor(d, s.shape, x), reduceTensor(d, s.bias, bias)},
				Out:   []graph.DType{d}, Tol: reduceTol(d), Want: []*executor.Tensor{reduceTensor(d, s.shape, y)}})
		}
	}
	bad := cases[0]
	bad.Name, bad.Want, bad.Fails = "bias does not fit", nil, "cannot be stretched"
	bad.In = []*executor.Tensor{bad.In[0], reduceTensor(graph.Float32, []int{3}, make([]float64, 3))}
	return append(cases, bad)
}
