package kerneltest

import (
	"fmt"
	"math"
	"os"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(gemmCases) }

// gemmCase is Y = f(alpha*A'*B' + beta*C); c is nil where C is left out.
func gemmCase(
	kind graph.Kind, d graph.DType, m, n, k int, transA, transB bool, alpha, beta float32, c []int,
	f func(float64) float64,
) Case {
	a, b := []int{m, k}, []int{k, n}
	if transA {
		a = []int{k, m}
	}
	if transB {
		b = []int{n, k}
	}
	x, y := productTensor(d, 1, a...), productTensor(d, 2, b...)
	in := []*executor.Tensor{x, y}
	var bias productWide
	if c != nil {
		in = append(in, productTensor(d, 3, c...))
		bias = productWiden(in[2])
	}
	want := productMatMul(productTurned(productWiden(x), transA, false), productTurned(productWiden(y), transB, false))
	want = productEach(want.shape, func(index []int) float64 {
		v := float64(alpha) * want.at(index)
		if c != nil {
			v += float64(beta) * bias.at(index)
		}
		if f != nil {
			v = f(v)
		}
		return v
	})
	flag := func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}
	return Case{Name: fmt.Sprintf("%v %dx%dx%d %v %v %v %v %v", d, m, n, k, transA, transB, alpha, beta, c), Kind: kind,
		Attrs: []graph.Attr{Attr("transA", flag(transA)), Attr("transB", flag(transB)), Attr("alpha", alpha),
			Attr("beta", beta)},
		In: in, Out: []graph.DType{d}, Want: []*executor.Tensor{want.tensor(d)}, Tol: productTolerance(d)}
}

func gemmCases() []Case {
	var cases []Case
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16, graph.Int32,
		graph.Int64, graph.Uint32, graph.Uint64} {
		for bits := range 4 {
			cases = append(cases, gemmCase(op.Gemm, d, 3, 4, 5, bits&1 != 0, bits&2 != 0, 2, 3, []int{4}, nil))
		}
		cases = append(cases, gemmCase(op.Gemm, d, 2, 3, 4, false, false, 1, 1, nil, nil))
	}
	for i, c := range [][]int{{270}, {200, 1}, {200, 270}, nil} { // in several blocks of rows, columns and terms
		for j, d := range []graph.DType{graph.Float16, graph.BFloat16} {
			if j == i/2^i%2 || os.Getenv("MEMOPT_TESTS") == "all" {
				cases = append(cases, gemmCase(op.Gemm, d, 200, 270, 400, i&1 != 0, i&2 != 0, 0.5, 2, c, nil))
			}
		}
	}
	for _, d := range []graph.DType{graph.Float16, graph.BFloat16} {
		cases = append(cases, gemmCase(op.Gemm, d, 3, 4, 0, false, false, 1, 0.5, []int{4}, nil))
	}
	for _, c := range [][]int{{}, {1}, {7}, {1, 7}, {6, 1}, {6, 7}, {1, 1}, nil} {
		for _, version := range []int{7, 9, 11, 13} {
			one := gemmCase(op.Gemm, graph.Float32, 6, 7, 3, false, true, 0.5, -2, c, nil)
			one.Name, one.Opset = fmt.Sprintf("%s version %d", one.Name, version), version
			cases = append(cases, one)
		}
	}
	for _, s := range [][3]int{{150, 200, 60}, {1, 300, 256}, {0, 3, 2}, {2, 0, 3}, {2, 3, 0}} {
		cases = append(cases, gemmCase(op.Gemm, graph.Float32, s[0], s[1], s[2], true, false, 1, 1, []int{s[1]}, nil))
		cases = append(cases,
			gemmCase(op.Gemm, graph.Float32, s[0], s[1], s[2], false, false, 1, 0.5, []int{s[0], 1}, nil))
	}
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Int32, graph.Uint64} { // Y may lie in C
		cases = append(cases, gemmCase(op.Gemm, d, 20, 30, 7, true, false, 2, 3, []int{20, 30}, nil))
	}
	// With beta 0, C is not read.
	unread := gemmCase(op.Gemm, graph.Float32, 2, 3, 4, false, false, 1, 0, []int{3}, nil)
	unread.In[2] = executor.NewTensor(graph.Float32, []int{3}, float32(math.NaN()), float32(math.Inf(1)), 0)
	cases = append(cases, unread)
	bad := func(name, text string, edit func(c *Case)) {
		c := gemmCase(op.Gemm, graph.Float32, 2, 3, 4, false, false, 1, 1, []int{3}, nil)
		edit(&c)
		c.Name, c.Fails, c.Want = name, text, nil
		cases = append(cases, c)
	}
	bad("bias too long", "input 2 has shape [4]", func(c *Case) { c.In[2] = productTensor(graph.Float32, 3, 4) })
	bad("bias of rank 3", "broadcasts to [2 3]", func(c *Case) { c.In[2] = productTensor(graph.Float32, 3, 1, 2, 3) })
	bad("inner dims", "4 columns meet 5 rows", func(c *Case) { c.In[1] = productTensor(graph.Float32, 3, 5, 3) })
	bad("rank", "wanted a matrix", func(c *Case) { c.In[0] = productTensor(graph.Float32, 3, 4) })
	bad("types", "input 1 has type", func(c *Case) { c.In[1] = productTensor(graph.Float64, 3, 4, 3) })
	fraction := gemmCase(op.Gemm, graph.Int32, 2, 3, 4, false, false, 1, 1, nil, nil)
	fraction.Name, fraction.Attrs[2], fraction.Fails = "fraction of integers", Attr("alpha", float32(0.5)),
		"not integers"
	fraction.Want = nil
	return append(append(cases, fraction), fusedGemmCases()...)
}

// fusedGemmCases have an activation each, by its definition.
func fusedGemmCases() []Case {
	var cases []Case
	add := func(name string, f func(float64) float64, extra ...graph.Attr) {
		for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16} {
			c := gemmCase(op.FusedGemm, d, 5, 9, 4, true, false, 0.5, 1, []int{9}, f)
			c.Name = fmt.Sprintf("%s %v %d", name, d, len(extra))
			c.Attrs = append(append(c.Attrs, Attr("activation", name)), extra...)
			cases = append(cases, c)
		}
	}
	add("Relu", func(x float64) float64 { return math.Max(x, 0) })
	add("Tanh", math.Tanh)
	add("Sigmoid", func(x float64) float64 { return 1 / (1 + math.Exp(-x)) })
	add("Softplus", func(x float64) float64 { return math.Log(1 + math.Exp(x)) })
	add("Softsign", func(x float64) float64 { return x / (1 + math.Abs(x)) })
	leaky := func(alpha float64) func(float64) float64 {
		return func(x float64) float64 { return math.Max(x, 0) + alpha*math.Min(x, 0) }
	}
	add("LeakyRelu", leaky(float64(float32(0.01))))
	add("LeakyRelu", leaky(0.25), Attr("activation_alpha", float32(0.25)))
	add("Elu", func(x float64) float64 { return math.Max(x, 0) + math.Min(math.Exp(x)-1, 0) })
	add("HardSigmoid", func(x float64) float64 { return math.Max(0, math.Min(1, float64(float32(0.2))*x+0.5)) })
	add("HardSigmoid", func(x float64) float64 { return math.Max(0, math.Min(1, 0.5*x+0.25)) },
		Attr("activation_alpha", float32(0.5)), Attr("activation_beta", float32(0.25)))
	add("ThresholdedRelu", func(x float64) float64 {
		if x > 1 {
			return x
		}
		return 0
	})
	bad := gemmCase(op.FusedGemm, graph.Float32, 2, 2, 2, false, false, 1, 1, nil, nil)
	bad.Name, bad.Want, bad.Fails = "activation", nil, "Mystery"
	bad.Attrs = append(bad.Attrs, Attr("activation", "Mystery"))
	return append(cases, bad)
}
