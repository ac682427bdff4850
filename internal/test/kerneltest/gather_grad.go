package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(moveGatherGradCases) }

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
