package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(softmaxGradCases) }

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
