package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(deeployCases) }

// deeployCases are those of Deeploy's dialect that no other family has.
func deeployCases() []Case {
	var cases []Case
	for _, group := range [][]Case{sgdCases(), batchedGemmCases(), logProbCases()} {
		cases = append(cases, group...)
	}
	alone := layerNormGradCase(op.LayerNormalizationGradDeeploy, graph.Float32, []int{4, 3}, -1)
	alone.Name, alone.In, alone.Out, alone.Want = "no bias, dX alone", alone.In[:3], alone.Out[:1], alone.Want[:1]
	return append(cases, alone)
}

func sgdCases() []Case {
	var cases []Case
	lr := float32(0.01)
	f := func(x []float64) float64 { return x[0] - float64(lr)*x[1] }
	for _, d := range elemFloats {
		for _, shape := range [][]int{{3, 201}, {}, {2, 0}, {20011}} {
			cases = append(cases,
				elemCase(fmt.Sprint(d, shape), op.SGDDeeploy, d, f, elemFill(d, -1, 1, shape...),
					elemFill(d, -8, 8, shape...)).with(Attr("lr", lr)))
		}
	}
	x := elemFill(graph.Float32, 0, 1, 2, 3)
	return append(cases,
		elemFails("shapes", op.SGDDeeploy, graph.Float32, "[3]",
			x, elemFill(graph.Float32, 0, 1, 3)).with(Attr("lr", lr)))
}

// batchedGemmCases are alpha*A'*B' + beta*C of stacks of matrices.
func batchedGemmCases() []Case {
	var cases []Case
	add := func(name string, d graph.DType, a, b, c []int, transA, transB bool, alpha, beta float32) *Case {
		in := []*executor.Tensor{productTensor(d, 1, a...), productTensor(d, 2, b...)}
		want := productMatMul(productTurned(productWiden(in[0]), transA, false),
			productTurned(productWiden(in[1]), transB, false))
		bias := productWide{v: []float64{0}}
		if c != nil {
			in = append(in, productTensor(d, 3, c...))
			bias = productWiden(in[2])
		}
		want = productEach(want.shape, func(index []int) float64 {
			return float64(alpha)*want.at(index) + float64(beta)*bias.at(index)
		})
		flag := map[bool]int64{true: 1}
		cases = append(cases,
			Case{Name: name, Kind: op.GemmDeeploy, In: in, Out: []graph.DType{d},
				Want: []*executor.Tensor{want.tensor(d)}, Tol: productTolerance(d),
				Attrs: []graph.Attr{Attr("transA", flag[transA]), Attr("transB", flag[transB]), Attr("alpha", alpha),
					Attr("beta", beta)}})
		return &cases[len(cases)-1]
	}
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		add(fmt.Sprint(d, " batch of A"), d, []int{2, 3, 4}, []int{4, 5}, []int{5}, false, false, 2, 3)
		add(fmt.Sprint(d, " batches of both"), d, []int{2, 4, 3}, []int{2, 5, 4}, nil, true, true, 0.5, 1)
	}
	f := graph.Float32
	add("batch of B", f, []int{4, 3}, []int{2, 4, 5}, nil, true, false, 1, 1)
	add("broadcast batches", f, []int{2, 1, 3, 4}, []int{3, 4, 5}, nil, false, false, 1, 1)
	add("A turned, one B", f, []int{2, 4, 3}, []int{4, 5}, []int{3, 1}, true, false, 1, -1)
	add("bias by batch", f, []int{3, 2, 4}, []int{4, 5}, []int{3, 1, 5}, false, false, 1, 1)
	add("bias of one batch", f, []int{3, 2, 4}, []int{4, 5}, []int{1, 2, 1}, false, false, 1, 1)
	add("scalar bias", f, []int{3, 2, 4}, []int{4, 5}, []int{}, false, false, 1, 1)
	add("large", f, []int{3, 70, 60}, []int{60, 90}, []int{90}, false, false, 1, 1)
	add("no rows", f, []int{2, 0, 4}, []int{4, 5}, []int{5}, false, false, 1, 1)
	add("no batches", f, []int{0, 3, 4}, []int{4, 5}, []int{5}, false, false, 1, 1)
	add("no terms", f, []int{2, 3, 0}, []int{0, 5}, []int{5}, false, false, 1, 1)
	add("beta 0", f, []int{2, 3, 4}, []int{4, 5}, []int{5}, false, false, 1, 0).In[2] =
		executor.NewTensor(f, []int{5}, float32(math.NaN()), float32(math.Inf(1)), 0, 0, 0)
	bad := func(name, text string, edit func(c *Case)) {
		c := add(name, f, []int{2, 3, 4}, []int{4, 5}, []int{5}, false, false, 1, 1)
		c.Want, c.Fails = nil, text
		edit(c)
	}
	bad("bias too long", "input 2 has shape [6], wanted one that broadcasts to [2 3 5]",
		func(c *Case) { c.In[2] = productTensor(f, 3, 6) })
	bad("bias of rank 4", "broadcasts to [2 3 5]", func(c *Case) { c.In[2] = productTensor(f, 3, 1, 1, 1, 5) })
	bad("inner dims", "4 columns meet 6 rows", func(c *Case) { c.In[1] = productTensor(f, 3, 6, 5) })
	bad("rank", "wanted matrices", func(c *Case) { c.In[1] = productTensor(f, 3, 4) })
	bad("types", "input 1 has type", func(c *Case) { c.In[1] = productTensor(graph.Float64, 3, 4, 5) })
	bad("integers", "no kernel", func(c *Case) {
		c.In = []*executor.Tensor{productTensor(graph.Int32, 1, 2, 3, 4), productTensor(graph.Int32, 2, 4, 5)}
		c.Out = []graph.DType{graph.Int32}
	})
	return cases
}

// logProbCases are the loss whose only output is log_prob, and the gradient of log_prob and labels
// alone.
func logProbCases() []Case {
	var cases []Case
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		for _, shape := range [][]int{{3, 5}, {2, 5, 4}, {40, 1500}} {
			for _, reduction := range []string{"mean", "sum"} {
				l := lossTest{kind: op.SoftmaxCrossEntropyLoss, dtype: d, label: graph.Int64, shape: shape,
					reduction: reduction, ignored: shape[0] == 2, ignore: -1}
				c := l.make()
				c.Kind, c.In, c.Out, c.Want = op.SoftmaxCrossEntropyLossDeeploy, c.In[:2], c.Out[1:], c.Want[1:]
				l.kind = op.SoftmaxCrossEntropyLossGrad
				g := l.make()
				g.Kind, g.In = op.SoftmaxCrossEntropyLossGradDeeploy, g.In[1:3]
				g.Want = []*executor.Tensor{reduceTensor(d, shape, l.unitGrad())}
				cases = append(cases, c, g)
			}
		}
	}
	return cases
}

// unitGrad is the gradient of the scores for a gradient of the loss of 1.
func (l lossTest) unitGrad() []float64 {
	t := l.data()
	dx := make([]float64, len(t.scores))
	w, by := t.weights(l.reduction)
	for i, at := range t.places {
		if t.labels[i] < 0 {
			continue
		}
		for j, p := range at {
			dx[p] = w[i] / by * math.Exp(t.logProb[p])
			if j == t.labels[i] {
				dx[p] -= w[i] / by
			}
		}
	}
	return dx
}
