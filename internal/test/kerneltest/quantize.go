package kerneltest

import (
	"fmt"
	"math"
	"strings"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(quantizeCases); register(dynamicQuantizeCases) }

// quantRange returns the least and the largest number of an integer type.
func quantRange(d graph.DType) (low, high float64) {
	bits := float64(d.Bits())
	switch d {
	case graph.Float8E4M3FN, graph.Float8E4M3FNUZ, graph.Float8E5M2, graph.Float8E5M2FNUZ, graph.Float4E2M1:
		return math.Inf(-1), math.Inf(1) // smallTensor saturates
	}
	if unsigned(d) {
		return 0, math.Exp2(bits) - 1
	}
	return -math.Exp2(bits - 1), math.Exp2(bits-1) - 1
}

func unsigned(d graph.DType) bool { return strings.HasPrefix(d.String(), "u") }

// quantSetting is a case of QuantizeLinear and DequantizeLinear in short. Element i of x has scale
// number at(i).
type quantSetting struct {
	name     string
	x, scale []int
	axis     int64
	block    int64
	zero     bool
	opset    int
}

// at returns the scale of element i, from the definition.
func (s *quantSetting) at(i int) int {
	if seqCount(s.scale) == 1 {
		return 0
	}
	place := make([]int, len(s.x))
	for k := len(s.x) - 1; k >= 0; k-- {
		place[k] = i % s.x[k]
		i /= s.x[k]
	}
	axis := int(s.axis)
	if axis < 0 {
		axis += len(s.x)
	}
	if s.block == 0 {
		return place[axis]
	}
	place[axis] /= int(s.block)
	n := 0
	for k, p := range place {
		n = n*s.scale[k] + p
	}
	return n
}

// make returns the two cases: y = saturate(round(x/scale) + zero) and x = (y-zero)*scale.
func (s *quantSetting) make(f, q graph.DType) []Case {
	n, scales := seqCount(s.x), seqCount(s.scale)
	x, scale, zero := seqValues(n, 1), seqValues(scales, 2), seqValues(scales, 3)
	low, high := quantRange(q)
	for i := range scale {
		scale[i] = (math.Abs(scale[i]) + 1) / 64
		if zero[i] = math.Trunc(zero[i] * 5); unsigned(q) {
			zero[i] = math.Abs(zero[i])
		}
		zero[i] = min(max(zero[i], low), high)
		if q == graph.Int32 || !s.zero || q.IsFloat() {
			zero[i] = 0
		}
	}
	// Scales as their type holds them.
	rounded := seqTensor(f, s.scale, scale)
	y, back := make([]float64, n), make([]float64, n)
	for i := range x {
		k := s.at(i)
		sc, _ := Float(rounded, k)
		x[i] *= 4
		y[i] = float64(float32(x[i]) / float32(sc))
		if !q.IsFloat() {
			y[i] = min(max(math.RoundToEven(y[i])+zero[k], low), high)
		}
	}
	attrs := []graph.Attr{Attr("axis", s.axis), Attr("block_size", s.block)}
	data := seqTensor(q, s.x, y)
	for i := range back {
		k := s.at(i)
		sc, _ := Float(rounded, k)
		if v, ok := Float(data, i); ok {
			y[i] = v
		}
		back[i] = (y[i] - zero[k]) * sc
	}
	name := fmt.Sprintf("%s %v %v", s.name, f, q)
	quant := Case{Name: name, Kind: op.QuantizeLinear, Opset: s.opset,
		Attrs: append(attrs, Attr("output_dtype", int64(q))),
		In:    []*executor.Tensor{seqTensor(f, s.x, x), rounded, nil}, Out: []graph.DType{q},
		Want: []*executor.Tensor{data}}
	deq := Case{Name: name, Kind: op.DequantizeLinear, Opset: s.opset, Attrs: attrs,
		In:  []*executor.Tensor{data, rounded, nil},
		Out: []graph.DType{f}, Want: []*executor.Tensor{seqTensor(f, s.x, back)}, Tol: seqTol(f)}
	if s.zero {
		z := seqTensor(q, s.scale, zero)
		quant.In[2], deq.In[2] = z, z
	}
	if q == graph.Int32 {
		return []Case{deq}
	}
	return []Case{quant, deq}
}

func quantizeCases() []Case {
	var cs []Case
	settings := []quantSetting{
		{name: "tensor", x: []int{3, 5}, scale: []int{}, axis: 1, zero: true},
		{name: "tensor, no zero point", x: []int{3, 5}, scale: []int{1}, axis: 1},
		{name: "axis 1", x: []int{2, 3, 5}, scale: []int{3}, axis: 1, zero: true},
		{name: "last axis", x: []int{4, 7}, scale: []int{7}, axis: -1, zero: true},
		{name: "first axis", x: []int{4, 7}, scale: []int{4}, axis: 0},
		{name: "blocks", x: []int{2, 7, 3}, scale: []int{2, 3, 3}, axis: 1, block: 3, zero: true},
		{name: "blocks, last axis", x: []int{3, 10}, scale: []int{3, 3}, axis: -1, block: 4, zero: true},
	}
	for _, s := range settings {
		for _, q := range []graph.DType{graph.Uint8, graph.Int8, graph.Uint16, graph.Int16, graph.Int32,
			graph.Uint4, graph.Int4, graph.Uint2, graph.Int2, graph.Float4E2M1, graph.Float8E4M3FN,
			graph.Float8E4M3FNUZ, graph.Float8E5M2, graph.Float8E5M2FNUZ} {
			cs = append(cs, s.make(graph.Float32, q)...)
		}
		for _, f := range []graph.DType{graph.Float16, graph.BFloat16} {
			cs = append(cs, s.make(f, graph.Int8)...)
		}
	}
	for _, s := range []quantSetting{
		{name: "operator set 10", x: []int{9}, scale: []int{}, axis: 1, zero: true, opset: 10},
		{name: "operator set 13", x: []int{3, 4}, scale: []int{4}, axis: 1, zero: true, opset: 13},
		{name: "empty", x: []int{3, 0}, scale: []int{}, axis: 1},
		{name: "empty axis", x: []int{3, 0}, scale: []int{0}, axis: 1, zero: true},
		{name: "empty rows", x: []int{3, 0}, scale: []int{3}, axis: 0, zero: true},
		{name: "scalar", x: []int{}, scale: []int{}, axis: 1, zero: true},
		{name: "large", x: []int{40, 1003}, scale: []int{40}, axis: 0, zero: true},
		{name: "large, last axis", x: []int{40, 1003}, scale: []int{1003}, axis: 1, zero: true},
		{name: "large, blocks", x: []int{2, 33, 601}, scale: []int{2, 5, 601}, axis: 1, block: 7, zero: true},
	} {
		cs = append(cs, s.make(graph.Float32, graph.Uint8)...)
		if s.opset == 0 {
			cs = append(cs, s.make(graph.Float32, graph.Int4)...)
		}
	}
	return append(cs, quantizeSpecials()...)
}

// quantizeSpecials are rounding, saturation and errors.
func quantizeSpecials() []Case {
	inf := math.Inf(1)
	f := func(v ...float64) *executor.Tensor { return seqTensor(graph.Float32, []int{len(v)}, v) }
	one := f(1)
	round := Case{Name: "halves and infinities", Kind: op.QuantizeLinear,
		In: []*executor.Tensor{f(0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e9, -1e9, inf, -inf, math.NaN()), one,
			seqTensor(graph.Int8, []int{1}, []float64{3})},
		Out: []graph.DType{graph.Int8},
		Want: []*executor.Tensor{
			seqTensor(graph.Int8, []int{11}, []float64{3, 5, 5, 3, 1, 1, 127, -128, 127, -128, 3}),
		}}
	ints := Case{Name: "of int32", Kind: op.QuantizeLinear,
		In: []*executor.Tensor{seqTensor(graph.Int32, []int{4}, []float64{-7, 3, 5, 1000}), f(2),
			seqTensor(graph.Uint8, []int{1}, []float64{10})},
		Out:  []graph.DType{graph.Uint8},
		Want: []*executor.Tensor{seqTensor(graph.Uint8, []int{4}, []float64{6, 12, 12, 255})}}
	bad := func(name, want string, opset int, x, s, z *executor.Tensor, out graph.DType, attrs ...graph.Attr) Case {
		return Case{Name: name, Kind: op.QuantizeLinear, Opset: opset, In: []*executor.Tensor{x, s, z},
			Out: []graph.DType{out}, Attrs: attrs, Fails: want}
	}
	x := seqTensor(graph.Float32, []int{2, 3}, seqValues(6, 1))
	return []Case{round, ints,
		bad("scales", "wanted 3 numbers for axis 1", 0, x, f(1, 2), nil, graph.Uint8),
		bad("scales before 13", "the scale is float[3]", 10, x, f(1, 2, 3), nil, graph.Uint8),
		bad("axis", "attribute axis 2", 0, x, f(1, 2, 3), nil, graph.Uint8, Attr("axis", int64(2))),
		bad("zero points", "the zero point is", 0, x, f(1, 2, 3), seqTensor(graph.Uint8, []int{2}, []float64{1, 2}),
			graph.Uint8),
		bad("zero point's type", "the zero point has type int8",
			0, x, one, seqTensor(graph.Int8, []int{1}, []float64{1}), graph.Uint8),
		bad("blocks", "block_size 2", 0, x, f(1, 2, 3), nil, graph.Uint8, Attr("block_size", int64(2))),
		bad("block size", "attribute block_size is -1", 0, x, one, nil, graph.Uint8, Attr("block_size", int64(-1))),
		bad("zero point of float8", "zero point 0 is 1: those of type float8e4m3fn are 0", 0, x, one,
			seqTensor(graph.Float8E4M3FN, []int{1}, []float64{1}), graph.Float8E4M3FN),
		bad("scales as elements", "no kernel for output type float8e8m0", 0, x, one, nil, graph.Float8E8M0),
	}
}

// dynamicQuantizeCases follow the definition; the last two are examples worked out by hand.
func dynamicQuantizeCases() []Case {
	var cs []Case
	of := func(name string, shape []int, x []float64) {
		var low, high float32
		for _, v := range x {
			low, high = min(low, float32(v)), max(high, float32(v))
		}
		scale := (high - low) / 255
		if scale == 0 {
			scale = 1
		}
		zero := min(max(math.RoundToEven(float64(-low/scale)), 0), 255)
		y := make([]float64, len(x))
		for i, v := range x {
			y[i] = min(max(math.RoundToEven(float64(float32(v)/scale))+zero, 0), 255)
		}
		cs = append(cs,
			Case{Name: name, Kind: op.DynamicQuantizeLinear, In: []*executor.Tensor{seqTensor(graph.Float32, shape, x)},
				Out: []graph.DType{graph.Uint8, graph.Float32, graph.Uint8},
				Want: []*executor.Tensor{seqTensor(graph.Uint8, shape, y),
					executor.NewTensor(graph.Float32, []int{}, scale),
					seqTensor(graph.Uint8, []int{}, []float64{zero})}})
	}
	of("both signs", []int{3, 5}, seqValues(15, 1))
	of("large", []int{70001}, seqValues(70001, 1))
	of("empty", []int{0}, nil)
	of("scalar", []int{}, []float64{3})
	of("zeros", []int{3}, make([]float64, 3))
	of("positive", []int{3}, []float64{1, 2.5, 255})
	of("negative", []int{3}, []float64{-1, -2.5, -255})
	return cs
}
