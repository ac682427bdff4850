package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() {
	register(matMulIntegerCases)
	register(qLinearMatMulCases)
}

// productLess subtracts zero points: one number, one per row, or one per column, of each matrix.
func productLess(w, zero productWide) productWide {
	return productEach(w.shape, func(index []int) float64 { return w.at(index) - zero.at(index) })
}

// asRows gives a vector of zero points or scales the shape that broadcasts along columns.
func (w productWide) asRows() productWide {
	if len(w.shape) == 1 && w.shape[0] > 1 {
		w.shape = []int{w.shape[0], 1}
	}
	return w
}

func matMulIntegerCases() []Case {
	var cases []Case
	add := func(a, b graph.DType, sa, za, sb, zb []int) {
		x, y := productTensor(a, 1, sa...), productTensor(b, 2, sb...)
		c := Case{Name: fmt.Sprintf("%v%v %v %v%v %v", a, sa, za, b, sb, zb), Kind: op.MatMulInteger,
			In: []*executor.Tensor{x, y}, Out: []graph.DType{graph.Int32}}
		wa, wb := productWiden(x), productWiden(y)
		if za != nil {
			c.In = append(c.In, productTensor(a, 3, za...))
			wa = productLess(wa, productWiden(c.In[2]).asRows())
		}
		if zb != nil {
			if za == nil {
				c.In = append(c.In, nil)
			}
			c.In = append(c.In, productTensor(b, 4, zb...))
			wb = productLess(wb, productWiden(c.In[3]))
		}
		c.Want = []*executor.Tensor{productMatMul(wa, wb).tensor(graph.Int32)}
		cases = append(cases, c)
	}
	for _, a := range []graph.DType{graph.Int8, graph.Uint8} {
		for _, b := range []graph.DType{graph.Int8, graph.Uint8} {
			add(a, b, []int{4, 3}, []int{}, []int{3, 2}, []int{})
			add(a, b, []int{2, 4, 3}, []int{1}, []int{3, 2}, nil)
			add(a, b, []int{2, 4, 3}, []int{2, 4, 1}, []int{2, 3, 5}, []int{2, 1, 5})
		}
	}
	d := graph.Int8
	add(d, d, []int{4, 3}, nil, []int{3, 2}, nil)
	add(d, d, []int{4, 3}, []int{4}, []int{3, 2}, []int{2})
	add(d, d, []int{4, 3}, []int{4, 1}, []int{3, 2}, []int{1, 2})
	add(d, d, []int{3}, []int{}, []int{2, 3, 2}, []int{2})
	add(d, d, []int{4, 3}, nil, []int{3}, nil)
	add(d, d, []int{4, 0}, []int{4}, []int{0, 2}, []int{2})
	add(d, d, []int{0, 3}, nil, []int{3, 2}, []int{2})
	add(d, d, []int{3, 1, 4, 3}, []int{3, 1, 4, 1}, []int{2, 3, 2}, []int{2, 1, 2})
	add(d, d, []int{120, 90}, []int{120}, []int{90, 110}, []int{110})
	fails := func(name, text string, in ...*executor.Tensor) {
		cases = append(cases,
			Case{Name: name, Kind: op.MatMulInteger, In: in, Out: []graph.DType{graph.Int32}, Fails: text})
	}
	x, y := productTensor(d, 1, 4, 3), productTensor(d, 1, 3, 2)
	fails("zero points of A", "one per row", x, y, productTensor(d, 1, 3))
	fails("zero points of B", "one per column", x, y, nil, productTensor(d, 1, 3))
	fails("type of zero points", "has type", x, y, productTensor(graph.Uint8, 1))
	fails("inner dims", "cannot be multiplied", x, x)
	return cases
}

func qLinearMatMulCases() []Case {
	var cases []Case
	add := func(a, b, y, scale graph.DType, sa, qa, sb, qb []int, version int) {
		in := []*executor.Tensor{productTensor(a, 1, sa...), productScales(scale, qa), productTensor(a, 3, qa...),
			productTensor(b, 2, sb...), productScales(scale, qb), productTensor(b, 4, qb...), productScales(scale, nil),
			productTensor(y, 5)}
		w := make([]productWide, len(in))
		for i, t := range in {
			w[i] = productWiden(t)
		}
		real := func(x, scale, zero productWide) productWide {
			return productEach(x.shape, func(i []int) float64 { return (x.at(i) - zero.at(i)) * scale.at(i) })
		}
		want := productMatMul(real(w[0], w[1].asRows(), w[2].asRows()), real(w[3], w[4], w[5]))
		lo, hi := -128.0, 127.0
		if y == graph.Uint8 {
			lo, hi = 0, 255
		}
		for i, v := range want.v {
			want.v[i] = math.Max(lo, math.Min(hi, math.RoundToEven(v/w[6].v[0])+w[7].v[0]))
		}
		cases = append(cases,
			Case{Name: fmt.Sprintf("%v%v%v %v %v%v %v%v", y, a, sa, qa, b, sb, qb, scale), Kind: op.QLinearMatMul,
				Opset: version,
				In:    in, Out: []graph.DType{y}, Want: []*executor.Tensor{want.tensor(y)}})
	}
	i8, u8, f := graph.Int8, graph.Uint8, graph.Float32
	for _, a := range []graph.DType{i8, u8} {
		for _, b := range []graph.DType{i8, u8} {
			for _, y := range []graph.DType{i8, u8} {
				add(a, b, y, f, []int{4, 3}, []int{}, []int{3, 2}, []int{}, 10)
			}
		}
	}
	add(i8, i8, i8, f, []int{4, 3}, []int{4}, []int{3, 2}, []int{2}, 10)
	add(i8, u8, i8, f, []int{2, 4, 3}, []int{2, 4, 1}, []int{2, 3, 5}, []int{2, 1, 5}, 21)
	add(u8, i8, u8, graph.Float16, []int{2, 4, 3}, []int{}, []int{3, 5}, []int{5}, 21)
	add(u8, i8, u8, graph.BFloat16, []int{3}, []int{}, []int{3, 5}, []int{}, 21)
	add(u8, i8, u8, f, []int{0, 3}, []int{}, []int{3, 5}, []int{}, 21)
	add(u8, u8, i8, f, []int{100, 80}, []int{100}, []int{80, 120}, []int{120}, 21)
	bad := cases[0]
	bad.In = append([]*executor.Tensor(nil), bad.In...)
	bad.In[6], bad.Name, bad.Fails, bad.Want = productScales(f, []int{2}), "two scales of Y", "one number each", nil
	return append(cases, bad)
}

// productScales makes scales that are powers of 2, so that quantization is exact up to its
// rounding.
func productScales(d graph.DType, shape []int) *executor.Tensor {
	return productOf(d, shape, func(i int) float64 { return 1 / float64(int(2)<<(i%3)) })
}
