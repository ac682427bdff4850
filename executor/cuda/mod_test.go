package cuda_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/internal/test/kerneltest"
)

// TestModIsExact: remainders of floats of any bits are those of math.Mod, to the last bit.
func TestModIsExact(t *testing.T) {
	d, _ := opened(t, double.Options{})
	rapid.Check(t, func(t *rapid.T) {
		const n = 64
		bits := rapid.SliceOfN(rapid.Uint32(), 2*n, 2*n).Draw(t, "bits")
		x, y, want := zerosOf(graph.Float32, n), zerosOf(graph.Float32, n), zerosOf(graph.Float32, n)
		for i := range n {
			a, b := math.Float32frombits(bits[i]), math.Float32frombits(bits[n+i])
			if i%4 == 0 {
				b = math.Float32frombits(bits[n+i] & 0x807fffff) // subnormal
			}
			executor.Of[float32](x)[i], executor.Of[float32](y)[i] = a, b
			executor.Of[float32](want)[i] = float32(math.Mod(float64(a), float64(b)))
		}
		c := kerneltest.Case{Name: "bits", Kind: op.Mod, Attrs: []graph.Attr{kerneltest.Attr("fmod", int64(1))},
			In: []*executor.Tensor{x, y}, Out: []graph.DType{graph.Float32}}
		got, err := kerneltest.Run(d, &c, kerneltest.Setup{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := kerneltest.Compare(got[0], want, 0); err != nil {
			t.Fatal(err)
		}
	})
}
