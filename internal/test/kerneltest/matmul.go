package kerneltest

import (
	"fmt"
	"slices"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(matMulCases) }

func matMulCases() []Case {
	var cases []Case
	add := func(d graph.DType, a, b []int) {
		x, y := productTensor(d, 1, a...), productTensor(d, 2, b...)
		cases = append(cases,
			Case{Name: fmt.Sprintf("%v %v x %v", d, a, b), Kind: op.MatMul, In: []*executor.Tensor{x, y},
				Out:  []graph.DType{d},
				Want: []*executor.Tensor{productMatMul(productWiden(x), productWiden(y)).tensor(d)},
				Tol:  productTolerance(d)})
	}
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Int32, graph.Int64, graph.Uint32, graph.Uint64,
		graph.Float16, graph.BFloat16} {
		add(d, []int{3, 4}, []int{4, 5})
		add(d, []int{2, 3, 4}, []int{4, 5})
		add(d, []int{2, 1, 3, 4}, []int{5, 4, 2})
		add(d, []int{4}, []int{4})
		add(d, []int{2, 0}, []int{0, 3})
	}
	for _, s := range [][2][]int{
		{{4}, {4, 3}}, {{3, 4}, {4}}, {{4}, {2, 4, 3}}, {{2, 3, 4}, {4}}, {{0, 4}, {4, 3}}, {{2, 4}, {4, 0}},
		{{0, 3, 4}, {4, 5}}, {{0, 3, 4}, {1, 4, 5}}, {{2, 3, 4}, {0, 2, 4, 5}}, {{3, 1, 2, 4}, {1, 2, 4, 3}},
		{{1, 4}, {5, 4, 3}},
		{{130, 70}, {70, 90}}, {{70, 40, 12}, {70, 12, 30}}, {{600, 33}, {33, 17}}, {{1, 300}, {300, 200}},
		{{200, 300}, {300, 1}},
		{{2, 3, 5, 4}, {1, 3, 4, 6}}, {{3, 70, 8}, {1, 8, 80}}, {{1}, {1}}, {{0}, {0}},
	} {
		add(graph.Float32, s[0], s[1])
	}
	for _, d := range []graph.DType{graph.Float16, graph.BFloat16} { // in several blocks of rows, columns and terms
		add(d, []int{200, 410}, []int{410, 300})
		add(d, []int{1, 300}, []int{300, 600})
		add(d, []int{2, 1, 195, 5}, []int{3, 5, 260})
	}
	fails := func(name, text string, a, b *executor.Tensor) {
		cases = append(cases,
			Case{Name: name, Kind: op.MatMul, In: []*executor.Tensor{a, b}, Out: []graph.DType{a.DType}, Fails: text})
	}
	fails("inner dims", "4 columns meet 3 rows", productTensor(graph.Float32, 1, 2, 4),
		productTensor(graph.Float32, 1, 3, 2))
	fails("scalar", "scalars", productTensor(graph.Float32, 1), productTensor(graph.Float32, 1, 3, 2))
	fails("batch", "dims 2 and 3", productTensor(graph.Float32, 1, 2, 3, 4), productTensor(graph.Float32, 1, 3, 4, 2))
	fails("types", "wanted the same", productTensor(graph.Float32, 1, 2, 4), productTensor(graph.Float64, 1, 4, 2))
	fails("type", "no kernel for input types", productTensor(graph.Bool, 1, 2, 4), productTensor(graph.Bool, 1, 4, 2))
	cases = append(cases, fusedMatMulCases()...)
	return append(cases, matMulAddCases(cases)...)
}

// matMulAddCases add a tensor to the products of other cases.
func matMulAddCases(products []Case) (cases []Case) {
	kinds := map[graph.Kind]graph.Kind{op.MatMul: op.MatMulAdd, op.FusedMatMul: op.FusedMatMulAdd}
	for _, c := range products {
		switch {
		case !c.In[0].DType.IsFloat() && c.Fails == "", hasAttr(c.Attrs, "transBatchA"),
			hasAttr(c.Attrs, "transBatchB"):
			continue
		case c.Fails != "":
			c.In = append(slices.Clone(c.In), productTensor(c.In[0].DType, 3, 2, 2))
		default:
			sum := productTensor(c.In[0].DType, 3, c.Want[0].Shape...)
			x, y := productWiden(sum), productWiden(c.Want[0])
			for i := range y.v {
				y.v[i] += x.v[i]
			}
			c.In, c.Want = append(slices.Clone(c.In), sum), []*executor.Tensor{y.tensor(sum.DType)}
		}
		c.Kind = kinds[c.Kind]
		cases = append(cases, c)
	}
	wrong := func(text string, d graph.DType, shape ...int) {
		x := productTensor(graph.Float32, 1, 2, 3, 4)
		cases = append(cases, Case{Name: text, Kind: op.MatMulAdd, Out: []graph.DType{graph.Float32}, Fails: text,
			In: []*executor.Tensor{x, productTensor(graph.Float32, 2, 2, 4, 5), productTensor(d, 3, shape...)}})
	}
	wrong("wanted the product's, [2 3 5]", graph.Float32, 3, 5)
	wrong("wanted the product's, [2 3 5]", graph.Float32, 2, 3, 1)
	wrong("wanted float32 as input 0", graph.Float64, 2, 3, 5)
	return cases
}

// hasAttr reports whether an attribute is set and not 0.
func hasAttr(attrs []graph.Attr, name string) bool {
	return slices.ContainsFunc(attrs, func(a graph.Attr) bool { return a.Name == name && a.Value != int64(0) })
}

// fusedMatMulCases cover all transpositions.
func fusedMatMulCases() []Case {
	var cases []Case
	for k := range 32 {
		d, bits := []graph.DType{graph.Float32, graph.BFloat16}[k/16], k%16
		on := func(bit int) bool { return bits&bit != 0 }
		a, b := productShape([]int{6, 2, 3}, on(1), on(4)), productShape([]int{6, 3, 4}, on(2), on(8))
		x, y := productTensor(d, 1, a...), productTensor(d, 2, b...)
		want := productMatMul(productTurned(productWiden(x), on(1), on(4)),
			productTurned(productWiden(y), on(2), on(8)))
		for i := range want.v {
			want.v[i] *= 0.5
		}
		flag := func(bit int) int64 { return int64(bits / bit & 1) }
		cases = append(cases, Case{Name: fmt.Sprintf("%v, transpositions %04b", d, bits), Kind: op.FusedMatMul,
			Attrs: []graph.Attr{Attr("transA", flag(1)), Attr("transB", flag(2)), Attr("transBatchA", flag(4)),
				Attr("transBatchB", flag(8)),
				Attr("alpha", float32(0.5))},
			In: []*executor.Tensor{x, y}, Out: []graph.DType{d},
			Want: []*executor.Tensor{want.tensor(d)}, Tol: productTolerance(d)})
	}
	x, y := productTensor(graph.Float16, 1, 4), productTensor(graph.Float16, 2, 3, 4)
	want := productMatMul(productWiden(x), productWiden(y).swapped())
	return append(cases,
		Case{Name: "vector", Kind: op.FusedMatMul,
			Attrs: []graph.Attr{Attr("transA", int64(1)), Attr("transB", int64(1))},
			In:    []*executor.Tensor{x, y}, Out: []graph.DType{graph.Float16},
			Want: []*executor.Tensor{want.tensor(graph.Float16)}, Tol: 1e-3})
}

// productShape returns the shape that an operand has before FusedMatMul's transpositions.
func productShape(s []int, trans, batch bool) []int {
	if trans {
		s[1], s[2] = s[2], s[1]
	}
	if batch {
		s[0], s[1] = s[1], s[0]
	}
	return s
}

func productTurned(w productWide, trans, batch bool) productWide {
	if batch {
		w = w.behind()
	}
	if trans {
		w = w.swapped()
	}
	return w
}
