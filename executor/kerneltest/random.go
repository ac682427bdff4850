package kerneltest

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(randomCases) }

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
	return append(cs, bernoulliCases()...)
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
