package kerneltest

import (
	"math"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
)

func init() { register(windowFunctionCases) }

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
