package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(smallMoves) }

var smallTypes = []graph.DType{graph.Uint4, graph.Int4, graph.Uint2, graph.Int2, graph.Float4E2M1,
	graph.Float8E4M3FN, graph.Float8E4M3FNUZ, graph.Float8E5M2, graph.Float8E5M2FNUZ, graph.Float8E8M0}

// smallCasts convert from and to types of 8 bits and less. The numbers are in all types, so that each
// conversion is exact; others are about rounding and numbers that the wanted type does not have.
func smallCasts() []Case {
	var cases []Case
	to := func(d graph.DType) graph.Attr { return Attr("to", int64(d)) }
	others := append([]graph.DType{graph.Bool}, elemTypes...)
	for _, d := range smallTypes {
		v := make([]float64, 1027) // more than a chunk, with an odd rest
		for i := range v {
			v[i] = 1
			if d != graph.Float8E8M0 && i%3 == 0 {
				v[i] = 0
			}
		}
		shape := []int{13, 79}
		x := smallTensor(d, shape, v)
		for _, o := range others {
			y := elemTensor(o, shape, v...)
			cases = append(cases, elemGiven(fmt.Sprintf("%v to %v", d, o), op.Cast, y, x).with(to(o)),
				elemGiven(fmt.Sprintf("%v to %v", o, d), op.Cast, x, y).with(to(d)))
		}
		for _, o := range smallTypes {
			if o == graph.Float8E8M0 && d != o {
				continue // it has no 0
			}
			cases = append(cases, elemGiven(fmt.Sprintf("%v to %v", d, o), op.Cast, smallTensor(o, shape, v), x).
				with(to(o)))
		}
	}
	inf, nan := math.Inf(1), math.NaN()
	f := elemTensor(graph.Float32, []int{9}, 2.9, -2.9, 1e9, -1e9, inf, -inf, nan, 0.75, -0.25)
	codes := func(d graph.DType, shape []int, c ...byte) *executor.Tensor {
		return &executor.Tensor{DType: d, Shape: shape, Data: append(make([]byte, 0, 16), c...)}
	}
	given := func(name string, x, want *executor.Tensor, attrs ...graph.Attr) {
		cases = append(cases, elemGiven(name, op.Cast, want, x).with(append(attrs, to(want.DType))...))
	}
	given("float to int4", f, codes(graph.Int4, []int{9}, 0xe2, 0x87, 0x87, 0x00, 0x00))
	given("float to uint4", f, codes(graph.Uint4, []int{9}, 0x02, 0x0f, 0x0f, 0x00, 0x00))
	given("float to float4e2m1", f, codes(graph.Float4E2M1, []int{9}, 0xd5, 0xf7, 0xf7, 0x27, 0x08))
	wide := executor.NewTensor[int32](graph.Int32, []int{5}, 17, -1, 255, 8, -9)
	given("lower bits to int4", wide, codes(graph.Int4, []int{5}, 0xf1, 0x8f, 0x07))
	given("lower bits to uint4", wide, codes(graph.Uint4, []int{5}, 0xf1, 0x8f, 0x07))
	big := elemTensor(graph.Float32, []int{3}, 1e9, -inf, nan)
	given("saturated", big, codes(graph.Float8E5M2, []int{3}, 0x7b, 0xfb, 0x7f))
	given("not saturated", big, codes(graph.Float8E5M2, []int{3}, 0x7c, 0xfc, 0x7f), Attr("saturate", int64(0)))
	// In float32 it would be halfway between 1 and 1.125, and go to 1.
	above := elemTensor(graph.Float64, []int{1}, 1.0625+0x1p-40)
	given("double to float8", above, codes(graph.Float8E4M3FN, []int{1}, 0x39))
	scales := elemTensor(graph.Float32, []int{3}, 1, 1.4, 3)
	given("up", scales, codes(graph.Float8E8M0, []int{3}, 127, 128, 129))
	given("down", scales, codes(graph.Float8E8M0, []int{3}, 127, 127, 128), Attr("round_mode", "down"))
	given("nearest", scales, codes(graph.Float8E8M0, []int{3}, 127, 127, 129), Attr("round_mode", "nearest"))
	given("scalar", elemTensor(graph.Float32, []int{}, 3), codes(graph.Int4, []int{}, 3))
	given("empty", elemTensor(graph.Float32, []int{0, 3}), codes(graph.Int4, []int{0, 3}))
	return append(cases, elemFails("round_mode", op.Cast, graph.Float8E8M0, "wanted up, down or nearest", scales).
		with(to(graph.Float8E8M0), Attr("round_mode", "odd")))
}

// smallMoves move elements of less than a byte: rows of three begin in the middle of bytes.
func smallMoves() []Case {
	var cases []Case
	for _, d := range []graph.DType{graph.Uint4, graph.Int4, graph.Int2, graph.Float4E2M1} {
		at := func(i int) float64 {
			switch d {
			case graph.Uint4:
				return float64((i*7 + 3) % 16)
			case graph.Int4:
				return float64((i*7+3)%16 - 8)
			case graph.Int2:
				return float64((i*3+1)%4 - 2)
			}
			return float64(i % 4)
		}
		pick := func(shape []int, places ...int) *executor.Tensor {
			v := make([]float64, len(places))
			for i, p := range places {
				v[i] = at(p)
			}
			return smallTensor(d, shape, v)
		}
		x := pick([]int{3, 3}, 0, 1, 2, 3, 4, 5, 6, 7, 8)
		add := func(k graph.Kind, in, out []*executor.Tensor, attrs ...graph.Attr) {
			c := Case{Name: d.String(), Kind: k, In: in, Want: out, Attrs: attrs}
			for _, o := range out {
				c.Out = append(c.Out, o.DType)
			}
			cases = append(cases, c)
		}
		type list = []*executor.Tensor
		ints := func(v ...int64) *executor.Tensor { return executor.NewTensor(graph.Int64, []int{len(v)}, v...) }
		add(op.Transpose, list{x}, list{pick([]int{3, 3}, 0, 3, 6, 1, 4, 7, 2, 5, 8)})
		add(op.Gather, list{x, ints(2, 0)}, list{pick([]int{2, 3}, 6, 7, 8, 0, 1, 2)})
		add(op.Concat, list{x, pick([]int{1, 3}, 5, 6, 7)},
			list{pick([]int{4, 3}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7)}, Attr("axis", int64(0)))
		add(op.Split, list{x, ints(1, 2)},
			list{pick([]int{1, 3}, 0, 1, 2), pick([]int{2, 3}, 3, 4, 5, 6, 7, 8)}, Attr("axis", int64(0)))
		add(op.Slice, list{x, ints(1), ints(3), ints(1)}, list{pick([]int{3, 2}, 1, 2, 4, 5, 7, 8)})
		add(op.Identity, list{x}, list{x})
		add(op.Reshape, list{x, ints(9)}, list{pick([]int{9}, 0, 1, 2, 3, 4, 5, 6, 7, 8)})
		value := &graph.TensorData{DType: d, Dims: []int64{1}, Source: graph.Raw(pick([]int{1}, 2).Data)}
		add(op.ConstantOfShape, list{ints(3)}, list{pick([]int{3}, 2, 2, 2)}, Attr("value", value))
	}
	four := smallTensor(graph.Int4, []int{3}, []float64{1, 2, 3})
	return append(cases, Case{Name: "int4", Kind: op.Add, In: []*executor.Tensor{four, four},
		Out: []graph.DType{graph.Int4}, Fails: "no kernel for elements of type int4, of which a byte holds several"})
}
