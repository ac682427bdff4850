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
		for _, s := range []struct {
			seqShape
			first int
		}{{seqShape{"", []int{3, 7}}, 0}, {seqShape{" empty", []int{0}}, 0}, {seqShape{" scalar", []int{}}, 0},
			{seqShape{" large", []int{5, 4001}}, 0}, {seqShape{" from 1", []int{2, 3}}, 1},
			{seqShape{" from 1042", []int{4, 2003}}, 1042}, {seqShape{" from 3 large", []int{5, 4001}}, 3}} {
			name, shape := s.name, s.dims
			n := seqCount(shape)
			seed := float32(3.5)
			u := seqUniform(uint64(math.Float32bits(seed)), s.first+n+1)
			uniform, normal := make([]float64, n), make([]float64, n)
			for k := range n {
				i := s.first + k
				uniform[k] = -2 + 5*u[i]
				r := math.Sqrt(-2 * math.Log(1-u[i&^1]))
				if normal[k] = 1 + 0.5*r*math.Cos(2*math.Pi*u[i|1]); i%2 == 1 {
					normal[k] = 1 + 0.5*r*math.Sin(2*math.Pi*u[i])
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
				c := Case{Name: d.String() + name, Kind: k, Attrs: attrs, In: in, Out: []graph.DType{d}, Tol: seqTol(d),
					Want: []*executor.Tensor{seqTensor(d, shape, v)}}
				if s.first > 0 {
					c = drawnFrom(c, s.first)
				}
				cs = append(cs, c)
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
	lost := bad
	lost.Attrs, lost.Meta = nil, []graph.Property{{Key: op.DrawsKey, Value: "7"}}
	below := lost
	below.Meta = []graph.Property{{Key: op.DrawsKey, Value: `{"schema": "memopt.draws/v1", "first": -1}`}}
	beyond := lost
	beyond.Meta = []graph.Property{{Key: op.DrawsKey, Value: `{"schema": "memopt.draws/v1", "first": 4611686018427387904}`}}
	cs = append(cs, seqFails(lost, "not JSON", `node "RandomUniform/not JSON" (RandomUniform): metadata memopt.draws`),
		seqFails(below, "before the first", "first is -1"),
		seqFails(beyond, "beyond the last", "first is 4611686018427387904"))
	return append(cs, bernoulliCases()...)
}

// drawnFrom makes a case that of a part of another: it draws from the whole's element first on.
func drawnFrom(c Case, first int) Case {
	part, err := drawFrom(c, int64(first))
	if err != nil {
		panic(err) // of a number that is written down here
	}
	return part
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
					Out: []graph.DType{out}, Want: []*executor.Tensor{seqTensor(out, []int{13, 100}, want)}},
				drawnFrom(Case{Name: in.String() + " to " + out.String() + " from 701", Kind: op.Bernoulli,
					In:  []*executor.Tensor{seqTensor(in, []int{599}, p[701:])},
					Out: []graph.DType{out}, Want: []*executor.Tensor{seqTensor(out, []int{599}, want[701:])}}, 701))
		}
	}
	return cs
}
