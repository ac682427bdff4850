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

func init() { register(reduceCases) }

// reduceValues returns n numbers in [-2, 2) that every floating-point type has exactly.
func reduceValues(n int, seed uint64) []float64 {
	v := make([]float64, n)
	for i := range v {
		seed = seed*6364136223846793005 + 1442695040888963407
		v[i] = float64(int(seed>>40&0xff)-128) / 64
	}
	return v
}

// reduceTensor makes a tensor of numbers, rounded to its type.
func reduceTensor(d graph.DType, shape []int, v []float64) *executor.Tensor {
	switch d {
	case graph.Float32:
		return reduceConverted(d, shape, v, func(x float64) float32 { return float32(x) })
	case graph.Float64:
		return reduceConverted(d, shape, v, func(x float64) float64 { return x })
	case graph.Float16:
		return reduceConverted(d, shape, v, func(x float64) half.Float16 { return half.Float16From(float32(x)) })
	case graph.BFloat16:
		return reduceConverted(d, shape, v, func(x float64) half.BFloat16 { return half.BFloat16From(float32(x)) })
	case graph.Int8:
		return reduceConverted(d, shape, v, func(x float64) int8 { return int8(x) })
	case graph.Int16:
		return reduceConverted(d, shape, v, func(x float64) int16 { return int16(x) })
	case graph.Int32:
		return reduceConverted(d, shape, v, func(x float64) int32 { return int32(x) })
	case graph.Int64:
		return reduceConverted(d, shape, v, func(x float64) int64 { return int64(x) })
	case graph.Uint8, graph.Bool:
		return reduceConverted(d, shape, v, func(x float64) uint8 { return uint8(x) })
	case graph.Uint16:
		return reduceConverted(d, shape, v, func(x float64) uint16 { return uint16(x) })
	case graph.Uint32:
		return reduceConverted(d, shape, v, func(x float64) uint32 { return uint32(x) })
	}
	return reduceConverted(d, shape, v, func(x float64) uint64 { return uint64(x) })
}

func reduceConverted[T executor.Elem](d graph.DType, shape []int, v []float64, f func(float64) T) *executor.Tensor {
	elems := make([]T, len(v))
	for i, x := range v {
		elems[i] = f(x)
	}
	return executor.NewTensor(d, shape, elems...)
}

// reduceTol is the tolerance for results of a type.
func reduceTol(d graph.DType) float64 {
	switch d {
	case graph.Float32:
		return 1e-5
	case graph.Float64:
		return 1e-12
	case graph.Float16:
		return 2e-3
	case graph.BFloat16:
		return 1.5e-2
	}
	return 0
}

func reduceLen(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// reduceFormulas has, for each reduction, its function of the elements of one result.
var reduceFormulas = map[graph.Kind]func(x []float64) float64{
	op.ReduceSum:         reduceSummed(func(x float64) float64 { return x }, nil),
	op.ReduceSumTraining: reduceSummed(func(x float64) float64 { return x }, nil),
	op.ReduceL1:          reduceSummed(math.Abs, nil),
	op.ReduceSumSquare:   reduceSummed(func(x float64) float64 { return x * x }, nil),
	op.ReduceL2:          reduceSummed(func(x float64) float64 { return x * x }, math.Sqrt),
	op.ReduceLogSum:      reduceSummed(func(x float64) float64 { return x }, math.Log),
	op.ReduceLogSumExp:   reduceSummed(math.Exp, math.Log),
	op.ReduceMean: func(x []float64) float64 {
		return reduceSummed(func(x float64) float64 { return x }, nil)(x) / float64(len(x))
	},
	op.ReduceMax: func(x []float64) float64 { return slices.Max(append([]float64{math.Inf(-1)}, x...)) },
	op.ReduceMin: func(x []float64) float64 { return slices.Min(append([]float64{math.Inf(1)}, x...)) },
	op.ReduceProd: func(x []float64) float64 {
		p := 1.0
		for _, v := range x {
			p *= v
		}
		return p
	},
}

func reduceSummed(f, last func(float64) float64) func([]float64) float64 {
	return func(x []float64) float64 {
		s := 0.0
		for _, v := range x {
			s += f(v)
		}
		if last != nil {
			s = last(s)
		}
		return s
	}
}

// reduceGroups lists, for each result of a reduction over axes, the elements that go there.
func reduceGroups(shape []int, axes []int) (kept []int, groups [][]int) {
	folded := func(i int) bool { return slices.Contains(axes, i) }
	kept = slices.Clone(shape)
	for i := range shape {
		if folded(i) {
			kept[i] = 1
		}
	}
	groups = make([][]int, reduceLen(kept))
	for i := range reduceLen(shape) {
		out, rest := 0, i
		step := 1
		for a := len(shape) - 1; a >= 0; a-- {
			if !folded(a) {
				out += rest % shape[a] * step
			}
			rest /= shape[a]
			step *= kept[a]
		}
		groups[out] = append(groups[out], i)
	}
	return kept, groups
}

// reduceTest describes a case of a reduction.
type reduceTest struct {
	kind  graph.Kind
	opset int
	dtype graph.DType
	shape []int
	axes  []int64 // nil if not given
	input bool    // the axes are an input
	drop  bool    // keepdims = 0
	noop  bool
	odd   bool      // the flags are numbers other than 0 and 1, which do not count as 1
	x     []float64 // nil if generated
	tol   float64   // 0 means that of the type
}

func (r reduceTest) build(name string) Case {
	x := r.x
	if x == nil {
		x = reduceValues(reduceLen(r.shape), uint64(len(r.shape)))
		for i := range x {
			switch {
			case r.kind == op.ReduceProd:
				x[i] = 1 + x[i]/64
			case r.dtype.IsInteger():
				x[i] = float64(int(x[i]*64)&15) + 1
			case r.kind == op.ReduceLogSum:
				x[i] = math.Abs(x[i]) + 1
			}
		}
	}
	c := Case{Name: name, Kind: r.kind, Opset: r.opset, In: []*executor.Tensor{reduceTensor(r.dtype, r.shape, x)},
		Out: []graph.DType{r.dtype}, Tol: r.tol}
	if c.Tol == 0 {
		c.Tol = reduceTol(r.dtype)
	}
	if r.input {
		c.In = append(c.In, executor.NewTensor(graph.Int64, []int{len(r.axes)}, r.axes...))
	} else if r.axes != nil {
		c.Attrs = append(c.Attrs, Attr("axes", r.axes))
	}
	if r.drop {
		c.Attrs = append(c.Attrs, Attr("keepdims", int64(0)))
	}
	if r.noop {
		c.Attrs = append(c.Attrs, Attr("noop_with_empty_axes", int64(1)))
	}
	if r.odd {
		c.Attrs = append(c.Attrs, Attr("keepdims", int64(8)), Attr("noop_with_empty_axes", int64(8)))
	}
	c.Want = []*executor.Tensor{r.want(x)}
	return c
}

func (r reduceTest) want(x []float64) *executor.Tensor {
	var axes []int
	for _, a := range r.axes {
		axes = append(axes, (int(a)+len(r.shape))%len(r.shape))
	}
	if len(axes) == 0 && !r.noop {
		for i := range r.shape {
			axes = append(axes, i)
		}
	}
	kept, groups := reduceGroups(r.shape, axes)
	y := make([]float64, len(groups))
	for i, g := range groups {
		part := make([]float64, len(g))
		for j, at := range g {
			part[j] = x[at]
		}
		y[i] = reduceFormulas[r.kind](part)
	}
	if r.drop || r.odd {
		var left []int
		for i, d := range kept {
			if !slices.Contains(axes, i) {
				left = append(left, d)
			}
		}
		kept = left
	}
	return reduceTensor(r.dtype, kept, y)
}

// reduceCases are of the reductions.
func reduceCases() []Case {
	var cases []Case
	add := func(name string, r reduceTest) { cases = append(cases, r.build(name)) }
	kinds := []graph.Kind{op.ReduceL1, op.ReduceL2, op.ReduceLogSum, op.ReduceLogSumExp, op.ReduceMax, op.ReduceMean,
		op.ReduceMin, op.ReduceProd, op.ReduceSum, op.ReduceSumSquare}
	for _, k := range kinds {
		f := reduceTest{kind: k, opset: 18, dtype: graph.Float32, input: true}
		for _, s := range []struct {
			shape []int
			axes  []int64
		}{
			{[]int{}, nil}, {[]int{7}, []int64{0}}, {[]int{3, 5}, []int64{-1}}, {[]int{3, 5}, []int64{0}},
			{[]int{2, 3, 4}, []int64{1}}, {[]int{2, 3, 4, 5}, []int64{0, -1}}, {[]int{2, 3, 4, 5}, []int64{3, 1}},
			{[]int{2, 1, 3, 1}, []int64{1, 3}}, {[]int{2, 3, 2, 3, 2}, []int64{0, 2, 4}},
			{[]int{3, 2, 3, 2}, []int64{}},
			{[]int{40, 700}, []int64{1}}, {[]int{700, 40}, []int64{0}}, {[]int{3, 200, 40}, []int64{1}},
		} {
			f.shape, f.axes = s.shape, s.axes
			add(fmt.Sprintf("float %v over %v", s.shape, s.axes), f)
		}
		f.shape, f.axes, f.drop = []int{2, 3, 4}, []int64{-2}, true
		add("keepdims 0", f)
		f.shape, f.axes, f.noop = []int{2, 3}, []int64{}, true
		add("no axes", f)
		f.axes, f.drop, f.noop, f.odd = nil, false, false, true
		add("flags that are not 1", f)
		old := reduceTest{kind: k, opset: 11, dtype: graph.Float32, shape: []int{2, 3, 4}, axes: []int64{0, 2}}
		add("axes attribute", old)
		old.axes = nil
		add("all axes", old)
		for _, d := range []graph.DType{graph.Float64, graph.Float16, graph.BFloat16, graph.Int32, graph.Int64,
			graph.Uint32, graph.Uint64} {
			if k == op.ReduceProd && d.IsInteger() {
				continue
			}
			add(fmt.Sprintf("%v last axis", d),
				reduceTest{kind: k, opset: 18, dtype: d, input: true, shape: []int{3, 4, 6}, axes: []int64{2}})
			add(fmt.Sprintf("%v first axes", d),
				reduceTest{kind: k, opset: 18, dtype: d, input: true, shape: []int{3, 4, 6}, axes: []int64{0, 1}})
		}
		cases = append(cases, reduceErrors(k)...)
	}
	add("wide", reduceTest{kind: op.ReduceSum, dtype: graph.Float32, input: true, shape: []int{70, 1500},
		axes: []int64{0}})
	add("one result", reduceTest{kind: op.ReduceSum, dtype: graph.Float32, input: true, shape: []int{101, 1003},
		axes: []int64{0, 1}})
	add("one result", reduceTest{kind: op.ReduceLogSumExp, dtype: graph.Float32, input: true, shape: []int{40000},
		axes: []int64{0}})
	for _, width := range []int{5, 16} {
		add("short rows",
			reduceTest{kind: op.ReduceLogSumExp, dtype: graph.Float32, input: true, shape: []int{1100, width},
				axes: []int64{1}})
		add("short rows",
			reduceTest{kind: op.ReduceMax, dtype: graph.Float32, input: true, shape: []int{20, width, 30, width},
				axes: []int64{3}})
	}
	add("many rows", reduceTest{kind: op.ReduceLogSumExp, dtype: graph.Float32, input: true, shape: []int{2000, 17},
		axes: []int64{0}})
	add("many rows of halves",
		reduceTest{kind: op.ReduceMean, dtype: graph.Float16, input: true, shape: []int{2000, 17}, axes: []int64{0}})
	add("channels", reduceTest{kind: op.ReduceMean, dtype: graph.Float32, input: true, shape: []int{4, 6, 31, 33},
		axes: []int64{0, 2, 3}})
	training := reduceTest{kind: op.ReduceSumTraining, dtype: graph.Float32, input: true, shape: []int{2, 3, 4},
		axes: []int64{0, 1}}
	add("axes", training)
	training.noop, training.axes = true, []int64{}
	add("no axes", training)
	return append(cases, reduceEdges()...)
}

// reduceErrors are of nodes that ask for something impossible.
func reduceErrors(k graph.Kind) []Case {
	r := reduceTest{kind: k, opset: 18, dtype: graph.Float32, input: true, shape: []int{2, 3}}
	fails := func(name, text string, axes ...int64) Case {
		c := r.build(name)
		c.In[1], c.Want, c.Fails = executor.NewTensor(graph.Int64, []int{len(axes)}, axes...), nil, text
		return c
	}
	return []Case{fails("axis out of range", "axis 2; input 0 has rank 2", 2),
		fails("axis twice", "axis 1 twice", 1, -1)}
}
