package kerneltest

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(randomCases); register(windowFunctionCases); register(biasSoftmaxDropoutCases) }

// randomCases compute the draws from the definition of the streams.
func randomCases() []Case {
	var cs []Case
	for _, d := range seqFloats() {
		for _, s := range []seqShape{{"", []int{3, 7}}, {" empty", []int{0}}, {" scalar", []int{}},
			{" large", []int{5, 4001}}} {
			name, shape := s.name, s.dims
			n := seqCount(shape)
			seed := float32(3.5)
			u := seqUniform(uint64(math.Float32bits(seed)), n+1)
			uniform, normal := make([]float64, n), make([]float64, n)
			for i := range n {
				uniform[i] = -2 + 5*u[i]
				r := math.Sqrt(-2 * math.Log(1-u[i&^1]))
				if normal[i] = 1 + 0.5*r*math.Cos(2*math.Pi*u[i|1]); i%2 == 1 {
					normal[i] = 1 + 0.5*r*math.Sin(2*math.Pi*u[i])
				}
			}
			dims := []int64{}
			for _, s := range shape {
				dims = append(dims, int64(s))
			}
			uniformAttrs := []graph.Attr{Attr("seed", seed), Attr("low", float32(-2)), Attr("high", float32(3)),
				Attr("shape", dims)}
			normalAttrs := []graph.Attr{Attr("seed", seed), Attr("mean", float32(1)), Attr("scale", float32(0.5)),
				Attr("shape", dims)}
			like := []*executor.Tensor{seqTensor(d, shape, make([]float64, n))}
			draw := func(k graph.Kind, attrs []graph.Attr, in []*executor.Tensor, v []float64) {
				cs = append(cs,
					Case{Name: d.String() + name, Kind: k, Attrs: attrs, In: in, Out: []graph.DType{d}, Tol: seqTol(d),
						Want: []*executor.Tensor{seqTensor(d, shape, v)}})
			}
			draw(op.RandomUniform, uniformAttrs, nil, uniform)
			draw(op.RandomUniformLike, uniformAttrs[:3], like, uniform)
			draw(op.RandomNormal, normalAttrs, nil, normal)
			draw(op.RandomNormalLike, normalAttrs[:3], like, normal)
		}
	}
	bad := Case{
		Kind: op.RandomUniform, Attrs: []graph.Attr{Attr("shape", []int64{-1})}, Out: []graph.DType{graph.Float32},
	}
	ints := Case{Kind: op.RandomNormalLike, In: []*executor.Tensor{seqTensor(graph.Int32, []int{1}, []float64{1})},
		Out: []graph.DType{graph.Int32}}
	cs = append(cs, seqFails(bad, "negative dim", "negative dims"),
		seqFails(ints, "integers", "no kernel for output type int32"))
	return append(append(cs, bernoulliCases()...), multinomialCases()...)
}

func bernoulliCases() []Case {
	var cs []Case
	for _, in := range seqFloats() {
		for _, out := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.Bool, graph.Int8,
			graph.Int64, graph.Uint16, graph.Uint32} {
			const n = 1300
			p, u := seqValues(n, 3), seqUniform(1, n)
			want := make([]float64, n)
			for i := range p {
				p[i] = math.Abs(p[i]) / 2
				if u[i] < p[i] {
					want[i] = 1
				}
			}
			cs = append(cs,
				Case{Name: in.String() + " to " + out.String(), Kind: op.Bernoulli,
					In:  []*executor.Tensor{seqTensor(in, []int{13, 100}, p)},
					Out: []graph.DType{out}, Want: []*executor.Tensor{seqTensor(out, []int{13, 100}, want)}})
		}
	}
	return cs
}

// multinomialCases look for the class by adding up probabilities.
func multinomialCases() []Case {
	var cs []Case
	for _, in := range seqFloats() {
		for _, out := range []graph.DType{graph.Int32, graph.Int64} {
			const rows, classes, samples = 3, 9, 700
			x, u := seqValues(rows*classes, 8), seqUniform(1, rows*samples)
			x[4] = math.Inf(-1)
			want := make([]float64, rows*samples)
			for i := range want {
				p := x[i/samples*classes:][:classes]
				total := 0.0
				for _, v := range p {
					total += math.Exp(v)
				}
				left := u[i] * total
				for left >= math.Exp(p[int(want[i])]) {
					left -= math.Exp(p[int(want[i])])
					want[i]++
				}
			}
			cs = append(cs,
				Case{Name: in.String() + " to " + out.String(), Kind: op.Multinomial,
					In:    []*executor.Tensor{seqTensor(in, []int{rows, classes}, x)},
					Attrs: []graph.Attr{Attr("sample_size", int64(samples))},
					Out:   []graph.DType{out}, Want: []*executor.Tensor{seqTensor(out, []int{rows, samples}, want)}})
		}
	}
	of := func(shape ...int) Case {
		return Case{
			Kind: op.Multinomial,
			In:   []*executor.Tensor{seqTensor(graph.Float32, shape, seqValues(seqCount(shape), 1))},
			Out:  []graph.DType{graph.Int32},
		}
	}
	empty := of(0, 3)
	empty.Name, empty.Want = "empty", []*executor.Tensor{seqTensor(graph.Int32, []int{0, 1}, nil)}
	return append(cs, empty, seqFails(of(2, 0), "no classes", "no class to draw"),
		seqFails(of(2), "rank 1", "wanted rank 2"))
}

// windowFunctionCases compute the sums of cosines.
func windowFunctionCases() []Case {
	var cs []Case
	factors := [][3]float64{{0.5, 0.5}, {25. / 46, 21. / 46}, {0.42, 0.5, 0.08}}
	for k, kind := range []graph.Kind{op.HannWindow, op.HammingWindow, op.BlackmanWindow} {
		f := factors[k]
		window := func(name string, size int, periodic int64, d graph.DType) Case {
			n := float64(size)
			if periodic == 0 {
				n--
			}
			want := make([]float64, size)
			for i := range want {
				t := 2 * math.Pi * float64(i) / n
				want[i] = f[0] - f[1]*math.Cos(t) + f[2]*math.Cos(2*t)
				if n == 0 {
					want[i] = 1
				}
			}
			return Case{Name: name, Kind: kind,
				Attrs: []graph.Attr{Attr("periodic", periodic), Attr("output_datatype", int64(d))}, Tol: seqTol(d),
				In:   []*executor.Tensor{seqTensor(graph.Int64, []int{}, []float64{float64(size)})},
				Out:  []graph.DType{d},
				Want: []*executor.Tensor{seqTensor(d, []int{size}, want)}}
		}
		for _, d := range seqFloats() {
			cs = append(cs, window("periodic "+d.String(), 10, 1, d), window("symmetric "+d.String(), 11, 0, d))
		}
		short := window("int32 size", 5, 1, graph.Float32)
		short.In[0] = seqTensor(graph.Int32, []int{1}, []float64{5})
		negative := window("", 0, 1, graph.Float32)
		negative.In = []*executor.Tensor{seqTensor(graph.Int64, []int{}, []float64{-1})}
		cs = append(cs, window("empty", 0, 1, graph.Float32), window("one", 1, 0, graph.Float32),
			window("large", 20001, 1, graph.Float32), short,
			seqFails(negative, "negative size", "is -1"))
	}
	return cs
}

// biasSoftmaxDropoutCases compute softmax and dropout one after the other.
func biasSoftmaxDropoutCases() []Case {
	var cs []Case
	soft := func(name string, d graph.DType, shape, bias []int, axis int64, softmax bool) {
		n := seqCount(shape)
		x, b := seqValues(n, 5), seqValues(seqCount(bias), 6)
		c := Case{Name: name, Kind: op.BiasSoftmaxDropout, Tol: seqTol(d),
			Attrs: []graph.Attr{Attr("axis", axis), Attr("seed", int64(3))},
			In: []*executor.Tensor{seqTensor(d, shape, x), seqTensor(d, bias, b),
				seqTensor(graph.Float32, []int{}, []float64{0.25})},
			Out: []graph.DType{d, graph.Bool}}
		if axis < 0 {
			axis += int64(len(shape))
		}
		length := seqCount(shape[axis:])
		s := make([]float64, n)
		for i := range s {
			s[i] = math.Exp(x[i] + b[seqBroadcast(i, shape, bias)])
		}
		for row := 0; row < n; row += max(length, 1) {
			sum := 0.0
			for _, v := range s[row : row+length] {
				sum += v
			}
			for i := range length {
				s[row+i] /= sum
			}
		}
		keep, y := seqKeep(3, n, 0.25), make([]float64, n)
		for i, k := range keep {
			if k {
				y[i] = s[i] / 0.75
			}
		}
		c.Want = []*executor.Tensor{seqTensor(d, shape, y), seqMask(shape, keep)}
		if softmax {
			c.Out, c.Want = append(c.Out, d), append(c.Want, seqTensor(d, shape, s))
		}
		cs = append(cs, c)
	}
	for _, d := range seqFloats() {
		soft(d.String(), d, []int{2, 3, 5, 7}, []int{2, 1, 1, 7}, 3, true)
	}
	soft("softmax left out", graph.Float32, []int{2, 3, 5, 7}, []int{1, 1, 5, 7}, -1, false)
	soft("bias of lower rank", graph.Float32, []int{2, 3, 5, 7}, []int{5, 7}, 2, true)
	soft("axis 0", graph.Float32, []int{3, 5}, []int{3, 5}, 0, true)
	soft("empty", graph.Float32, []int{3, 0}, []int{1, 0}, 1, true)
	soft("no rows", graph.Float32, []int{0, 5}, []int{1, 5}, 1, true)
	soft("large", graph.Float32, []int{30, 1025}, []int{1, 1025}, 1, true)
	bad := cs[0]
	bad.In = []*executor.Tensor{bad.In[0], seqTensor(graph.Float32, []int{2, 2, 1, 7}, seqValues(28, 1))}
	short := cs[0]
	short.In = []*executor.Tensor{short.In[0], seqTensor(graph.Float32, []int{1}, seqValues(1, 1))}
	return append(cs, seqFails(bad, "wrong bias", "does not broadcast"),
		seqFails(short, "short bias", "the bias is float[1]"))
}

// seqBroadcast returns the element of an array of shape from that element i of one of shape to
// sees.
func seqBroadcast(i int, to, from []int) int {
	at, stride := 0, 1
	for k := len(to) - 1; k >= 0; k-- {
		p := i % to[k]
		i /= to[k]
		if j := k - (len(to) - len(from)); j >= 0 {
			if from[j] > 1 {
				at += p * stride
			}
			stride *= from[j]
		}
	}
	return at
}
