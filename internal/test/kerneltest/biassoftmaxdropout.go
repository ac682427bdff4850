package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(biasSoftmaxDropoutCases) }

// biasSoftmaxDropoutCases compute softmax and dropout one after the other.
func biasSoftmaxDropoutCases() []Case {
	var cs []Case
	from := 0
	soft := func(name string, d graph.DType, shape, bias []int, axis int64, softmax bool) {
		n := seqCount(shape)
		x, b := seqValues(n, 5), seqValues(seqCount(bias), 6)
		c := Case{Name: name, Kind: op.BiasSoftmaxDropout, Tol: seqTol(d),
			Attrs: []graph.Attr{Attr("axis", axis), Attr("seed", int64(3))},
			In: []*executor.Tensor{seqTensor(d, shape, x), seqTensor(d, bias, b),
				seqTensor(graph.Float32, []int{}, []float64{0.25})},
			Out: []graph.DType{d, graph.Bool}}
		if axis < 0 {
			axis += int64(len(shape))
		}
		length := seqCount(shape[axis:])
		s := make([]float64, n)
		for i := range s {
			s[i] = math.Exp(x[i] + b[seqBroadcast(i, shape, bias)])
		}
		for row := 0; row < n; row += max(length, 1) {
			sum := 0.0
			for _, v := range s[row : row+length] {
				sum += v
			}
			for i := range length {
				s[row+i] /= sum
			}
		}
		keep, y := seqKeep(3, from+n, 0.25)[from:], make([]float64, n)
		for i, k := range keep {
			if k {
				y[i] = s[i] / 0.75
			}
		}
		c.Want = []*executor.Tensor{seqTensor(d, shape, y), seqMask(shape, keep)}
		if softmax {
			c.Out, c.Want = append(c.Out, d), append(c.Want, seqTensor(d, shape, s))
		}
		if from > 0 {
			c = drawnFrom(c, from)
		}
		cs = append(cs, c)
	}
	for _, d := range seqFloats() {
		soft(d.String(), d, []int{2, 3, 5, 7}, []int{2, 1, 1, 7}, 3, true)
	}
	soft("softmax left out", graph.Float32, []int{2, 3, 5, 7}, []int{1, 1, 5, 7}, -1, false)
	soft("bias of lower rank", graph.Float32, []int{2, 3, 5, 7}, []int{5, 7}, 2, true)
	soft("axis 0", graph.Float32, []int{3, 5}, []int{3, 5}, 0, true)
	soft("empty", graph.Float32, []int{3, 0}, []int{1, 0}, 1, true)
	soft("no rows", graph.Float32, []int{0, 5}, []int{1, 5}, 1, true)
	soft("large", graph.Float32, []int{30, 1025}, []int{1, 1025}, 1, true)
	for _, from = range []int{6, 105} {
		soft(fmt.Sprintf("from %d", from), graph.Float32, []int{2, 3, 5, 7}, []int{2, 1, 1, 7}, 3, true)
	}
	bad := cs[0]
	bad.In = []*executor.Tensor{bad.In[0], seqTensor(graph.Float32, []int{2, 2, 1, 7}, seqValues(28, 1))}
	short := cs[0]
	short.In = []*executor.Tensor{short.In[0], seqTensor(graph.Float32, []int{1}, seqValues(1, 1))}
	return append(cs, seqFails(bad, "wrong bias", "does not broadcast"),
		seqFails(short, "short bias", "the bias is float[1]"))
}

// seqBroadcast returns the element of an array of shape from that element i of one of shape to
// sees.
func seqBroadcast(i int, to, from []int) int {
	at, stride := 0, 1
	for k := len(to) - 1; k >= 0; k-- {
		p := i % to[k]
		i /= to[k]
		if j := k - (len(to) - len(from)); j >= 0 {
			if from[j] > 1 {
				at += p * stride
			}
			stride *= from[j]
		}
	}
	return at
}
