package kerneltest

import (
	"fmt"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(nbitsCases) }

// nbitsWeight is a weight of few bits a number: rows of numbers, each with a scale and a zero point for each
// block of them. It is packed one bit after the other, and its values come from the numbers themselves.
type nbitsWeight struct {
	rows, width, bits, block int
	numbers, zeros           [][]int // by row: by place, and by block
	scales                   []float32
}

func newNBitsWeight(rows, width, bits, block int) *nbitsWeight {
	w := &nbitsWeight{rows: rows, width: width, bits: bits, block: block}
	blocks := (width + block - 1) / block
	for r := range rows {
		numbers, zeros := make([]int, width), make([]int, blocks)
		for i := range numbers {
			numbers[i] = (r*7 + i*i*3 + i) % (1 << bits)
		}
		for b := range zeros {
			zeros[b] = (r*5 + b*3 + 1) % (1 << bits)
			w.scales = append(w.scales, 0.25+float32((r+b)%5)*0.125)
		}
		w.numbers, w.zeros = append(w.numbers, numbers), append(w.zeros, zeros)
	}
	return w
}

// packed writes numbers bit by bit; each row fills whole bytes after padding to a length.
func (w *nbitsWeight) packed(rows [][]int, length int) []byte {
	var out []byte
	for _, row := range rows {
		bytes := make([]byte, (length*w.bits+7)/8)
		for i, n := range row {
			for b := range w.bits {
				if n>>b&1 == 1 {
					bytes[(i*w.bits+b)/8] |= 1 << ((i*w.bits + b) % 8)
				}
			}
		}
		out = append(out, bytes...)
	}
	return out
}

func (w *nbitsWeight) blocks() int { return len(w.zeros[0]) }

// value is a number of the weight; without zero points they are half of the range.
func (w *nbitsWeight) value(r, i int, zeros bool) float64 {
	zero := 1 << (w.bits - 1)
	if zeros {
		zero = w.zeros[r][i/w.block]
	}
	return float64(w.numbers[r][i]-zero) * float64(w.scales[r*w.blocks()+i/w.block])
}

func (w *nbitsWeight) data(length int) *executor.Tensor {
	b := w.packed(w.numbers, length)
	return executor.NewTensor(graph.Uint8, []int{w.rows, len(b) / w.rows}, b...)
}

func (w *nbitsWeight) zeroPoints() *executor.Tensor {
	b := w.packed(w.zeros, w.blocks())
	return executor.NewTensor(graph.Uint8, []int{w.rows, len(b) / w.rows}, b...)
}

func (w *nbitsWeight) scale(d graph.DType) *executor.Tensor {
	return productFrom(d, []int{w.rows, w.blocks()}, w.scales)
}

// productFrom makes a tensor of a floating-point type.
func productFrom(d graph.DType, shape []int, v []float32) *executor.Tensor {
	p := productWide{shape: shape}
	for _, x := range v {
		p.v = append(p.v, float64(x))
	}
	return p.tensor(d)
}

func nbitsCases() []Case {
	var cases []Case
	for _, bits := range []int{2, 4, 8} {
		for _, width := range []int{16, 32, 40} {
			for _, zeros := range []bool{false, true} {
				cases = append(cases, nbitsProduct(bits, width, zeros, graph.Float32, []int{2, 3}))
			}
		}
		if bits > 2 { // as far as ONNX Runtime gathers
			cases = append(cases, nbitsGather(bits, false), nbitsGather(bits, true))
		}
	}
	half := nbitsProduct(4, 40, true, graph.Float16, []int{5})
	half.Tol = 1e-2
	small := cases[0]
	small.Name, small.Fails, small.Want = "a block of 8", "block_size is 8", nil
	small.Attrs = append([]graph.Attr{Attr("block_size", int64(8))}, small.Attrs[:3]...)
	short := cases[0]
	short.Name, short.Fails, short.Want = "too few scales", "wanted 5 scales", nil
	short.In = append([]*executor.Tensor(nil), short.In...)
	short.In[2] = executor.NewTensor[float32](graph.Float32, []int{1}, 1)
	return append(cases, half, small, short)
}

// nbitsProduct is a MatMulNBits with a bias.
func nbitsProduct(bits, width int, zeros bool, d graph.DType, lead []int) Case {
	w := newNBitsWeight(5, width, bits, 16)
	a := productTensor(d, 1, append(append([]int(nil), lead...), width)...)
	wide, bias := productWiden(a), productTensor(d, 2, w.rows)
	b := productWiden(bias)
	want := productEach(append(append([]int(nil), lead...), w.rows), func(at []int) float64 {
		n, sum := at[len(at)-1], 0.0
		for i := range width {
			sum += wide.at(append(append([]int(nil), at[:len(at)-1]...), i)) * w.value(n, i, zeros)
		}
		return sum + b.at([]int{n})
	})
	weight := w.data(w.blocks() * w.block)
	weight.Shape = []int{w.rows, w.blocks(), w.block * bits / 8}
	in := []*executor.Tensor{a, weight, w.scale(d), nil, nil, bias}
	if zeros {
		in[3] = w.zeroPoints()
	}
	return Case{Name: fmt.Sprintf("%d bits, %d columns, zeros %v, %v", bits, width, zeros, d), Kind: op.MatMulNBits,
		Attrs: []graph.Attr{Attr("N", int64(w.rows)), Attr("K", int64(width)), Attr("bits", int64(bits)),
			Attr("block_size", int64(16))},
		In: in, Out: []graph.DType{d}, Want: []*executor.Tensor{want.tensor(d)}, Tol: 1e-5}
}

// nbitsGather is a GatherBlockQuantized of rows.
func nbitsGather(bits int, zeros bool) Case {
	w := newNBitsWeight(6, 40, bits, 16)
	rows := []int64{3, 0, -1, 3}
	want := productEach([]int{2, 2, 40}, func(at []int) float64 {
		r := (int(rows[at[0]*2+at[1]]) + w.rows) % w.rows
		return w.value(r, at[2], zeros)
	})
	in := []*executor.Tensor{w.data(40), executor.NewTensor(graph.Int64, []int{2, 2}, rows...), w.scale(graph.Float32)}
	if zeros {
		in = append(in, w.zeroPoints())
	}
	return Case{Name: fmt.Sprintf("%d bits, zeros %v", bits, zeros), Kind: op.GatherBlockQuantized,
		Attrs: []graph.Attr{Attr("bits", int64(bits)), Attr("block_size", int64(16)), Attr("quantize_axis", int64(1))},
		In:    in, Out: []graph.DType{graph.Float32}, Want: []*executor.Tensor{want.tensor(graph.Float32)}, Tol: 1e-6}
}
