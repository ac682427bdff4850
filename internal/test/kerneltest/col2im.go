package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(col2ImCases) }

// col2ImCases add up columns place by place.
func col2ImCases() []Case {
	var cases []Case
	for _, s := range []struct {
		image, block []int
		win          convWindow
		n, c         int
		dtype        graph.DType
	}{
		{[]int{5, 6}, []int{2, 3}, convWindow{}, 2, 3, graph.Float32},
		{[]int{7, 6}, []int{3, 2},
			convWindow{stride: []int{2, 2}, dilation: []int{1, 2}, begin: []int{1, 0}, end: []int{1, 1}}, 1, 2,
			graph.Float64},
		{[]int{9}, []int{4}, convWindow{stride: []int{3}}, 1, 2, graph.Float16},
		{[]int{3, 4, 5}, []int{2, 2, 2}, convWindow{begin: []int{0, 1, 0}, end: []int{0, 1, 0}}, 1, 1, graph.Float32},
		{[]int{40, 50}, []int{3, 3}, convWindow{begin: []int{1, 1}, end: []int{1, 1}}, 2, 4, graph.Float32},
	} {
		w := s.win
		w.kernel = s.block
		win := w.over(s.image)
		taps, places, plane := win.volume([3]int(win.kernel)), win.volume(win.out), win.volume(win.in)
		x := convRandom(s.dtype, 14, s.n, s.c*taps, places)
		xs, y := convNumbers(x), make([]float64, s.n*s.c*plane)
		for p := range s.n * s.c {
			win.each(func(o, k, i int) {
				if i >= 0 {
					y[p*plane+i] += xs[(p*taps+k)*places+o]
				}
			})
		}
		attrs := s.win.attrs()
		cases = append(cases, Case{Name: fmt.Sprintf("%v by %v", s.image, s.block), Kind: op.Col2Im, Attrs: attrs,
			In: []*executor.Tensor{x, visionInts(s.image), visionInts(s.block)}, Out: []graph.DType{s.dtype},
			Want: []*executor.Tensor{convTensor(s.dtype, append([]int{s.n, s.c}, s.image...), y)},
			Tol:  convTol(s.dtype)})
	}
	fault := func(name, text string, x *executor.Tensor, image, block []int) Case {
		return Case{Name: name, Kind: op.Col2Im, In: []*executor.Tensor{x, visionInts(image), visionInts(block)},
			Out: []graph.DType{graph.Float32}, Fails: text}
	}
	x := convRandom(graph.Float32, 1, 1, 6, 20)
	return append(cases,
		fault("places", "the block's places", x, []int{5, 6}, []int{2, 3}),
		fault("block of 0", "input 2 has 0", x, []int{5, 6}, []int{0, 3}),
		fault("axes", "axes, wanted", x, []int{5, 6}, []int{3}),
		fault("rank", "rank 2", convRandom(graph.Float32, 1, 6, 20), []int{5, 6}, []int{2, 3}))
}

func visionInts(v []int) *executor.Tensor {
	t := make([]int64, len(v))
	for i, n := range v {
		t[i] = int64(n)
	}
	return executor.NewTensor(graph.Int64, []int{len(v)}, t...)
}
