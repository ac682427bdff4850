package kerneltest

import (
	"fmt"
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(dropoutCases) }

// dropoutCases: y = keep ? (x+bias)/(1-ratio) : 0, + residual, and its gradient.
func dropoutCases() []Case {
	var cs []Case
	add := func(name string, d dropoutCase) {
		c := d.make()
		c.Name = name
		cs = append(cs, c)
	}
	base := dropoutCase{kind: op.Dropout, d: graph.Float32, shape: []int{3, 7}, ratio: 0.3, train: true,
		seed: 5, mask: true}
	for _, d := range seqFloats() {
		b := base
		b.d, b.shape = d, []int{3, 211}
		add("training "+d.String(), b)
		b.kind, b.bias, b.residual, b.shape = op.BiasDropout, true, true, []int{7, 90}
		add("training "+d.String(), b)
		b.kind, b.shape = op.BitmaskBiasDropout, []int{5, 77}
		add("training "+d.String(), b)
		b.kind, b.bias, b.residual, b.shape = op.BitmaskDropout, false, false, []int{5, 77}
		add("training "+d.String(), b)
	}
	big := base
	big.shape = []int{3, 20001}
	add("large", big)
	big.kind = op.BitmaskDropout
	add("large", big)
	big.kind, big.bias = op.BiasDropout, true
	add("large", big)
	for _, s := range []seqShape{{"empty", []int{2, 0}}, {"rank 0", []int{}}} {
		b := base
		b.shape = s.dims
		add(s.name, b)
		b.kind = op.BitmaskDropout
		add(s.name, b)
	}
	for _, v := range []int{12, 13, 22} {
		b := base
		b.opset = v
		add(fmt.Sprintf("operator set %d", v), b)
	}
	b := base
	b.mask = false
	add("without mask", b)
	b = base
	b.ratio = 0
	add("ratio 0", b)
	b = base
	b.train = false
	add("not training", b)
	b.kind, b.bias, b.residual = op.BitmaskBiasDropout, true, true
	add("not training", b)
	b = base
	b.ratio, b.seed = 0.999, 1<<40
	add("almost all dropped, large seed", b)
	b = base
	b.noSeed = true
	add("seed of the session", b)
	cs = append(cs, dropoutParts(base)...)
	return append(append(cs, dropoutDialects(base)...), dropoutGradCases()...)
}

// dropoutParts draw from an element of the whole on, at any place of a block of the generator.
func dropoutParts(base dropoutCase) []Case {
	var cs []Case
	for _, k := range []graph.Kind{op.Dropout, op.BiasDropout, op.BitmaskDropout, op.BitmaskBiasDropout} {
		for _, first := range []int{1, 2, 3, 4, 64, 40001} {
			b := base
			b.kind, b.first, b.shape = k, first, []int{5, 2, 96}
			b.bias = k == op.BiasDropout || k == op.BitmaskBiasDropout
			b.noSeed = first == 64
			c := b.make()
			c.Name = fmt.Sprintf("from %d", first)
			cs = append(cs, c)
		}
	}
	return cs
}

type dropoutCase struct {
	kind           graph.Kind
	d              graph.DType
	shape          []int
	ratio          float64
	seed           int64
	opset          int
	train          bool
	mask           bool
	bias, residual bool
	noSeed         bool
	first          int // of the whole's elements
}

func (d dropoutCase) make() Case {
	n := seqCount(d.shape)
	x := seqValues(n, 1)
	c := Case{Kind: d.kind, Opset: d.opset, Attrs: []graph.Attr{Attr("seed", d.seed)}, Tol: seqTol(d.d),
		Out: []graph.DType{d.d}}
	seed := uint64(d.seed)
	if d.noSeed {
		c.Attrs, seed = nil, 1
	}
	c.In = append(c.In, seqTensor(d.d, d.shape, x))
	sum, rest := append([]float64(nil), x...), make([]float64, n)
	packed := d.kind == op.BitmaskDropout || d.kind == op.BitmaskBiasDropout
	if d.kind == op.BiasDropout || d.kind == op.BitmaskBiasDropout {
		last := d.shape[len(d.shape)-1]
		bias := seqValues(last, 2)
		for i := range sum {
			sum[i] += bias[i%last]
		}
		c.In = append(c.In, seqTensor(d.d, []int{last}, bias), nil)
		if d.residual {
			rest = seqValues(n, 3)
			c.In[2] = seqTensor(d.d, d.shape, rest)
		}
	}
	c.In = append(c.In, seqTensor(graph.Float32, []int{}, []float64{d.ratio}),
		seqTensor(graph.Bool, []int{}, []float64{0}))
	keep := make([]bool, n)
	ratio := 0.0
	for i := range keep {
		keep[i] = true
	}
	if d.train {
		c.In[len(c.In)-1].Data[0] = 1
		ratio = float64(float32(d.ratio))
		keep = seqKeep(seed, d.first+n, ratio)[d.first:]
	}
	for i, k := range keep {
		if sum[i] /= 1 - ratio; !k {
			sum[i] = 0
		}
		sum[i] += rest[i]
	}
	c.Want = []*executor.Tensor{seqTensor(d.d, d.shape, sum)}
	switch {
	case d.mask && packed:
		c.Out, c.Want = append(c.Out, graph.Uint32), append(c.Want, seqBits(keep))
	case d.mask:
		c.Out, c.Want = append(c.Out, graph.Bool), append(c.Want, seqMask(d.shape, keep))
	}
	if d.first > 0 {
		c = drawnFrom(c, d.first)
	}
	return c
}

// dropoutDialects are operands in another form, or invalid ones.
func dropoutDialects(base dropoutCase) []Case {
	c := base.make()
	n := seqCount(base.shape)
	ones := make([]float64, n)
	for i := range ones {
		ones[i] = 1
	}
	one := []graph.Attr{Attr("ratio", float32(0.9))}
	floatMask := Case{Name: "operator set 7", Kind: op.Dropout, Opset: 7, Attrs: one, In: c.In[:1],
		Out:  []graph.DType{graph.Float32, graph.Float32},
		Want: []*executor.Tensor{c.In[0], seqTensor(graph.Float32, base.shape, ones)}}
	boolMask := floatMask
	boolMask.Name, boolMask.Opset, boolMask.Out = "operator set 10", 10, []graph.DType{graph.Float32, graph.Bool}
	boolMask.Want = []*executor.Tensor{c.In[0], seqTensor(graph.Bool, base.shape, ones)}
	half := base
	half.ratio = 0.5
	noRatio := half.make()
	noRatio.Name, noRatio.In = "ratio left out", []*executor.Tensor{noRatio.In[0], nil, noRatio.In[2]}
	ratio64 := half.make()
	ratio64.Name = "ratio double"
	ratio64.In[1] = seqTensor(graph.Float64, []int{1}, []float64{0.5})
	ratio16 := half.make()
	ratio16.Name = "ratio float16"
	ratio16.In[1] = seqTensor(graph.Float16, []int{1}, []float64{0.5})
	inf := half.make()
	inf.Name = "infinities and NaN"
	executor.Of[float32](inf.In[0])[0] = float32(math.Inf(1))
	executor.Of[float32](inf.In[0])[1] = float32(math.NaN())
	for i, v := range executor.Of[float32](inf.In[0])[:2] {
		executor.Of[float32](inf.Want[0])[i] = 0
		if inf.Want[1].Data[i] == 1 {
			executor.Of[float32](inf.Want[0])[i] = v
		}
	}
	with := func(slot int, t *executor.Tensor) Case {
		c := base.make()
		c.In[slot] = t
		return c
	}
	bias := base
	bias.kind, bias.bias = op.BiasDropout, true
	wide := bias.make()
	wide.In[1] = seqTensor(graph.Float32, []int{5}, seqValues(5, 1))
	other := bias.make()
	other.In[2] = seqTensor(graph.Float32, []int{7, 3}, seqValues(21, 1))
	return []Case{floatMask, boolMask, noRatio, ratio64, ratio16, inf,
		seqFails(with(1, seqTensor(graph.Float32, []int{}, []float64{1})), "ratio 1", "the ratio is 1"),
		seqFails(with(1, seqTensor(graph.Float32, []int{}, []float64{math.NaN()})), "ratio NaN", "the ratio is NaN"),
		seqFails(with(1, seqTensor(graph.Float32, []int{2}, []float64{0, 0})), "two ratios", "wanted one float"),
		seqFails(with(2, seqTensor(graph.Bool, []int{2}, []float64{1, 1})), "two training modes", "wanted one bool"),
		seqFails(with(0, seqTensor(graph.Int32, []int{2}, []float64{1, 1})), "integers", "no kernel for input types"),
		seqFails(wide, "wrong bias", "the bias is float[5]"),
		seqFails(other, "wrong residual", "the residual is float[7,3]"),
	}
}

// dropoutGradCases: dx = mask ? dy/(1-ratio) : 0.
func dropoutGradCases() []Case {
	var cs []Case
	for _, packed := range []bool{false, true} {
		for _, d := range seqFloats() {
			for _, s := range []seqShape{{"", []int{3, 41}}, {" empty", []int{0}}, {" large", []int{20003}},
				{" of whole words", []int{3, 64}}} {
				name, shape := s.name, s.dims
				n := seqCount(shape)
				dy, keep := seqValues(n, 4), seqKeep(9, n, 0.25)
				c := Case{Name: d.String() + name, Kind: op.DropoutGrad, Tol: seqTol(d), Out: []graph.DType{d},
					In: []*executor.Tensor{seqTensor(d, shape, dy), seqMask(shape, keep),
						seqTensor(graph.Float32, []int{1}, []float64{0.25}), nil}}
				if packed {
					c.Kind, c.In[1] = op.BitmaskDropoutGrad, seqBits(keep)
				}
				for i, k := range keep {
					if dy[i] /= 0.75; !k {
						dy[i] = 0
					}
				}
				c.Want = []*executor.Tensor{seqTensor(d, shape, dy)}
				cs = append(cs, c)
			}
		}
	}
	x, keep := seqTensor(graph.Float32, []int{4}, []float64{1, 2, 3, 4}), []bool{true, false, true, true}
	mask := seqMask([]int{4}, keep)
	plain := Case{Name: "ratio left out", Kind: op.DropoutGrad, In: []*executor.Tensor{x, mask},
		Out:  []graph.DType{graph.Float32},
		Want: []*executor.Tensor{seqTensor(graph.Float32, []int{4}, []float64{2, 0, 6, 8})}}
	// Even without training, ONNX Runtime divides.
	idle := plain
	idle.Name = "training mode false"
	idle.In = []*executor.Tensor{x, mask, nil, seqTensor(graph.Bool, []int{}, []float64{0})}
	short := plain
	short.In = []*executor.Tensor{x, seqMask([]int{3}, keep[:3])}
	words := plain
	words.Kind, words.In = op.BitmaskDropoutGrad,
		[]*executor.Tensor{x, seqTensor(graph.Uint32, []int{2}, []float64{1, 1})}
	return append(cs, plain, idle, seqFails(short, "wrong mask", "the mask is bool[3]"),
		seqFails(words, "wrong mask", "wanted 1 words"))
}
