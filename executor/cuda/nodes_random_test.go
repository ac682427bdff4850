package cuda_test

import (
	"testing"

	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/half"
	"memopt/internal/test/double"
	"memopt/internal/test/kerneltest"
)

// drawNode makes a node with random operands, which may be wrong.
type drawNode func(t *rapid.T) kerneltest.Case

var randomNodes = map[string]drawNode{
	"Clip": drawClip, "Mod": drawMod, "AdamOptimizer": drawAdam, "InPlaceAccumulator": drawAccumulator,
	"ReduceAllL2": drawAllL2, "DivGrad": drawDivGrad,
	"LSTM": drawRecurrent, "QuantizeLinear": drawQuantize, "MatMulInteger": drawMatMulInteger,
	"ConvInteger": drawConvInteger,
	"GridSample":  drawGridSample, "DeformConv": drawDeformConv, "RoiAlign": drawRoi,
	"CenterCropPad": drawCenterCropPad, "Col2Im": drawCol2Im,
	"MaxUnpool": drawMaxUnpool,
}

// TestNodesLikeHost: random nodes give what the host's kernels give, or fail where they fail.
func TestNodesLikeHost(t *testing.T) {
	d, _ := opened(t, double.Options{})
	for name, draw := range randomNodes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := draw(t)
				c.Name = "random"
				want, hostErr := kerneltest.Run(cpu.Device{}, &c, kerneltest.Setup{Threads: 1})
				got, err := kerneltest.Run(d, &c, kerneltest.Setup{Threads: 1, Runs: 2})
				if (err == nil) != (hostErr == nil) {
					t.Fatalf("%s: error %v; on the host %v", c.Label(), err, hostErr)
				}
				for i := range want {
					if want[i] == nil {
						continue
					}
					if err := kerneltest.Compare(got[i], want[i], randomTolerance(want[i].DType)); err != nil {
						t.Fatalf("output %d: %v", i, err)
					}
				}
			})
		})
	}
}

// randomTolerance is that of some sums of products of numbers of a type.
func randomTolerance(d graph.DType) float64 {
	switch d {
	case graph.Float32:
		return 2e-5
	case graph.Float16:
		return 4e-3
	case graph.BFloat16:
		return 3e-2
	}
	return 0
}

var (
	drawnLength = rapid.IntRange(1, 9)
	drawnFloat  = rapid.SampledFrom([]graph.DType{graph.Float32, graph.Float16, graph.BFloat16})
	drawnByte   = rapid.SampledFrom([]graph.DType{graph.Int8, graph.Uint8})
)

func zerosOf(d graph.DType, shape ...int) *executor.Tensor {
	n, _ := executor.Bytes(d, shape)
	return &executor.Tensor{DType: d, Shape: shape, Data: make([]byte, n)}
}

// floatsOf draws numbers between -bound and bound.
func floatsOf(t *rapid.T, d graph.DType, bound float32, shape ...int) *executor.Tensor {
	x := zerosOf(d, shape...)
	steps := rapid.SliceOfN(rapid.IntRange(-64, 64), x.Len(), x.Len()).Draw(t, "numbers")
	for i, s := range steps {
		v := float32(s) / 64 * bound
		switch d {
		case graph.Float16:
			executor.Of[half.Float16](x)[i] = half.Float16From(v)
		case graph.BFloat16:
			executor.Of[half.BFloat16](x)[i] = half.BFloat16From(v)
		default:
			executor.Of[float32](x)[i] = v
		}
	}
	return x
}

// bytesOf draws integers of 8 bits.
func bytesOf(t *rapid.T, d graph.DType, shape ...int) *executor.Tensor {
	x := zerosOf(d, shape...)
	copy(x.Data, rapid.SliceOfN(rapid.Byte(), x.Len(), x.Len()).Draw(t, "bytes"))
	return x
}

// maybe leaves an operand out, or not.
func maybe(t *rapid.T, x *executor.Tensor) *executor.Tensor {
	if rapid.Bool().Draw(t, "given") {
		return x
	}
	return nil
}

func drawnShape(t *rapid.T, least, most int) []int {
	return rapid.SliceOfN(drawnLength, least, most).Draw(t, "shape")
}

// stretchable makes some dims 1 and leaves some of the first ones out.
func stretchable(t *rapid.T, shape []int) []int {
	s := append([]int(nil), shape[rapid.IntRange(0, len(shape)).Draw(t, "left out"):]...)
	for i := range s {
		if rapid.Bool().Draw(t, "stretched") {
			s[i] = 1
		}
	}
	return s
}

func choice(t *rapid.T, name string, from ...string) graph.Attr {
	return kerneltest.Attr(name, rapid.SampledFrom(from).Draw(t, name))
}

func chosen(t *rapid.T, name string, lo, hi int64) graph.Attr {
	return kerneltest.Attr(name, rapid.Int64Range(lo, hi).Draw(t, name))
}

func drawClip(t *rapid.T) kerneltest.Case {
	d := drawnFloat.Draw(t, "type")
	return kerneltest.Case{Kind: op.Clip, Out: []graph.DType{d},
		In: []*executor.Tensor{floatsOf(t, d, 2, drawnShape(t, 0, 3)...),
			maybe(t, floatsOf(t, d, 1)), maybe(t, floatsOf(t, d, 1))}}
}

func drawMod(t *rapid.T) kerneltest.Case {
	shape := drawnShape(t, 1, 3)
	if rapid.Bool().Draw(t, "integers") {
		d := drawnByte.Draw(t, "type")
		return kerneltest.Case{Kind: op.Mod, Out: []graph.DType{d}, Attrs: []graph.Attr{chosen(t, "fmod", 0, 1)},
			In: []*executor.Tensor{bytesOf(t, d, shape...), bytesOf(t, d, stretchable(t, shape)...)}}
	}
	d := drawnFloat.Draw(t, "type")
	return kerneltest.Case{Kind: op.Mod, Out: []graph.DType{d}, Attrs: []graph.Attr{kerneltest.Attr("fmod", int64(1))},
		In: []*executor.Tensor{floatsOf(t, d, 3e4, shape...), floatsOf(t, d, 3, stretchable(t, shape)...)}}
}

func drawAdam(t *rapid.T) kerneltest.Case {
	w, g, m, h := drawnFloat.Draw(t, "weight"), drawnFloat.Draw(t, "gradient"), drawnFloat.Draw(t, "moments"),
		drawnFloat.Draw(t, "copy")
	shape := drawnShape(t, 1, 3)
	v := floatsOf(t, m, 1, shape...)
	for i := range v.Data { // no moment of second order is below 0
		if size := m.Bits() / 8; i%size == size-1 {
			v.Data[i] &= 0x7f
		}
	}
	signal := executor.NewTensor(graph.Bool, nil, uint8(rapid.IntRange(0, 1).Draw(t, "update")))
	return kerneltest.Case{Kind: op.AdamOptimizer, Out: []graph.DType{graph.Int64, m, m, w, g, h},
		Attrs: []graph.Attr{chosen(t, "weight_decay_mode", 0, 1), chosen(t, "do_bias_correction", 0, 1),
			kerneltest.Attr("lambda", float32(0.25)),
			kerneltest.Attr("epsilon", float32(0.125))},
		In: []*executor.Tensor{floatsOf(t, graph.Float32, 1),
			executor.NewTensor(graph.Int64, nil, rapid.Int64Range(0, 50).Draw(t, "count")),
			floatsOf(t, w, 1, shape...), floatsOf(t, g, 1, shape...), floatsOf(t, m, 1, shape...), v,
			floatsOf(t, h, 1, shape...),
			nil, maybe(t, executor.NewTensor(graph.Float32, nil, float32(3))), maybe(t, signal)}}
}

func drawAccumulator(t *rapid.T) kerneltest.Case {
	sum, value := drawnFloat.Draw(t, "sum"), drawnFloat.Draw(t, "value")
	shape := drawnShape(t, 0, 3)
	c := kerneltest.Case{Kind: op.InPlaceAccumulator, Out: []graph.DType{sum},
		In: []*executor.Tensor{floatsOf(t, sum, 2, shape...), floatsOf(t, value, 2, shape...),
			maybe(t, executor.NewTensor(graph.Bool, nil, uint8(rapid.IntRange(0, 1).Draw(t, "flag"))))}}
	if rapid.Bool().Draw(t, "version 2") {
		c.Kind, c.Out = op.InPlaceAccumulatorV2, []graph.DType{graph.Bool, sum}
	}
	return c
}

func drawAllL2(t *rapid.T) kerneltest.Case {
	c := kerneltest.Case{Kind: op.ReduceAllL2, Out: []graph.DType{drawnFloat.Draw(t, "result")}}
	for range rapid.IntRange(1, 70).Draw(t, "tensors") {
		x := zerosOf(graph.Float32, rapid.IntRange(0, 5).Draw(t, "length"))
		for i := range executor.Of[float32](x) {
			executor.Of[float32](x)[i] = float32(i) / 4
		}
		c.In = append(c.In, x)
	}
	return c
}

func drawDivGrad(t *rapid.T) kerneltest.Case {
	d := drawnFloat.Draw(t, "type")
	shape := drawnShape(t, 1, 4)
	b := floatsOf(t, d, 1, stretchable(t, shape)...)
	for i := range b.Data { // away from 0
		if size := d.Bits() / 8; i%size == size-1 {
			b.Data[i] = 0x40
		}
	}
	return kerneltest.Case{
		Kind: op.DivGrad, Out: []graph.DType{d, d},
		In: []*executor.Tensor{floatsOf(t, d, 1, shape...), floatsOf(t, d, 1, stretchable(t, shape)...), b},
	}
}

func drawRecurrent(t *rapid.T) kerneltest.Case {
	kinds := []graph.Kind{op.RNN, op.GRU, op.LSTM}
	at := rapid.IntRange(0, 2).Draw(t, "operator")
	gates, d := []int{1, 3, 4}[at], graph.Float32
	seq, batch, in, hidden := drawnLength.Draw(t, "steps"), drawnLength.Draw(t, "batch"), drawnLength.Draw(t, "inputs"),
		drawnLength.Draw(t, "hidden")
	directions, direction := 1, choice(t, "direction", "forward", "reverse", "bidirectional")
	if direction.Value == "bidirectional" {
		directions = 2
	}
	lens := zerosOf(graph.Int32, batch)
	for i := range executor.Of[int32](lens) {
		executor.Of[int32](lens)[i] = int32(rapid.IntRange(0, seq).Draw(t, "length"))
	}
	c := kerneltest.Case{Kind: kinds[at], Out: []graph.DType{d, d, d}[:min(2+at/2, 3)],
		Attrs: []graph.Attr{direction, chosen(t, "linear_before_reset", 0, 1),
			chosen(t, "input_forget", 0, 1), kerneltest.Attr("clip", float32(0.75))},
		In: []*executor.Tensor{floatsOf(t, d, 0.5, seq, batch, in), floatsOf(t, d, 0.5, directions, gates*hidden, in),
			floatsOf(t, d, 0.5, directions, gates*hidden, hidden),
			maybe(t, floatsOf(t, d, 0.5, directions, 2*gates*hidden)), maybe(t, lens),
			maybe(t, floatsOf(t, d, 0.5, directions, batch, hidden))}}
	if c.Kind == op.LSTM {
		c.In = append(c.In, maybe(t, floatsOf(t, d, 0.5, directions, batch, hidden)),
			maybe(t, floatsOf(t, d, 0.5, directions, 3*hidden)))
	}
	return c
}

func drawQuantize(t *rapid.T) kerneltest.Case {
	d, q := drawnFloat.Draw(t, "type"), drawnByte.Draw(t, "integers")
	shape := drawnShape(t, 1, 3)
	axis, block := rapid.IntRange(0, len(shape)-1).Draw(t, "axis"), rapid.IntRange(0, 4).Draw(t, "block")
	scales := []int{shape[axis]}
	if block > 0 {
		scales = append([]int(nil), shape...)
		scales[axis] = (shape[axis] + block - 1) / block
	}
	scale := floatsOf(t, graph.Float32, 1, scales...)
	for i := range executor.Of[float32](scale) {
		executor.Of[float32](scale)[i] = float32(i%5+1) / 32
	}
	attrs := []graph.Attr{kerneltest.Attr("axis", int64(axis)), kerneltest.Attr("block_size", int64(block))}
	c := kerneltest.Case{
		Kind: op.QuantizeLinear, Attrs: attrs, Out: []graph.DType{q},
		In: []*executor.Tensor{floatsOf(t, d, 4, shape...), scale, maybe(t, bytesOf(t, q, scales...))},
	}
	if rapid.Bool().Draw(t, "back") {
		c.Kind, c.Out, c.In[0] = op.DequantizeLinear, []graph.DType{d}, bytesOf(t, q, shape...)
	}
	return c
}
