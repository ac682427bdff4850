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
	return cases
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

func mustFloat(t *executor.Tensor) float64 {
	v, _ := Float(t, 0)
	return v
}
