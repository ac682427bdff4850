package kerneltest

import (
	"fmt"
	"strings"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(einsumCases) }

// productEinsum sums, for every combination of labels, the product of the operands' elements. The
// axes of an ellipsis must be given as labels. An axis of length 1 is repeated.
func productEinsum(equation string, in ...productWide) productWide {
	left, right, _ := strings.Cut(equation, "->")
	terms := strings.Split(left, ",")
	dims := map[rune]int{}
	var labels []rune
	for i, term := range terms {
		for a, l := range term {
			if _, seen := dims[l]; !seen {
				labels = append(labels, l)
			}
			if d := in[i].shape[a]; d != 1 || dims[l] == 0 {
				dims[l] = d
			}
		}
	}
	out := productWide{shape: []int{}}
	n := 1
	for _, l := range right {
		out.shape = append(out.shape, dims[l])
		n *= dims[l]
	}
	out.v = make([]float64, n)
	all := make([]int, len(labels))
	for i, l := range labels {
		all[i] = dims[l]
	}
	value := map[rune]int{}
	indices := func(term string) []int {
		var index []int
		for _, l := range term {
			index = append(index, value[l])
		}
		return index
	}
	productEach(all, func(index []int) float64 {
		for i, l := range labels {
			value[l] = index[i]
		}
		v := 1.0
		for i, term := range terms {
			v *= in[i].at(indices(term))
		}
		at := 0
		for i, x := range indices(right) {
			at = at*out.shape[i] + x
		}
		out.v[at] += v
		return 0
	})
	return out
}

func einsumCases() []Case {
	var cases []Case
	// plain is the equation without ellipsis and with its result.
	add := func(d graph.DType, equation, plain string, shapes ...[]int) {
		c := Case{Name: fmt.Sprintf("%v %s %v", d, equation, shapes), Kind: op.Einsum,
			Attrs: []graph.Attr{Attr("equation", equation)}, Out: []graph.DType{d}, Tol: productTolerance(d)}
		var wide []productWide
		for i, s := range shapes {
			t := productTensor(d, i+1, s...)
			c.In, wide = append(c.In, t), append(wide, productWiden(t))
		}
		c.Want = []*executor.Tensor{productEinsum(plain, wide...).tensor(d)}
		cases = append(cases, c)
	}
	for _, d := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16, graph.Int32,
		graph.Int64, graph.Uint32, graph.Uint64} {
		add(d, "ij,jk->ik", "ij,jk->ik", []int{3, 4}, []int{4, 5})
		add(d, "...ij, ...jk", "aij,ajk->aik", []int{2, 3, 4}, []int{2, 4, 5})
		add(d, "ii->i", "ii->i", []int{4, 4})
		add(d, "bij->b", "bij->b", []int{2, 3, 4})
	}
	for _, e := range []struct {
		equation, plain string
		shapes          [][]int
	}{
		{"i->", "i->", [][]int{{7}}},
		{"->", "->", [][]int{{}}},
		{",->", ",->", [][]int{{}, {}}},
		{",ij->ji", ",ij->ji", [][]int{{}, {2, 3}}},
		{"ij", "ij->ij", [][]int{{2, 3}}},
		{"ba", "ba->ab", [][]int{{2, 3}}},
		{"iij->ji", "iij->ji", [][]int{{3, 3, 2}}},
		{"i,i", "i,i->", [][]int{{5}, {5}}},
		{"i,j->ij", "i,j->ij", [][]int{{3}, {4}}},
		{"ij,ij->ij", "ij,ij->ij", [][]int{{30, 900}, {30, 900}}},
		{"bi,bi->b", "bi,bi->b", [][]int{{5, 6}, {5, 6}}},
		{"bhid,bhjd->bhij", "bhid,bhjd->bhij", [][]int{{2, 3, 10, 8}, {2, 3, 9, 8}}},
		{"bihd,bjhd->bhij", "bihd,bjhd->bhij", [][]int{{2, 10, 3, 8}, {2, 9, 3, 8}}},
		{"bhij,bjhd->bihd", "bhij,bjhd->bihd", [][]int{{2, 3, 10, 9}, {2, 9, 3, 8}}},
		{"bij,bjk->bki", "bij,bjk->bki", [][]int{{2, 30, 40}, {2, 40, 50}}},
		{"ijk,kl->ijl", "ijk,kl->ijl", [][]int{{4, 5, 6}, {6, 7}}},
		{"ijk,jil->kl", "ijk,jil->kl", [][]int{{4, 5, 6}, {5, 4, 7}}},
		{"abc,cd,de->abe", "abc,cd,de->abe", [][]int{{2, 3, 4}, {4, 5}, {5, 6}}},
		{"ab,bc,cd,da->", "ab,bc,cd,da->", [][]int{{2, 3}, {3, 4}, {4, 5}, {5, 2}}},
		{"ij,kj->", "ij,kj->", [][]int{{3, 4}, {5, 4}}},
		{"ijx,jk->ik", "ijx,jk->ik", [][]int{{3, 4, 2}, {4, 5}}},
		{"i...,i...->...", "iab,iab->ab", [][]int{{4, 2, 3}, {4, 2, 3}}},
		{"...i,...i->...", "i,bi->b", [][]int{{4}, {3, 4}}},
		{"...ij,...jk->...ik", "aij,bajk->baik", [][]int{{1, 3, 4}, {2, 5, 4, 2}}},
		{"b...,...", "bac,c->acb", [][]int{{2, 3, 4}, {4}}},
		{"...", "ab->ab", [][]int{{2, 3}}},
		{"...->", "ab->", [][]int{{2, 3}}},
		{"ij,jk->ik", "ij,jk->ik", [][]int{{0, 3}, {3, 2}}},
		{"ij,jk->ik", "ij,jk->ik", [][]int{{2, 0}, {0, 3}}},
		{"ij->i", "ij->i", [][]int{{3, 0}}},
		{"ij->j", "ij->j", [][]int{{200, 150}}},
		{"ij,jk->ik", "ij,jk->ik", [][]int{{1, 3}, {1, 2}}},
		{"aij,ajk->aik", "aij,ajk->aik", [][]int{{3, 40, 50}, {3, 50, 60}}},
		{"aij,ajk->iak", "aij,ajk->iak", [][]int{{3, 4, 5}, {3, 5, 6}}},
		{"aij,akj->aki", "aij,akj->aki", [][]int{{3, 4, 5}, {3, 6, 5}}},
		{"aiij,ajk->ak", "aiij,ajk->ak", [][]int{{3, 4, 4, 5}, {3, 5, 6}}},
	} {
		add(graph.Float32, e.equation, e.plain, e.shapes...)
	}
	return append(cases, einsumFaults()...)
}

func einsumFaults() []Case {
	var cases []Case
	fails := func(equation, text string, shapes ...[]int) {
		c := Case{Name: "fault " + equation, Kind: op.Einsum, Attrs: []graph.Attr{Attr("equation", equation)},
			Out: []graph.DType{graph.Float32}, Fails: text}
		for _, s := range shapes {
			c.In = append(c.In, productTensor(graph.Float32, 1, s...))
		}
		cases = append(cases, c)
	}
	fails("ij,jk->ik", "axis 0 is 4 long, and 3 elsewhere", []int{2, 3}, []int{4, 5})
	fails("ij,jk->ik", "its term in the equation 2 labels", []int{2, 3}, []int{3})
	fails("ii->i", "axis 1 is 3 long", []int{2, 3})
	fails("ij->ijk", "label k, which no operand has", []int{2, 3})
	fails("ij->ii", "label i twice", []int{2, 3})
	fails("i j;->i", "letters", []int{2, 3})
	fails("i,j->i", "2 operands and the node 1 inputs", []int{2})
	fails("...i...->i", "two ellipses", []int{2})
	fails("...ij->i", "2 labels", []int{2})
	for i := range cases {
		cases[i].Name = fmt.Sprintf("%s %d", cases[i].Name, i)
	}
	return cases
}
