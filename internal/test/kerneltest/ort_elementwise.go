package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(elemGradientCases)
	register(elemBiasCases)
	register(elemDivGradCases)
	register(elemScaleCases)
}

// elemSlope is a gradient: dY times a slope at the second operand.
type elemSlope struct {
	kind   graph.Kind
	attrs  []graph.Attr
	slope  func(x float64) float64
	lo, hi float64
}

// elemNumeric is the slope of f by a symmetric difference, good to about 1e-9.
func elemNumeric(f func(x float64) float64) func(x float64) float64 {
	const h = 1e-4
	return func(x float64) float64 {
		return (8*(f(x+h)-f(x-h)) - (f(x+2*h) - f(x-2*h))) / (12 * h)
	}
}

func elemGradientCases() []Case {
	swish := func(alpha float64) func(x float64) float64 {
		return func(x float64) float64 { return x * elemSigmoid(alpha*x) }
	}
	slopes := []elemSlope{
		{op.ReluGrad, nil, func(y float64) float64 { return elemBool(y > 0) }, -1, 1},
		{op.LeakyReluGrad, []graph.Attr{Attr("alpha", float32(0.25))},
			func(y float64) float64 { return max(elemBool(y > 0), 0.25) }, -1, 1},
		{op.SigmoidGrad, nil, func(y float64) float64 { return y - y*y }, 0, 1},
		{op.TanhGrad, nil, func(y float64) float64 { return 1 - y*y }, -1, 1},
		{op.GeluGrad, nil, elemNumeric(elemGelu), -5, 5},
		{op.GeluGradDeeploy, nil, elemNumeric(elemGelu), -5, 5},
		{op.FastGeluGrad, nil, elemNumeric(elemGeluTanh), -5, 5},
		{op.QuickGeluGrad, nil, elemNumeric(swish(float64(float32(1.702)))), -5, 5},
		{op.QuickGeluGrad, []graph.Attr{Attr("alpha", float32(0.5))}, elemNumeric(swish(0.5)), -5, 5},
		{op.BiasGeluGradDX, nil, elemNumeric(elemGelu), -5, 5},
		{op.BiasFastGeluGradDX, nil, elemNumeric(elemGeluTanh), -5, 5},
	}
	var cases []Case
	for i, s := range slopes {
		f := func(x []float64) float64 { return x[0] * s.slope(x[1]) }
		for _, d := range elemFloats {
			for _, shape := range [][]int{{3, 201}, {}, {2, 0}, {20011}} {
				c := elemCase(fmt.Sprint(i, " ", d, shape), s.kind, d, f, elemFill(d, -1, 1, shape...),
					elemFill(d, s.lo, s.hi, shape...)).with(s.attrs...)
				if d == graph.Float64 {
					c.Tol = 1e-8
				}
				cases = append(cases, c)
			}
		}
		x := elemFill(graph.Float32, 0, 1, 2, 3)
		cases = append(cases,
			elemFails(fmt.Sprint(i, " shapes"), s.kind, graph.Float32, "[3]",
				x, elemFill(graph.Float32, 0, 1, 3)).with(s.attrs...),
			elemFails(fmt.Sprint(i, " types"), s.kind, graph.Int32, "types", elemFill(graph.Int32, 0, 1, 3),
				elemFill(graph.Int32, 0, 1, 3)).with(s.attrs...))
	}
	nan := math.NaN()
	for _, d := range elemFloats {
		cases = append(cases,
			elemGiven(fmt.Sprint("special ", d), op.ReluGrad, elemTensor(d, []int{6}, 0, 0, 0, 4, nan, 0),
				elemTensor(d, []int{6}, 1, 2, 3, 4, nan, nan),
				elemTensor(d, []int{6}, nan, 0, math.Copysign(0, -1), math.Inf(1), 1, -1)))
	}
	return cases
}

func elemBiasCases() []Case {
	var cases []Case
	kinds := []struct {
		kind graph.Kind
		gelu func(x float64) float64
		grad graph.Kind
	}{{op.BiasGelu, elemGelu, op.BiasGeluGradDX}, {op.FastGelu, elemGeluTanh, op.BiasFastGeluGradDX}}
	for _, d := range elemFloats {
		for _, shape := range [][]int{{5, 7}, {2, 3, 300}, {4, 0}, {70}, {30, 1024}} {
			x, bias := elemFill(d, -3, 3, shape...), elemFill(d, -1, 1, shape[len(shape)-1])
			skip := elemFill(d, -2, 2, shape...)
			name := fmt.Sprint(d, shape)
			for _, k := range kinds {
				slope := elemNumeric(k.gelu)
				grad := elemCase("bias "+name, k.grad, d, func(v []float64) float64 { return v[0] * slope(v[1]+v[2]) },
					skip, x, bias)
				grad.Tol = max(grad.Tol, 1e-8)
				if d == graph.Float16 || d == graph.BFloat16 {
					grad.Tol *= 2
				}
				cases = append(cases, grad,
					elemCase("bias "+name, k.kind, d, func(v []float64) float64 {
						return k.gelu(v[0] + v[1])
					}, x, bias))
			}
			cases = append(cases, elemCase(name, op.BiasAdd, d, elemSum, x, bias, skip))
		}
		cases = append(cases, elemSplitCases(d)...)
	}
	x, bias := elemFill(graph.Float32, 0, 1, 2, 3, 4), elemFill(graph.Float32, 0, 1, 3)
	return append(cases,
		elemFails("bias", op.BiasGelu, graph.Float32, "bias", x, bias),
		elemFails("bias", op.FastGelu, graph.Float32, "bias", x, bias),
		elemFails("rank 0", op.FastGelu, graph.Float32, "bias", elemTensor(graph.Float32, nil, 1), bias),
		elemFails("bias", op.BiasAdd, graph.Float32, "bias", x, bias, x),
		elemFails("skip", op.BiasAdd, graph.Float32, "input 2", x, elemFill(graph.Float32, 0, 1, 4), bias),
		elemFails("bias", op.BiasSplitGelu, graph.Float32, "bias", x, bias),
		elemFails("odd", op.BiasSplitGelu, graph.Float32, "even", elemFill(graph.Float32, 0, 1, 2, 3, 3), bias),
		elemFails("rank", op.BiasSplitGelu, graph.Float32, "dims", bias, bias),
		elemFails("ints", op.BiasSplitGelu, graph.Int32, "types", elemFill(graph.Int32, 0, 1, 2, 3, 4),
			elemFill(graph.Int32, 0, 1, 4)))
}

// elemSplitCases are of BiasSplitGelu.
func elemSplitCases(d graph.DType) []Case {
	var cases []Case
	for _, shape := range [][]int{{2, 3, 8}, {1, 5, 1200}, {0, 2, 4}, {2, 2, 0}} {
		x, bias := elemFill(d, -3, 3, shape...), elemFill(d, -1, 1, shape[2])
		n := shape[2] / 2
		var v []float64
		for i := range shape[0] * shape[1] * n {
			row, col := i/n, i%n
			left := elemAt(x, row*2*n+col) + elemAt(bias, col)
			v = append(v, left*elemGelu(elemAt(x, row*2*n+n+col)+elemAt(bias, n+col)))
		}
		cases = append(cases,
			elemGiven(fmt.Sprint(d, shape), op.BiasSplitGelu,
				elemTensor(d, []int{shape[0], shape[1], n}, v...), x, bias))
	}
	return cases
}

func elemDivGradCases() []Case {
	var cases []Case
	pairs := append([][2][]int{{{2, 3, 4}, {2, 1, 4}}, {{4, 5}, {1, 1, 1}}, {{0, 3}, {1, 3}}}, elemShapes...)
	for _, d := range elemFloats {
		for _, s := range pairs {
			a, b := elemFill(d, -2, 2, s[0]...), elemFill(d, 1, 2, s[1]...)
			full := elemWant(d, func([]float64) float64 { return 0 }, a, b)
			if d != graph.Float32 && full.Len() > 1000 {
				continue
			}
			g := elemFill(d, -1, 1, full.Shape...)
			da, db := make([]float64, a.Len()), make([]float64, b.Len())
			for i := range full.Len() {
				ia, ib := elemIndex(a.Shape, full.Shape, i), elemIndex(b.Shape, full.Shape, i)
				y := elemAt(b, ib)
				da[ia] += elemAt(g, i) / y
				db[ib] -= elemAt(g, i) * elemAt(a, ia) / (y * y)
			}
			c := Case{Name: fmt.Sprint(d, s), Kind: op.DivGrad, In: []*executor.Tensor{g, a, b},
				Out: []graph.DType{d, d}, Tol: 2 * elemTol(d),
				Want: []*executor.Tensor{elemTensor(d, a.Shape, da...), elemTensor(d, b.Shape, db...)}}
			cases = append(cases, c)
		}
	}
	one := cases[0]
	one.Name, one.Out, one.Want = "only B", []graph.DType{graph.Undefined, graph.Float32},
		[]*executor.Tensor{nil, one.Want[1]}
	x := elemFill(graph.Float32, 1, 2, 3)
	bad := Case{Name: "shapes", Kind: op.DivGrad, In: []*executor.Tensor{x, x, elemFill(graph.Float32, 1, 2, 2)},
		Out: []graph.DType{graph.Float32, graph.Float32}, Fails: "[2]"}
	larger := bad
	larger.Name, larger.In = "operand larger than the gradient",
		[]*executor.Tensor{x, elemFill(graph.Float32, 1, 2, 2, 3), x}
	larger.Fails = "[2 3]"
	return append(cases, one, bad, larger)
}

func elemScaleCases() []Case {
	var cases []Case
	for _, d := range elemFloats {
		a, b, c := elemFill(d, -2, 2, 3, 500), elemFill(d, -2, 2, 3, 500), elemFill(d, -2, 2, 3, 500)
		two := elemTensor(graph.Float32, []int{}, 2.5)
		on, off := elemTensor(graph.Bool, []int{1}, 1), elemTensor(graph.Bool, []int{}, 0)
		times := func(x []float64) float64 { return x[0] * x[1] }
		scales := []graph.Attr{Attr("scale_0", float32(0.5)), Attr("scale_1", float32(2)), Attr("scale_2", float32(-1))}
		bad := math.NaN()
		cases = append(cases,
			elemCase(d.String(), op.Scale, d, times, a, two),
			elemCase(fmt.Sprint("down ", d), op.Scale, d, func(x []float64) float64 { return x[0] / x[1] }, a,
				two).with(Attr("scale_down", int64(1))),
			elemCase(fmt.Sprint("two ", d), op.ScaledSum, d, func(x []float64) float64 { return x[0]/2 + 2*x[1] }, a,
				b).with(scales...),
			elemCase(fmt.Sprint("three ", d), op.ScaledSum, d, func(x []float64) float64 {
				return x[0]/2 + 2*x[1] - x[2]
			}, a, b, c).with(scales...),
			elemCase(d.String(), op.InPlaceAccumulator, d, elemSum, a, b),
			elemCase(fmt.Sprint("on ", d), op.InPlaceAccumulator, d, func(x []float64) float64 {
				return x[0] + x[1]
			}, a, b, on),
			elemCase(fmt.Sprint("off ", d), op.InPlaceAccumulator, d, func(x []float64) float64 {
				return x[0]
			}, a, b, off),
			elemAccumulator(fmt.Sprint("adds ", d), d, elemSum, a, b),
			elemAccumulator(fmt.Sprint("no overwrite ", d), d, elemSum, a, b, off),
			elemAccumulator(fmt.Sprint("overwrite ", d), d, func(x []float64) float64 { return x[1] }, a, b, on),
			elemCase(d.String(), op.ZeroGradient, d, func([]float64) float64 { return 0 }, a, on),
			elemGiven(d.String(), op.MemcpyFromHost, a, a), elemGiven(d.String(), op.MemcpyToHost, a, a),
			elemGiven(fmt.Sprint("finite ", d), op.IsAllFinite, elemTensor(graph.Bool, []int{}, 1), a, b,
				elemFill(d, 0, 1, 0)),
			elemGiven(fmt.Sprint("NaN ", d), op.IsAllFinite, elemTensor(graph.Bool, []int{}, 0), a,
				elemTensor(d, []int{3}, 1, 2, bad)),
			elemGiven(fmt.Sprint("infinite ", d), op.IsAllFinite, elemTensor(graph.Bool, []int{}, 0),
				elemTensor(d, []int{2}, math.Inf(-1), 2), a),
			elemGiven(fmt.Sprint("only infinite ", d), op.IsAllFinite, elemTensor(graph.Bool, []int{}, 1),
				elemTensor(d, []int{1}, bad)).
				with(Attr("isinf_only", int64(1))),
			elemGiven(fmt.Sprint("only NaN ", d), op.IsAllFinite, elemTensor(graph.Bool, []int{}, 1),
				elemTensor(d, []int{1}, math.Inf(1))).
				with(Attr("isnan_only", int64(1))))
		for _, to := range elemFloats {
			cases = append(cases, elemMixed(d, to)...)
		}
	}
	f, i := elemFill(graph.Float32, 0, 1, 3), elemFill(graph.Int32, 0, 1, 3)
	updated := executor.NewTensor[uint8](graph.Bool, []int{1}, 1)
	lost := Case{Name: "output 1 left out", Kind: op.InPlaceAccumulatorV2, In: []*executor.Tensor{f, f},
		Out: []graph.DType{graph.Bool}, Want: []*executor.Tensor{updated}}
	return append(cases, lost,
		elemCase("half values", op.InPlaceAccumulator, graph.Float32, elemSum, f, elemFill(graph.Float16, 0, 1, 3)),
		elemFails("shapes", op.InPlaceAccumulator, graph.Float32, "[2]", f, elemFill(graph.Float32, 0, 1, 2)),
		elemFails("flag", op.InPlaceAccumulator, graph.Float32, "input 2", f, f, f),
		elemFails("vector", op.Scale, graph.Float32, "scalar", f, f),
		elemFails("ints", op.Scale, graph.Int32, "types", i, i),
		elemFails("shapes", op.ScaledSum, graph.Float32, "[2]", f, elemFill(graph.Float32, 0, 1, 2)),
		elemFails("ints", op.IsAllFinite, graph.Bool, "types", i),
		elemFails("both", op.IsAllFinite, graph.Bool, "isnan_only", f).with(Attr("isinf_only", int64(1)),
			Attr("isnan_only", int64(1))),
		elemFails("processes", op.NcclAllReduce, graph.Float32, "no kernel", f),
		elemCase("large", op.ScaledSum, graph.Float32, elemSum, elemFill(graph.Float32, 0, 1, 40001),
			elemFill(graph.Float32, 1, 2, 40001)))
}

// elemAccumulator makes a case of InPlaceAccumulatorV2.
func elemAccumulator(name string, d graph.DType, f func(x []float64) float64, in ...*executor.Tensor) Case {
	g := func(x []float64) float64 { return f(x[:2]) }
	return Case{Name: name, Kind: op.InPlaceAccumulatorV2, In: in, Out: []graph.DType{graph.Bool, d}, Tol: elemTol(d),
		Want: []*executor.Tensor{elemTensor(graph.Bool, []int{1}, 1), elemWant(d, g, in...)}}
}

// elemMixed are cases of MixedPrecisionScale.
func elemMixed(from, to graph.DType) []Case {
	scale := elemTensor(graph.Float32, []int{}, 0.5)
	a, b := elemFill(from, -2, 2, 3, 500), elemFill(from, -2, 2, 7)
	times := func(x []float64) float64 { return x[0] * x[1] }
	wa, wb := elemWant(to, times, a, scale), elemWant(to, times, b, scale)
	tol := max(elemTol(from), elemTol(to))
	attr := Attr("to", int64(to))
	name := fmt.Sprintf("%v to %v", from, to)
	both := Case{Name: name, Kind: op.MixedPrecisionScale, Attrs: []graph.Attr{attr},
		In:  []*executor.Tensor{scale, a, b},
		Out: []graph.DType{to, to}, Want: []*executor.Tensor{wa, wb}, Tol: tol}
	fused := both
	fused.Name, fused.Attrs = "fused "+name, []graph.Attr{attr, Attr("fuse_outputs", int64(1))}
	fused.Out = []graph.DType{to}
	fused.Want = []*executor.Tensor{
		{DType: to, Shape: []int{1507}, Data: append(append([]byte(nil), wa.Data...), wb.Data...)},
	}
	return []Case{both, fused}
}
