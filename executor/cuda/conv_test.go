package cuda_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/internal/test/kerneltest"
)

// convolves reports whether cuDNN has a part in an operator.
func convolves(k graph.Kind) bool {
	return k == op.Conv || k == op.FusedConv || k == op.ConvTranspose || k == op.ConvGrad
}

// TestConvInPieces: convolutions whose columns are made piece by piece: some images, some places or
// some channels at a time.
func TestConvInPieces(t *testing.T) {
	for _, bytes := range []int{1, 600} {
		restore := cuda.LowerColumnBytes(bytes)
		for _, c := range cases() {
			if !convolves(c.Kind) {
				continue
			}
			large := false
			for _, x := range c.In {
				large = large || x != nil && (x.Len() > 1000 || x.Len() > 200 && x.DType == graph.Float32)
			}
			if large || c.Fails != "" {
				continue
			}
			d, _ := opened(t, double.Options{NoConvolutions: true})
			c.Name = fmt.Sprint(c.Name, ", columns of ", bytes, " bytes")
			kerneltest.Check(t, d, c)
		}
		restore()
	}
}

// randomFloats makes small integers, sums of which are exact.
func randomFloats(seed uint64, shape ...int) *executor.Tensor {
	r := rand.New(rand.NewPCG(seed, 1))
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.IntN(9) - 4)
	}
	return float32s(shape, v...)
}

// TestRandomConvs: convolutions of any geometry give what the host's give, bit for bit where all
// sums are exact.
func TestRandomConvs(t *testing.T) {
	own, _ := opened(t, double.Options{NoConvolutions: true})
	library, dbl := opened(t, double.Options{})
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]*cuda.Device{own, library}).Draw(t, "device")
		rank, group := rapid.IntRange(1, 3).Draw(t, "rank"), rapid.IntRange(1, 3).Draw(t, "group")
		list := func(name string, lo, hi, n int) []int64 {
			var l []int64
			for range n {
				l = append(l, rapid.Int64Range(int64(lo), int64(hi)).Draw(t, name))
			}
			return l
		}
		cg, mg := rapid.IntRange(1, 3).Draw(t, "cg"), rapid.IntRange(1, 3).Draw(t, "mg")
		x, w := []int{rapid.IntRange(1, 3).Draw(t, "n"), cg * group}, []int{mg * group, cg}
		transpose := rapid.Bool().Draw(t, "transpose")
		if transpose {
			w = []int{cg * group, mg}
		}
		limit := []int{150, 14, 6}[rank-1] // long kernels over long lines, too
		for range rank {
			k := rapid.IntRange(1, limit).Draw(t, "kernel")
			w = append(w, k)
			x = append(x, k+rapid.IntRange(0, 6).Draw(t, "places"))
		}
		attrs := []graph.Attr{kerneltest.Attr("group", int64(group)),
			kerneltest.Attr("strides", list("stride", 1, 3, rank)),
			kerneltest.Attr("pads", list("pad", 0, 1, 2*rank))}
		kind := op.Conv
		if transpose {
			kind = op.ConvTranspose
		}
		c := kerneltest.Case{
			Name: "random", Kind: kind, Attrs: attrs,
			In: []*executor.Tensor{randomFloats(1, x...), randomFloats(2, w...)}, Out: []graph.DType{graph.Float32},
		}
		want, err := kerneltest.Run(cpu.Device{}, &c, kerneltest.Setup{Threads: 1})
		got, failed := kerneltest.Run(d, &c, kerneltest.Setup{Threads: 1, Runs: 2})
		if err != nil {
			require.Error(t, failed)
			return
		}
		require.NoError(t, failed)
		require.NoError(t, kerneltest.Compare(got[0], want[0], 1e-6))
	})
	require.Positive(t, dbl.Counts().Convolutions)
}

// TestMaxPoolGradients: in a session, where the size of dX is known, the device adds up what the
// host does.
func TestMaxPoolGradients(t *testing.T) {
	for _, attrs := range []string{"kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 1, 1]",
		"kernel_shape = [2, 2], strides = [2, 2], storage_order = 1",
		"kernel_shape = [2, 3], dilations = [2, 1], ceil_mode = 1, strides = [3, 2]"} {
		m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
			g (float[2, 3, 8, 7] x) => (float[2, 3, 8, 7] dx) {
				y, i = MaxPool<`+attrs+`>(x)
				dy = Mul(y, y)
				dx = MaxPoolGrad<`+attrs+`>(dy, i)
			}`)
		var want []float32
		gpu, _ := opened(t, double.Options{})
		for _, dev := range []executor.Device{cpu.Device{}, gpu} {
			s, err := executor.Open(context.Background(), m, types, dev, executor.Options{})
			require.NoError(t, err)
			require.NoError(t, s.SetInput("x", randomFloats(3, 2, 3, 8, 7)))
			require.NoError(t, s.Run(context.Background()))
			got := executor.Of[float32](s.Output(0))
			if want == nil {
				want = append(want, got...)
			}
			require.Equal(t, want, got)
			require.Empty(t, s.HostNodes())
			require.NoError(t, s.Close())
		}
	}
}
