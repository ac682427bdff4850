package kerneltest

import (
	"strings"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(moveEmbeddingCases)
	register(atenTorchCases)
	register(atenOtherCases)
}

// atenFlag makes a bool.
func atenFlag(v uint8) *executor.Tensor { return executor.NewTensor(graph.Bool, []int{}, v) }

// atenAttrs names a function with its overload.
func atenAttrs(function string) []graph.Attr {
	name, overload, _ := strings.Cut(function, ".")
	if overload == "" {
		return moveAttrs("operator", name)
	}
	return moveAttrs("operator", name, "overload_name", overload)
}

// atenCase is a case of a function.
func atenCase(name, function string, tol float64, want []*executor.Tensor, in ...*executor.Tensor) Case {
	c := Case{Name: function + ", " + name, Kind: op.ATen, Attrs: atenAttrs(function), In: in, Want: want, Tol: tol}
	for _, t := range want {
		c.Out = append(c.Out, t.DType)
	}
	return c
}

// atenOtherCases: 16-bit types, and operands that do not fit.
func atenOtherCases() []Case {
	half := func(shape []int, v ...float64) *executor.Tensor { return moveValues(graph.Float16, shape, v...) }
	one, no := moveLongs(1, 1), atenFlag(0)
	x := moveFloats([]int{1, 1, 2, 2}, 1, 2, 3, 4)
	fails := func(name, function, message string, in ...*executor.Tensor) Case {
		return moveFails(op.ATen, function+", "+name, message, atenAttrs(function), in...)
	}
	return []Case{
		atenCase("half", "max_pool2d_with_indices", 0,
			[]*executor.Tensor{half([]int{1, 1, 1, 1}, 4), moveReshaped(moveLongs(3), 1, 1, 1, 1)},
			half([]int{1, 1, 2, 2}, 1, 2, 3, 4), moveLongs(2, 2), moveLongs(), moveLongs(0, 0), one, no),
		atenCase("half", "avg_pool2d", 0, []*executor.Tensor{half([]int{1, 1, 1, 1}, 2.5)},
			half([]int{1, 1, 2, 2}, 1, 2, 3, 4), moveLongs(2), nil, nil, no, no),
		fails("rank", "max_pool2d_with_indices", "two spatial axes", moveFloats([]int{2}, 1, 2), one),
		fails("three sizes", "max_pool2d_with_indices", "wanted two integers", x, moveLongs(1, 1, 1)),
		fails("wide pads", "avg_pool2d", "at most half", x, moveLongs(2, 2), one, moveLongs(2, 2), no),
		fails("divisor", "avg_pool2d", "wanted a divisor", x, one, one, moveLongs(0, 0), no, no, moveScalar(0)),
		fails("index", "max_pool2d_with_indices_backward", "index 9", x, x, one, one, moveLongs(0, 0), one, no,
			moveReshaped(moveLongs(0, 1, 9, 2), 1, 1, 2, 2)),
		fails("axis", "max.dim", "outside the rank", x, moveScalar(4), no),
		fails("equal axes", "diagonal", "wanted two axes", x, moveScalar(0), moveScalar(1), moveScalar(1)),
		fails("long pieces", "unfold", "do not fit", x, moveScalar(2), moveScalar(3), moveScalar(1)),
		fails("groups", "native_group_norm", "do not divide", moveFloats([]int{1, 3}, 1, 2, 3),
			moveFloats([]int{3}, 1, 1, 1), moveFloats([]int{3}, 1, 1, 1), moveScalar(1), moveScalar(3), moveScalar(1),
			moveScalar(2), moveFloats([]int{}, 1e-5)),
		fails("drawn by PyTorch", "multinomial", "generator", x, moveScalar(2), no),
	}
}

// moveEmbeddingCases: the numbers are those of torch.nn.functional.embedding and of its gradient.
func moveEmbeddingCases() []Case {
	name := func(s string) []graph.Attr { return moveAttrs("operator", s) }
	flag := func(v uint8) *executor.Tensor { return executor.NewTensor(graph.Bool, []int{}, v) }
	w := moveFloats([]int{3, 2}, 1, 2, 3, 4, 5, 6)
	at := moveReshaped(moveLongs(2, 0, 2, 1), 2, 2)
	dy := moveFloats([]int{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8)
	off, minus := flag(0), moveScalar(-1)
	grad := func(v ...float32) *executor.Tensor { return moveFloats([]int{3, 2}, v...) }
	large := moveRamp(700 * 40)
	places := moveLongs(moveIndices(700, 50)...)
	for i, p := range executor.Of[int64](places) {
		executor.Of[int64](places)[i] = (p + 50) % 50
	}
	sum := moveScatteredRows("add", []int{50, 40}, moveZeros(2000), moveReshaped(places, 700, 1), large)
	return []Case{
		moveCase(op.ATen, "embedding", moveFloats([]int{2, 2, 2}, 5, 6, 1, 2, 5, 6, 3, 4), name("embedding"), w, at,
			minus, off, off),
		moveCase(op.ATen, "aten::embedding", moveFloats([]int{2, 2, 2}, 5, 6, 1, 2, 5, 6, 3, 4),
			name("aten::embedding"), w, at),
		moveCase(op.ATen, "backward", grad(3, 4, 7, 8, 6, 8), name("embedding_backward"), dy, at, moveScalar(3),
			minus, off, off),
		moveCase(op.ATen, "dense backward", grad(3, 4, 7, 8, 6, 8), name("embedding_dense_backward"), dy, at,
			moveScalar(3), minus, off),
		moveCase(op.ATen, "backward of few inputs",
			grad(3, 4, 7, 8, 6, 8), name("aten::embedding_backward"), dy, at, w),
		moveCase(op.ATen, "backward with padding", grad(3, 4, 7, 8, 0, 0), name("embedding_backward"), dy, at,
			moveScalar(3), moveScalar(2), off, off),
		moveCase(op.ATen, "backward by frequency", grad(3, 4, 7, 8, 3, 4), name("embedding_backward"), dy, at,
			moveScalar(3), minus, flag(1), off),
		moveCase(op.ATen, "backward, half", moveValues(graph.Float16, []int{3, 2}, 3, 4, 7, 8, 6, 8),
			name("embedding_backward"),
			moveValues(graph.Float16, []int{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8), at, moveScalar(3), minus, off, flag(1)),
		moveCase(op.ATen, "backward, large", moveValues(graph.Float32, []int{50, 40}, sum...),
			name("embedding_backward"),
			moveValues(graph.Float32, []int{700, 40}, large...), places, moveScalar(50), minus, off, off),
		moveFails(op.ATen, "negative index", "outside", name("embedding"), w, moveLongs(-1)),
		moveFails(op.ATen, "outside", "outside", name("embedding_backward"), dy, at, moveScalar(2), minus, off, off),
		moveFails(op.ATen, "negative rows", "number of rows", name("embedding_backward"), dy, at, moveScalar(-2),
			minus, off, off),
		moveFails(op.ATen, "other shape", "input 0 has shape", name("embedding_backward"), w, at, moveScalar(3),
			minus, off, off),
		moveFails(op.ATen, "other operator", `"aten::_local_scalar_dense"`, name("aten::_local_scalar_dense"), w),
	}
}
