package kerneltest

import (
	"fmt"
	"math"
	"slices"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(elemBinaryCases) }

// elemShapes are pairs of shapes that broadcast together, one for each way that a driver may have
// to walk through them.
var elemShapes = [][2][]int{
	{{4, 5}, {4, 5}}, {{}, {}}, {{1}, {}}, {{4, 5}, {}}, {{}, {4, 5}}, {{4, 5}, {5}}, {{5}, {4, 5}}, {{4, 5}, {4, 1}},
	{{4, 1}, {1, 5}},
	{{2, 3, 4}, {3, 1}}, {{2, 1, 4, 1}, {3, 1, 5}}, {{2, 3, 2, 3, 2}, {1, 3, 1, 3, 1}}, {{1, 1, 3}, {2, 1, 1}},
	{{0, 3}, {3}}, {{2, 0}, {1}},
	{{30, 70}, {70}}, {{30, 70}, {30, 1}}, {{3, 1, 70}, {1, 30, 1}}, {{1500}, {2, 3, 1500}}, {{7, 500, 3}, {3}},
	{{7, 3000, 1}, {7, 1, 2}},
	{{150, 201}, {150, 201}}, {{150, 201}, {}}, {{20, 5, 301}, {5, 1}},
}

// elemBinary is an operator of two operands with its definition.
type elemBinary struct {
	kind     graph.Kind
	f        func(a, b float64) float64
	lo, hi   float64 // of the second operand
	integers bool
}

var elemBinaries = []elemBinary{
	{op.Add, func(a, b float64) float64 { return a + b }, 0, 9, true},
	{op.Sub, func(a, b float64) float64 { return a - b }, 0, 9, true},
	{op.Mul, func(a, b float64) float64 { return a * b }, 1, 9, true},
	{op.Div, func(a, b float64) float64 { return a / b }, 1, 9, true},
	{op.Max, math.Max, 5, 20, true},
	{op.Min, math.Min, 5, 20, true},
	{op.Sum, func(a, b float64) float64 { return a + b }, 0, 9, true},
	{op.Mean, func(a, b float64) float64 { return (a + b) / 2 }, 0, 9, true},
	{op.PRelu, func(a, b float64) float64 { return a * b }, 1, 9, false}, // operand 0 is made negative
}

func elemBinaryCases() []Case {
	var cases []Case
	for _, b := range elemBinaries {
		f := func(x []float64) float64 { return b.f(x[0], x[1]) }
		lo, hi := 10.0, 13.0 // of the first operand: differences fit unsigned types, products int8
		if b.kind == op.PRelu {
			lo, hi = -13, -10
		}
		for _, s := range elemShapes {
			if b.kind == op.PRelu && !slices.Equal(elemWant(graph.Int8, func([]float64) float64 { return 0 },
				elemFill(graph.Int8, 0, 0, s[0]...), elemFill(graph.Int8, 0, 0, s[1]...)).Shape, s[0]) {
				continue
			}
			cases = append(cases, elemCase(fmt.Sprintf("%v %v", s[0], s[1]), b.kind, graph.Float32, f,
				elemFill(graph.Float32, lo, hi, s[0]...), elemFill(graph.Float32, b.lo, b.hi, s[1]...)))
		}
		for _, d := range elemTypes {
			if d.IsInteger() && !b.integers {
				continue
			}
			for _, s := range [][2][]int{{{3, 4}, {3, 4}}, {{3, 90}, {90}}, {{40, 2}, {40, 1}}, {{2, 3}, {}}} {
				cases = append(cases, elemCase(fmt.Sprintf("%v %v %v", d, s[0], s[1]), b.kind, d, f,
					elemFill(d, lo, hi, s[0]...), elemFill(d, b.lo, b.hi, s[1]...)))
			}
		}
		cases = append(cases,
			elemFails("shapes", b.kind, graph.Float32, "[3 4]", elemFill(graph.Float32, 0, 1, 2, 4),
				elemFill(graph.Float32, 0, 1, 3, 4)),
			elemFails("types", b.kind, graph.Float32, "type", elemFill(graph.Float32, 0, 1, 2),
				elemFill(graph.Float64, 0, 1, 2)),
			elemFails("bools", b.kind, graph.Bool, "types", elemTensor(graph.Bool, nil, 1),
				elemTensor(graph.Bool, nil, 1)))
	}
	a, b := elemFill(graph.Float32, 0, 1, 3), elemFill(graph.Float32, 1, 2, 3)
	for _, opset := range []int{7, 13, 14} {
		cases = append(cases, elemCase(fmt.Sprint("opset ", opset), op.Sub, graph.Float32,
			func(x []float64) float64 { return x[0] - x[1] }, a, b).at(opset))
	}
	old := elemFails("opset 6", op.Add, graph.Float32, "version 6", a, b)
	return append(append(cases, old.at(6)), elemIntegerCases()...)
}

// elemIntegerCases are about wrapping around, signs and division by zero.
func elemIntegerCases() []Case {
	i8 := func(v ...int8) *executor.Tensor { return executor.NewTensor(graph.Int8, []int{len(v)}, v...) }
	i64 := func(v ...int64) *executor.Tensor { return executor.NewTensor(graph.Int64, []int{len(v)}, v...) }
	zero := executor.NewTensor[int32](graph.Int32, []int{2, 2}, 1, 2, 3, 0)
	f := executor.NewTensor[float32](graph.Float32, []int{4}, -4.3, 7.2, 5, 4.25)
	g := executor.NewTensor[float32](graph.Float32, []int{4}, 2.1, -3.4, 8, 1.5)
	mod := func(x []float64) float64 { return math.Mod(x[0], x[1]) }
	cases := []Case{
		elemGiven("wraps", op.Add, i8(-128, 0), i8(127, 1), i8(1, -1)),
		elemGiven("wraps", op.Sub, i8(127), i8(-128), i8(1)),
		elemGiven("wraps", op.Mul, i8(-128, 1), i8(64, -1), i8(2, -1)),
		elemGiven("signs", op.Div, i64(-3, -3, 3, math.MinInt64), i64(-7, 7, -7, math.MinInt64), i64(2, -2, -2, -1)),
		elemGiven("floor", op.Mod, i64(1, -1, -1, 1, 0), i64(-7, 7, -7, 7, -6), i64(2, -2, -2, 2, 3)),
		elemGiven("fmod", op.Mod, i64(-1, 1, -1, 1, 0), i64(-7, 7, -7, 7, -6),
			i64(2, -2, -2, 2, 3)).with(Attr("fmod", int64(1))),
		elemFails("by zero", op.Div, graph.Int32, "element 3: division by zero", zero, zero),
		elemFails("by zero", op.Mod, graph.Int32, "element 3: division by zero", zero, zero),
		elemFails("by a scalar zero", op.Div, graph.Int64, "division by zero", i64(1, 2), i64(0)),
		elemGiven("no elements by zero", op.Div, executor.NewTensor[int64](graph.Int64, []int{0, 1}),
			executor.NewTensor[int64](graph.Int64, []int{0, 1}), i64(0)),
		elemCase("float fmod", op.Mod, graph.Float32, mod, f, g).with(Attr("fmod", int64(1))),
		elemFails("float without fmod", op.Mod, graph.Float32, "fmod", f, g),
		elemGiven("by float zero",
			op.Div, executor.NewTensor(graph.Float32, []int{2}, float32(math.Inf(-1)), float32(math.NaN())),
			executor.NewTensor[float32](graph.Float32, []int{2}, -1, 0),
			executor.NewTensor[float32](graph.Float32, []int{}, 0)),
	}
	for _, d := range elemTypes[4:] {
		cases = append(cases,
			elemCase(fmt.Sprint("broadcast ", d), op.Mod, d, func(x []float64) float64 { return math.Mod(x[0], x[1]) },
				elemFill(d, 0, 100, 30, 70), elemFill(d, 1, 9, 70)))
	}
	for _, d := range elemFloats {
		cases = append(cases,
			elemCase(fmt.Sprint("fmod ", d), op.Mod, d, mod, elemTensor(d, []int{3}, -5.5, 7, 9),
				elemTensor(d, []int{}, 4)).
				with(Attr("fmod", int64(1))))
	}
	return cases
}
