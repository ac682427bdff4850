package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(elemBitCases) }

func elemBitCases() []Case {
	var cases []Case
	bits := map[graph.Kind]func(a, b int64) int64{
		op.BitwiseAnd: func(a, b int64) int64 { return a & b }, op.BitwiseOr: func(a, b int64) int64 { return a | b },
		op.BitwiseXor: func(a, b int64) int64 { return a ^ b }, op.And: func(a, b int64) int64 { return a & b },
		op.Or: func(a, b int64) int64 { return a | b }, op.Xor: func(a, b int64) int64 { return a ^ b },
	}
	for _, kind := range []graph.Kind{op.BitwiseAnd, op.BitwiseOr, op.BitwiseXor, op.And, op.Or, op.Xor} {
		f := func(x []float64) float64 { return float64(bits[kind](int64(x[0]), int64(x[1]))) }
		types, other, hi := elemTypes[4:], graph.Bool, 100.0
		if kind == op.And || kind == op.Or || kind == op.Xor {
			types, other, hi = []graph.DType{graph.Bool}, graph.Uint8, 1.99
		}
		for _, d := range types {
			for _, s := range [][2][]int{{{3, 40}, {3, 40}}, {{3, 90}, {90}}, {{40, 2}, {40, 1}}, {{}, {2, 3}},
				{{0}, {}}} {
				cases = append(cases, elemCase(fmt.Sprintf("%v %v %v", d, s[0], s[1]), kind, d, f,
					elemFill(d, 0, hi, s[0]...), elemFill(d, 0, hi, s[1]...)))
			}
		}
		cases = append(cases,
			elemFails("type", kind, other, "types", elemTensor(other, nil, 1), elemTensor(other, nil, 1)),
			elemFails("shapes", kind, types[0], "[3]", elemFill(types[0], 0, 1, 2), elemFill(types[0], 0, 1, 3)))
	}
	for _, d := range elemTypes[4:] {
		want := func(x []float64) float64 { return -1 - x[0] }
		if d == graph.Uint8 || d == graph.Uint16 || d == graph.Uint32 || d == graph.Uint64 {
			top := math.Ldexp(1, d.Bits()) - 1
			if d == graph.Uint64 {
				continue // float64 cannot tell
			}
			want = func(x []float64) float64 { return top - x[0] }
			cases = append(cases,
				elemCase(fmt.Sprint("left ", d), op.BitShift, d, func(x []float64) float64 {
					return math.Ldexp(x[0], int(x[1]))
				},
					elemFill(d, 0, 15, 3, 5), elemFill(d, 0, 4, 5)).with(Attr("direction", "LEFT")),
				elemCase(fmt.Sprint("right ", d), op.BitShift, d, func(x []float64) float64 {
					return math.Floor(math.Ldexp(x[0], -int(x[1])))
				},
					elemFill(d, 0, 255, 3, 5), elemFill(d, 0, 9, 5)).with(Attr("direction", "RIGHT")))
		}
		cases = append(cases, elemCase(d.String(), op.BitwiseNot, d, want, elemFill(d, 0, 100, 3, 5)))
	}
	one := elemTensor(graph.Uint8, nil, 1)
	return append(cases,
		elemGiven("uint64", op.BitShift, executor.NewTensor[uint64](graph.Uint64, []int{2}, 1<<63, 0),
			executor.NewTensor[uint64](graph.Uint64, []int{2}, 1, 1),
			executor.NewTensor[uint64](graph.Uint64, []int{2}, 63, 64)).
			with(Attr("direction", "LEFT")),
		elemFails("direction", op.BitShift, graph.Uint8, "direction", one, one),
		elemFails("signed", op.BitShift, graph.Int8, "types", elemTensor(graph.Int8, nil, 1),
			elemTensor(graph.Int8, nil, 1)).
			with(Attr("direction", "LEFT")))
}
