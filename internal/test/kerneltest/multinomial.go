package kerneltest

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(multinomialCases) }

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
					Out:   []graph.DType{out}, Want: []*executor.Tensor{seqTensor(out, []int{rows, samples}, want)}},
				drawnFrom(Case{Name: in.String() + " to " + out.String() + " last row", Kind: op.Multinomial,
					In:    []*executor.Tensor{seqTensor(in, []int{1, classes}, x[2*classes:])},
					Attrs: []graph.Attr{Attr("sample_size", int64(samples))},
					Out:   []graph.DType{out},
					Want:  []*executor.Tensor{seqTensor(out, []int{1, samples}, want[2*samples:])}},
					2*samples))
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
