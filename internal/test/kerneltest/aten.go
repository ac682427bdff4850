package kerneltest

import (
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(moveEmbeddingCases) }

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
