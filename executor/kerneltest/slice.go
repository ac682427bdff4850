package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(moveSliceCases)
	register(moveSliceGradCases)
	register(movePadCases)
	register(moveCropCases)
	register(moveViewCases)
}

// movePlaces lists the places that a slice takes, as Python's range does.
func movePlaces(first, end, step int) []int {
	var at []int
	for i := first; step > 0 && i < end || step < 0 && i > end; i += step {
		at = append(at, i)
	}
	return at
}

// moveSliced takes the given places of each axis.
func moveSliced(x *executor.Tensor, places ...[]int) *executor.Tensor {
	shape := make([]int, len(places))
	for i, at := range places {
		shape[i] = len(at)
	}
	return movePick(x, shape, func(index []int) int {
		from := make([]int, len(index))
		for k, i := range index {
			from[k] = places[k][i]
		}
		return moveAt(x.Shape, from...)
	})
}

func moveSliceCases() []Case {
	x := moveCount(graph.Float32, 5, 6, 2)
	all, two := movePlaces(0, 6, 1), movePlaces(0, 2, 1)
	var cases []Case
	add := func(name string, want *executor.Tensor, in ...*executor.Tensor) {
		cases = append(cases, moveCase(op.Slice, name, want, nil, in...))
	}
	for _, d := range moveTypes {
		y := moveCount(d, 5, 6, 2)
		add(fmt.Sprint("type ", d), moveSliced(y, []int{1, 2, 3}, []int{5, 3, 1}, two), y, moveLongs(1, -1),
			moveLongs(4, -7), moveLongs(0, 1), moveLongs(1, -2))
	}
	add("defaults", moveSliced(x, []int{2, 3, 4}, []int{0, 1}, two), x, moveLongs(2, 0), moveLongs(100, 2))
	add("int32", moveSliced(x, []int{2, 3, 4}, all, two), x, moveShorts(-3), moveShorts(math.MaxInt32), moveShorts(0),
		moveShorts(1))
	add("negative axis", moveSliced(x, movePlaces(0, 5, 1), all, []int{1}), x, moveLongs(-1), moveLongs(math.MaxInt64),
		moveLongs(-1))
	add("to before the start", moveSliced(x, []int{4, 3, 2, 1, 0}, all, two), x, moveLongs(math.MaxInt64),
		moveLongs(math.MinInt64), moveLongs(0), moveLongs(-1))
	add("reversed last", moveSliced(x, movePlaces(0, 5, 1), all, []int{1, 0}), x, moveLongs(1), moveLongs(-3),
		moveLongs(2), moveLongs(-1))
	add("empty", moveSliced(x, nil, all, two), x, moveLongs(3), moveLongs(2), moveLongs(0))
	add("start beyond", moveSliced(x, nil, all, two), x, moveLongs(7), moveLongs(9), moveLongs(0))
	add("large step", moveSliced(x, []int{1}, all, two), x, moveLongs(1), moveLongs(5), moveLongs(0),
		moveLongs(math.MaxInt64))
	add("large step down", moveSliced(x, []int{4}, all, two), x, moveLongs(-1), moveLongs(-6), moveLongs(0),
		moveLongs(math.MinInt64))
	add("of nothing", moveEmpty(graph.Float32, 0, 2), moveEmpty(graph.Float32, 0, 3), moveLongs(0, 1), moveLongs(2, 3),
		moveLongs(0, 1), moveLongs(-1, 1))
	large := moveCount(graph.Float32, 200, 300)
	add("large", moveSliced(large, movePlaces(10, 190, 1), movePlaces(1, 300, 2)), large, moveLongs(10, 1),
		moveLongs(190, 300), moveLongs(0, 1), moveLongs(1, 2))
	attrs := moveAttrs("starts", []int64{0, -4}, "ends", []int64{-1, 1000}, "axes", []int64{0, 1})
	bare := moveAttrs("starts", []int64{1}, "ends", []int64{3})
	return append(cases,
		moveOpset(7, moveCase(op.Slice, "attributes",
			moveSliced(x, []int{0, 1, 2, 3}, []int{2, 3, 4, 5}, two), attrs, x)),
		moveOpset(7, moveCase(op.Slice, "attributes without axes", moveSliced(x, []int{1, 2}, all, two), bare, x)),
		moveCase(op.DynamicSlice, "bounds", moveSliced(x, []int{1, 2}, all, []int{1}), nil, x, moveLongs(1, -1),
			moveLongs(3, 9), moveLongs(0, 2)),
		moveFails(op.Slice, "step 0", "step 0 is 0", nil, x, moveLongs(0), moveLongs(1), moveLongs(0), moveLongs(0)),
		moveFails(op.Slice, "counts", "equally many", nil, x, moveLongs(0), moveLongs(1, 2)),
		moveFails(op.Slice, "axis outside", "axis 3", nil, x, moveLongs(0), moveLongs(1), moveLongs(3)),
		moveFails(op.Slice, "axis twice", "twice", nil, x, moveLongs(0, 0), moveLongs(1, 1), moveLongs(0, -3)))
}

func moveSliceGradCases() []Case {
	// The gradient puts each element back where the slice took it from.
	back := func(dy *executor.Tensor, shape []int, places ...[]int) *executor.Tensor {
		return movePick(dy, shape, func(index []int) int {
			at := make([]int, len(index))
			for k, i := range index {
				at[k] = -1
				for n, p := range places[k] {
					if p == i {
						at[k] = n
					}
				}
				if at[k] < 0 {
					return -1
				}
			}
			return moveAt(dy.Shape, at...)
		})
	}
	dy := moveCount(graph.Float32, 2, 3)
	large := moveCount(graph.Float32, 180, 150)
	return []Case{
		moveCase(op.SliceGrad, "rows", back(dy, []int{4, 3}, []int{1, 2}, []int{0, 1, 2}), nil, dy, moveLongs(4, 3),
			moveLongs(1), moveLongs(3)),
		moveCase(op.SliceGrad, "steps", back(dy, []int{4, 7}, []int{3, 1}, []int{1, 3, 5}), nil,
			dy, moveLongs(4, 7), moveLongs(-1, 1), moveLongs(0, 7), moveLongs(0, 1), moveLongs(-2, 2)),
		moveCase(op.SliceGrad, "double",
			back(moveCount(graph.Float64, 2, 3), []int{2, 4}, []int{0, 1}, []int{0, 1, 2}), nil,
			moveCount(graph.Float64, 2, 3), moveLongs(2, 4), moveLongs(0), moveLongs(-1), moveLongs(1), moveLongs(1)),
		moveCase(op.SliceGrad, "half", back(moveCount(graph.Float16, 1, 3), []int{2, 3}, []int{1}, []int{0, 1, 2}), nil,
			moveCount(graph.Float16, 1, 3), moveLongs(2, 3), moveLongs(1), moveLongs(2)),
		moveCase(op.SliceGrad, "empty", moveEmpty(graph.Float32, 2, 3), nil, moveEmpty(graph.Float32, 0, 3),
			moveLongs(2, 3), moveLongs(1), moveLongs(1)),
		moveCase(op.SliceGrad, "large",
			back(large, []int{200, 300}, movePlaces(10, 190, 1), movePlaces(1, 300, 2)), nil,
			large, moveLongs(200, 300), moveLongs(10, 1), moveLongs(190, 300), moveLongs(0, 1), moveLongs(1, 2)),
		moveFails(op.SliceGrad, "other shape", "input 0 has shape", nil, dy, moveLongs(4, 3), moveLongs(1),
			moveLongs(4)),
	}
}

// movePadded computes a padding: for each axis, where places before 0 and from d on lie.
func movePadded(x *executor.Tensor, mode string, pads ...int) *executor.Tensor {
	rank := x.Rank()
	shape, from := make([]int, rank), make([]int, rank)
	for i := range rank {
		shape[i] = x.Shape[i] + pads[i] + pads[i+rank]
	}
	return movePick(x, shape, func(index []int) int {
		for k, i := range index {
			d := x.Shape[k]
			for i -= pads[k]; i < 0 || i >= d; {
				switch {
				case mode == "constant":
					return -1
				case mode == "edge":
					i = min(max(i, 0), d-1)
				case mode == "wrap" && i < 0:
					i += d
				case mode == "wrap":
					i -= d
				case i < 0: // reflect
					i = -i
				default:
					i = 2*(d-1) - i
				}
			}
			from[k] = i
		}
		return moveAt(x.Shape, from...)
	})
}

func movePadCases() []Case {
	var all []Case
	add := func(x *executor.Tensor, mode string, pads ...int64) {
		ints := make([]int, len(pads))
		for i, p := range pads {
			ints[i] = int(p)
		}
		all = append(all,
			moveCase(op.Pad, fmt.Sprint(mode, x, pads), movePadded(x, mode, ints...), moveAttrs("mode", mode), x,
				moveLongs(pads...)))
	}
	for _, mode := range []string{"constant", "edge", "reflect", "wrap"} {
		for _, d := range moveTypes {
			add(moveCount(d, 3, 4), mode, 1, 2, 0, 3)
		}
		add(moveCount(graph.Float32, 2, 3, 4), mode, 1, 0, 0, 1, 2, 0)
		add(moveCount(graph.Float32, 2, 3, 4), mode, 0, 0, 0, 0, 0, 0)
		add(moveCount(graph.Float32, 5), mode, 9, 12)
		add(moveCount(graph.Float32, 40, 50, 16), mode, 1, 2, 0, 3, 1, 0)
		add(moveCount(graph.Float32, 0, 3), mode, 0, 1, 0, 1)
	}
	add(moveCount(graph.Float32, 4, 5), "constant", -1, 2, -1, -3)
	add(moveCount(graph.Float32, 0, 3), "constant", 1, 0, 2, 0)
	x := moveFloats([]int{2, 3}, 1, 2, 3, 4, 5, 6)
	scalar := moveCount(graph.Float32)
	minus := executor.NewTensor(graph.Float32, []int{}, float32(-1))
	return append(all,
		moveCase(op.Pad, "scalar", scalar, nil, scalar, moveLongs()),
		moveCase(op.Pad, "value", moveFloats([]int{2, 5}, -1, 1, 2, 3, -1, -1, 4, 5, 6, -1), nil, x,
			moveLongs(0, 1, 0, 1), minus),
		moveCase(op.Pad, "axes", moveFloats([]int{2, 4}, -1, 1, 2, 3, -1, 4, 5, 6), nil, x, moveLongs(1, 0), minus,
			moveLongs(-1)),
		// Cut first, then mirrored: 2 3 -> 3 2 3.
		moveCase(op.Pad, "cut and reflected", moveFloats([]int{2, 3}, 2, 3, 2, 5, 6, 5), moveAttrs("mode", "reflect"),
			x, moveLongs(0, -1, 0, 1)),
		moveOpset(7, moveCase(op.Pad, "attributes", moveFloats([]int{2, 4}, 9, 1, 2, 3, 9, 4, 5, 6),
			moveAttrs("pads", []int64{0, 1, 0, 0}, "value", float32(9)), x)),
		moveOpset(7, moveCase(op.Pad, "attributes, edge", moveFloats([]int{2, 4}, 1, 1, 2, 3, 4, 4, 5, 6),
			moveAttrs("pads", []int64{0, 1, 0, 0}, "mode", "edge"), x)),
		moveOpset(13, moveCase(op.Pad, "value", moveFloats([]int{3, 3}, 1, 2, 3, 4, 5, 6, -1, -1, -1), nil, x,
			moveLongs(0, 0, 1, 0), minus)),
		moveFails(op.Pad, "count", "pads for 2 axes", nil, x, moveLongs(1, 1)),
		moveFails(op.Pad, "mode", "mode", moveAttrs("mode", "zero"), x, moveLongs(0, 0, 0, 0)),
		moveFails(op.Pad, "cut too much", "pads -2 and -1", nil, x, moveLongs(-2, 0, -1, 0)),
		moveFails(op.Pad, "edge of nothing", "pads", moveAttrs("mode", "edge"), moveEmpty(graph.Float32, 0, 2),
			moveLongs(1, 0, 0, 0)),
		moveFails(op.Pad, "huge", "pads", nil, x, moveLongs(math.MaxInt64, 0, math.MaxInt64, 0)),
		moveFails(op.Pad, "large", "shape", nil, x, moveLongs(1<<40, 1<<40, 0, 0)))
}

func moveCropCases() []Case {
	x := moveCount(graph.Float32, 5, 3, 2)
	crop := func(shape ...int) *executor.Tensor {
		return movePick(x, shape, func(index []int) int {
			from := make([]int, 3)
			for k, i := range index {
				d := x.Shape[k]
				if i += max(d-shape[k], 0) / 2; d < shape[k] {
					i -= (shape[k] - d) / 2
				}
				if i < 0 || i >= d {
					return -1
				}
				from[k] = i
			}
			return moveAt(x.Shape, from...)
		})
	}
	return []Case{
		moveCase(op.CenterCropPad, "crop", crop(2, 2, 2), nil, x, moveLongs(2, 2, 2)),
		moveCase(op.CenterCropPad, "pad", crop(8, 4, 3), nil, x, moveLongs(8, 4, 3)),
		moveCase(op.CenterCropPad, "axes", crop(4, 3, 5), moveAttrs("axes", []int64{-1, 0}), x, moveLongs(5, 4)),
		moveCase(op.CenterCropPad, "empty", crop(0, 3, 2), moveAttrs("axes", []int64{0}), x, moveLongs(0)),
		moveFails(op.CenterCropPad, "count", "lengths", nil, x, moveLongs(1)),
		moveFails(op.CenterCropPad, "negative", "dim -1", moveAttrs("axes", []int64{0}), x, moveLongs(-1)),
	}
}

func moveViewCases() []Case {
	x := moveCount(graph.Float32, 2, 1, 3)
	empty := moveEmpty(graph.Float32, 2, 0, 3)
	zeros := moveAttrs("allowzero", int64(1))
	reshape := func(name string, want *executor.Tensor, attrs []graph.Attr, in *executor.Tensor, shape ...int64) Case {
		return moveCase(op.Reshape, name, want, attrs, in, moveLongs(shape...))
	}
	return []Case{
		reshape("plain", moveReshaped(x, 3, 2), nil, x, 3, 2),
		reshape("-1", moveReshaped(x, 6), nil, x, -1),
		reshape("0 and -1", moveReshaped(x, 2, 3), nil, x, 0, -1),
		reshape("to a scalar", moveReshaped(moveCount(graph.Float32, 1)), nil, moveCount(graph.Float32, 1)),
		reshape("0 of an empty one", moveReshaped(empty, 2, 0), nil, empty, 2, 0),
		reshape("allowzero", moveReshaped(empty, 0, 7), zeros, empty, 0, 7),
		moveFails(op.Reshape, "-1 of an empty one", "does not hold", nil, moveReshaped(empty, 0, 6), moveLongs(0, -1)),
		moveOpset(7, reshape("old", moveReshaped(x, 3, 2), nil, x, 3, 2)),
		moveFails(op.Reshape, "two -1", "more than one", nil, x, moveLongs(-1, -1)),
		moveFails(op.Reshape, "count", "does not hold", nil, x, moveLongs(4, 2)),
		moveFails(op.Reshape, "no divisor", "does not hold", nil, x, moveLongs(4, -1)),
		moveFails(op.Reshape, "-2", "dim -2", nil, x, moveLongs(-2, 3)),
		moveFails(op.Reshape, "0 beyond", "keeps dim 3", nil, x, moveLongs(2, 3, 1, 0)),
		moveFails(op.Reshape, "overflow", "does not hold", nil, empty, moveLongs(1<<62, 1<<62)),
		moveCase(op.Squeeze, "all", moveReshaped(x, 2, 3), nil, x),
		moveCase(op.Squeeze, "axes", moveReshaped(x, 2, 3), nil, x, moveLongs(-2)),
		moveCase(op.Squeeze, "no axes", x, nil, x, moveLongs()),
		moveOpset(11, moveCase(op.Squeeze, "attribute", moveReshaped(x, 2, 3), moveAttrs("axes", []int64{1}), x)),
		moveFails(op.Squeeze, "long axis", "cannot be squeezed", nil, x, moveLongs(0)),
		moveFails(op.Squeeze, "axis outside", "axis 3", nil, x, moveLongs(3)),
		moveCase(op.Unsqueeze, "axes", moveReshaped(x, 1, 2, 1, 3, 1), nil, x, moveLongs(-1, 0)),
		moveCase(op.Unsqueeze, "scalar", moveCount(graph.Float32, 1), nil, moveCount(graph.Float32), moveLongs(0)),
		moveOpset(11, moveCase(op.Unsqueeze, "attribute", moveReshaped(x, 2, 1, 1, 3),
			moveAttrs("axes", []int64{1}), x)),
		moveFails(op.Unsqueeze, "axis outside", "axis 4", nil, x, moveLongs(4)),
		moveFails(op.Unsqueeze, "axis twice", "twice", nil, x, moveLongs(0, -5)),
	}
}
