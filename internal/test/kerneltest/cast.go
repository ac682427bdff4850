package kerneltest

import (
	"fmt"
	"math"
	"slices"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
)

func init() { register(elemCastCases) }

func elemCastCases() []Case {
	all := append([]graph.DType{graph.Bool}, elemTypes...)
	var cases []Case
	for _, from := range all {
		for _, to := range all {
			hi := 100.9
			if from == graph.Bool {
				hi = 1.99
			}
			x := elemFill(from, 0, hi, 3, 201)
			want := func(v []float64) float64 {
				switch {
				case to == graph.Bool:
					return elemBool(v[0] != 0)
				case to.IsInteger():
					return math.Trunc(v[0])
				}
				return v[0]
			}
			c := elemCase(fmt.Sprintf("%v to %v", from, to), op.Cast, to, want, x).with(Attr("to", int64(to)))
			c.Tol = 0 // exact or rounded once
			cases = append(cases, c)
			if from == graph.Float32 {
				like := c.with()
				like.Kind, like.In = op.CastLike, []*executor.Tensor{x, elemTensor(to, nil, 0)}
				cases = append(cases, like)
			}
		}
	}
	return slices.Concat(cases, elemCastBounds(), elemCastMore(), smallCasts())
}

// elemCastBounds are about numbers that the wanted type does not have.
func elemCastBounds() []Case {
	var cases []Case
	inf := math.Inf(1)
	for _, d := range []graph.DType{graph.Float32, graph.Float64} {
		x := elemTensor(d, []int{6}, inf, -inf, math.NaN(), 1e30, -1e30, -0.75)
		to := func(want *executor.Tensor) {
			cases = append(cases,
				elemGiven(fmt.Sprintf("bounds %v to %v", d, want.DType), op.Cast, want,
					x).with(Attr("to", int64(want.DType))))
		}
		to(executor.NewTensor[int8](graph.Int8, []int{6}, 127, -128, 0, 127, -128, 0))
		to(executor.NewTensor[int16](graph.Int16, []int{6}, math.MaxInt16, math.MinInt16, 0, math.MaxInt16,
			math.MinInt16, 0))
		to(executor.NewTensor[int32](graph.Int32, []int{6}, math.MaxInt32, math.MinInt32, 0, math.MaxInt32,
			math.MinInt32, 0))
		to(executor.NewTensor[int64](graph.Int64, []int{6}, math.MaxInt64, math.MinInt64, 0, math.MaxInt64,
			math.MinInt64, 0))
		to(executor.NewTensor[uint8](graph.Uint8, []int{6}, 255, 0, 0, 255, 0, 0))
		to(executor.NewTensor[uint16](graph.Uint16, []int{6}, math.MaxUint16, 0, 0, math.MaxUint16, 0, 0))
		to(executor.NewTensor[uint32](graph.Uint32, []int{6}, math.MaxUint32, 0, 0, math.MaxUint32, 0, 0))
		to(executor.NewTensor[uint64](graph.Uint64, []int{6}, math.MaxUint64, 0, 0, math.MaxUint64, 0, 0))
		to(executor.NewTensor[uint8](graph.Bool, []int{6}, 1, 1, 1, 1, 1, 1))
	}
	// Around the largest int32, which float32 does not have.
	edge := executor.NewTensor[float32](graph.Float32, []int{4}, 2147483520, 2147483648, -2147483648, -2147483904)
	wide := executor.NewTensor[int32](graph.Int32, []int{5}, -1, 256, 257, math.MaxInt32, math.MinInt32)
	return append(cases,
		elemGiven("edge",
			op.Cast, executor.NewTensor[int32](graph.Int32, []int{4}, 2147483520, math.MaxInt32, math.MinInt32,
				math.MinInt32), edge).
			with(Attr("to", int64(graph.Int32))),
		elemGiven("lower bits", op.Cast, executor.NewTensor[uint8](graph.Uint8, []int{5}, 255, 0, 1, 255, 0), wide).
			with(Attr("to", int64(graph.Uint8))),
		elemGiven("extends", op.Cast, executor.NewTensor[uint64](graph.Uint64, []int{1}, math.MaxUint64),
			executor.NewTensor[int8](graph.Int8, []int{1}, -1)).
			with(Attr("to", int64(graph.Uint64))))
}

// elemCastMore is about rounding to 16 bits, sizes and errors.
func elemCastMore() []Case {
	// In float32 the first would be halfway between two numbers of 11 bits, and go to the even one
	// below.
	above := executor.NewTensor[float64](graph.Float64, []int{3}, 1+0x1p-11+0x1p-40, 1+0x1p-11, 1+0x1p-11-0x1p-40)
	f16 := executor.NewTensor[half.Float16](graph.Float16, []int{3}, 0x3c01, 0x3c00, 0x3c00)
	low := executor.NewTensor[float64](graph.Float64, []int{3}, -1-0x1p-8-0x1p-40, -1-0x1p-8, 1e300)
	bf16 := executor.NewTensor[half.BFloat16](graph.BFloat16, []int{3}, 0xbf81, 0xbf80, 0x7f80)
	x := elemFill(graph.Float32, -9, 9, 20011)
	same := func(v []float64) float64 { return v[0] }
	to := func(d graph.DType) graph.Attr { return Attr("to", int64(d)) }
	empty := executor.NewTensor[float32](graph.Float32, []int{3, 0})
	text := elemFails("string", op.Cast, graph.String, "string", x).with(to(graph.String))
	return []Case{
		elemGiven("rounds once", op.Cast, f16, above).with(to(graph.Float16)),
		elemGiven("rounds once to bfloat16", op.Cast, bf16, low).with(to(graph.BFloat16)),
		elemCase("large", op.Cast, graph.Int32, func(v []float64) float64 { return math.Trunc(v[0]) },
			x).with(to(graph.Int32)),
		elemCase("large half", op.Cast, graph.Float16, same, x).with(to(graph.Float16)),
		elemCase("opset 9", op.Cast, graph.Float64, same, x).with(to(graph.Float64)).at(9),
		elemGiven("empty", op.Cast, executor.NewTensor[int64](graph.Int64, []int{3, 0}), empty).with(to(graph.Int64)),
		elemGiven("rank 0", op.Cast, elemTensor(graph.Int64, []int{}, 3),
			elemTensor(graph.Float32, []int{}, 3.7)).with(to(graph.Int64)),
		text,
		elemFails("output", op.Cast, graph.Float64, "output 0", x).with(to(graph.Int32)),
	}
}
