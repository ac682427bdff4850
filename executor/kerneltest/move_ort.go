package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(moveGatherGradCases)
	register(movePaddingCases)
	register(moveEmbeddingCases)
	register(movePythonCases)
}

// moveZeros returns n zeros.
func moveZeros(n int) []float64 { return make([]float64, n) }

func moveGatherGradCases() []Case {
	var all []Case
	sums := []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16}
	gather := func(name string, d graph.DType, shape []int, axis int, at *executor.Tensor) {
		to := append(append(append([]int{}, shape[:axis]...), at.Shape...), shape[axis+1:]...)
		n, total := moveEmpty(graph.Bool, to...).Len(), moveEmpty(graph.Bool, shape...).Len()
		dy, dx := moveRamp(n), moveZeros(total)
		inner := moveEmpty(graph.Bool, shape[axis+1:]...).Len()
		for i := range n {
			row := i / inner
			o := row/at.Len()*shape[axis] + movePlace(at, row%at.Len(), shape[axis])
			dx[o*inner+i%inner] += dy[i]
		}
		all = append(all, moveCase(op.GatherGrad, name, moveValues(d, shape, dx...), moveAttrs("axis", int64(axis)),
			moveDims(shape), at, moveValues(d, to, dy...)))
	}
	for _, d := range sums {
		gather(fmt.Sprint("rows ", d), d, []int{4, 3}, 0, moveReshaped(moveLongs(1, -1, 1, 0), 2, 2))
		gather(fmt.Sprint("columns ", d), d, []int{3, 4}, 1, moveLongs(3, 3, 0))
	}
	gather("scalar", graph.Float32, []int{3, 4}, 0, moveScalar(2))
	gather("int32", graph.Float32, []int{3, 4}, 0, moveShorts(2, 2))
	gather("no indices", graph.Float32, []int{3, 4}, 0, moveLongs())
	gather("large", graph.Float32, []int{90, 100}, 0, moveLongs(moveIndices(700, 90)...))
	gather("large narrow", graph.Float32, []int{900, 3}, 0, moveLongs(moveIndices(9000, 900)...))
	gather("large elements", graph.Float32, []int{2, 900}, 1, moveLongs(moveIndices(20000, 900)...))
	gather("large middle", graph.Float32, []int{30, 20, 10}, 1, moveLongs(moveIndices(100, 20)...))

	nd := func(name string, d graph.DType, shape, to []int, at *executor.Tensor, batch int) {
		dy := moveRamp(moveEmpty(graph.Bool, to...).Len())
		full := at // as tuples without batch axes
		if batch == 1 {
			full = moveEmpty(graph.Int64, at.Shape[0], at.Shape[1], 1+at.Shape[2])
			list := executor.Of[int64](full)[:0]
			for i := range at.Shape[0] * at.Shape[1] {
				list = append(append(list, int64(i/at.Shape[1])),
					executor.Of[int64](at)[i*at.Shape[2]:(i+1)*at.Shape[2]]...)
			}
		}
		dx := moveScatteredRows("add", shape, moveZeros(moveEmpty(graph.Bool, shape...).Len()), full, dy)
		all = append(all,
			moveCase(op.GatherNDGrad, name, moveValues(d, shape, dx...), moveAttrs("batch_dims", int64(batch)),
				moveDims(shape), at, moveValues(d, to, dy...)))
	}
	for _, d := range sums {
		nd(fmt.Sprint("rows ", d), d, []int{3, 2}, []int{3, 2}, moveReshaped(moveLongs(2, 0, -1), 3, 1), 0)
	}
	nd("batch", graph.Float32, []int{2, 3, 2}, []int{2, 2, 2}, moveReshaped(moveLongs(1, 1, 2, -3), 2, 2, 1), 1)
	nd("large", graph.Float32, []int{70, 60}, []int{15000},
		moveReshaped(moveLongs(moveIndices(30000, 60)...), 15000, 2), 0)

	elements := func(name string, d graph.DType, shape []int, axis int, at *executor.Tensor) {
		dy := moveRamp(at.Len())
		dx := moveScattered("add", shape, moveZeros(moveEmpty(graph.Bool, shape...).Len()), at, dy, axis)
		all = append(all,
			moveCase(op.GatherElementsGrad, name, moveValues(d, shape, dx...), moveAttrs("axis", int64(axis)),
				moveValues(d, at.Shape, dy...), moveDims(shape), at))
	}
	for _, d := range sums {
		elements(fmt.Sprint(d), d, []int{3, 4}, 1, moveReshaped(moveLongs(1, 1, -3, 0, 3, -1), 2, 3))
	}
	elements("large", graph.Float32, []int{50, 60, 20}, 1,
		moveReshaped(moveLongs(moveIndices(50*30*20, 60)...), 50, 30, 20))
	dy := moveFloats([]int{2, 2}, 1, 2, 3, 4)
	grad := func(kind graph.Kind, name, message string, in ...*executor.Tensor) Case {
		return Case{Name: name, Kind: kind, In: in, Out: []graph.DType{graph.Float32}, Fails: message}
	}
	return append(all,
		grad(op.GatherGrad, "other shape", "input 2 has shape", moveLongs(3, 3), moveLongs(0, 1), dy),
		grad(op.GatherGrad, "outside", "index 3", moveLongs(3, 2), moveLongs(0, 3), dy),
		grad(op.GatherGrad, "negative dim", "dim -3", moveLongs(-3, 2), moveLongs(0, 1), dy),
		grad(op.GatherGrad, "huge", "shape", moveLongs(1<<61, 2), moveLongs(0, 1), dy),
		grad(op.GatherNDGrad, "huge", "shape", moveLongs(1<<61, 2), moveReshaped(moveLongs(0, 1), 2, 1), dy),
		grad(op.GatherNDGrad, "other shape", "input 2 has shape",
			moveLongs(3, 3), moveReshaped(moveLongs(0, 1), 2, 1), dy),
		grad(op.GatherElementsGrad, "other shape", "input 0 has shape",
			dy, moveLongs(3, 3), moveReshaped(moveLongs(0, 1), 2, 1)))
}

// moveDims returns a shape as a list.
func moveDims(shape []int) *executor.Tensor {
	t := moveLongs(make([]int64, len(shape))...)
	for i, d := range shape {
		executor.Of[int64](t)[i] = int64(d)
	}
	return t
}

func movePaddingCases() []Case {
	var all []Case
	for _, d := range moveTypes {
		x, at := moveCount(d, 2, 3, 4), moveLongs(5, 0, 2)
		rows := moveGathered(moveReshaped(x, 6, 4), at, 0)
		unpad := moveCase(op.FlattenAndUnpad, fmt.Sprint(d), rows, nil, x, at)
		unpad.Out, unpad.Want = append(unpad.Out, graph.Int64), append(unpad.Want, moveLongs(2, 3))
		padded := movePick(rows, []int{2, 3, 4}, func(i []int) int {
			for n, o := range []int{5, 0, 2} {
				if o == i[0]*3+i[1] {
					return n*4 + i[2]
				}
			}
			return -1
		})
		all = append(all, unpad, moveCase(op.PadAndUnflatten, fmt.Sprint(d), padded, nil, rows, at, moveLongs(2, 3)))
	}
	x := moveCount(graph.Float32, 2, 3)
	bare := moveCount(graph.Float32, 2, 3)
	return append(all,
		moveCase(op.FlattenAndUnpad, "rank 2", moveGathered(moveReshaped(bare, 6), moveLongs(1), 0), nil, bare,
			moveLongs(1)),
		moveCase(op.PadAndUnflatten, "twice the same", movePick(x, []int{1, 2, 3}, func(i []int) int {
			if i[1] == 1 {
				return 3 + i[2]
			}
			return -1
		}), nil, x, moveLongs(1, 1), moveLongs(1, 2)),
		moveFails(op.FlattenAndUnpad, "outside", "index 6", nil, x, moveLongs(6)),
		moveFails(op.FlattenAndUnpad, "rank", "rank", nil, moveCount(graph.Float32, 3), moveLongs(1)),
		moveFails(op.PadAndUnflatten, "outside", "index 2", nil, x, moveLongs(0, 2), moveLongs(1, 2)),
		moveFails(op.PadAndUnflatten, "count", "as many", nil, x, moveLongs(0), moveLongs(1, 2)),
		moveFails(op.PadAndUnflatten, "huge", "memory", nil, x, moveLongs(0, 1), moveLongs(1<<40, 1<<40)))
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

func movePythonCases() []Case {
	x := moveCount(graph.Float32, 2)
	return []Case{
		moveFails(op.PythonOp, "call", "calls Python", nil, x),
		moveFails(op.PythonOpGrad, "call", "calls Python", nil, x),
	}
}
