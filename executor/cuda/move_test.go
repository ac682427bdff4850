package cuda_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/internal/test/kerneltest"
)

// sameBits runs a case on the device and on the host, whose results are to be equal bit for bit.
func sameBits(t *testing.T, c kerneltest.Case) {
	t.Helper()
	d, _ := opened(t, double.Options{})
	want, err := kerneltest.Run(cpu.Device{}, &c, kerneltest.Setup{Threads: 1, Runs: 1})
	require.NoError(t, err)
	got, err := kerneltest.Run(d, &c, kerneltest.Setup{Threads: 1, Runs: 2})
	require.NoError(t, err)
	for i := range want {
		if want[i] != nil {
			require.NoError(t, kerneltest.Compare(got[i], want[i], 0), "%s: output %d", c.Name, i)
		}
	}
}

// counted returns a tensor whose bytes differ from place to place.
func counted(t graph.DType, shape ...int) *executor.Tensor {
	n, _ := executor.Bytes(t, shape)
	x := &executor.Tensor{DType: t, Shape: shape, Data: make([]byte, n)}
	for i := range x.Data {
		x.Data[i] = byte(i*7 + i>>8*3 + i>>16)
	}
	return x
}

func drawnFloats(r *rand.Rand, shape ...int) *executor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return executor.NewTensor(graph.Float32, shape, v...)
}

func drawnInts(r *rand.Rand, below int, shape ...int) *executor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]int64, n)
	for i := range v {
		v[i] = int64(r.IntN(2*below) - below) // negative ones count from the end
	}
	return executor.NewTensor(graph.Int64, shape, v...)
}

func integers(v ...int64) *executor.Tensor {
	return executor.NewTensor(graph.Int64, []int{len(v)}, v...)
}

// TestTransposeTiles: shapes that do not divide by a tile's side, more tiles than one per plane,
// axes outside the plane, and runs that widen to words of several elements.
func TestTransposeTiles(t *testing.T) {
	for _, dt := range []graph.DType{graph.Bool, graph.BFloat16, graph.Float32, graph.Int64} {
		for _, s := range []struct {
			shape []int
			perm  []int64
		}{
			{[]int{33, 65}, []int64{1, 0}}, {[]int{2, 40, 3, 35}, []int64{0, 2, 3, 1}},
			{[]int{3, 9, 70}, []int64{2, 0, 1}},
			{[]int{2, 5, 4, 16}, []int64{0, 2, 1, 3}}, {[]int{2, 5, 4, 6}, []int64{2, 0, 1, 3}},
			{[]int{40, 8, 2}, []int64{1, 0, 2}},
		} {
			c := kerneltest.Case{Name: fmt.Sprint(dt, s), Kind: op.Transpose,
				Attrs: []graph.Attr{{Name: "perm", Value: s.perm}},
				In:    []*executor.Tensor{counted(dt, s.shape...)}, Out: []graph.DType{dt}}
			sameBits(t, c)
		}
	}
}

// TestScatterOrder: sums of many updates of the same rows, more than a tile of the sort has, have
// the host's bits: they are added in the same order. That the last of several updates is the one
// that stays follows of the order as well.
func TestScatterOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 300, 5000} {
		for _, rows := range []int{1, 3, 700} {
			x, at, u := drawnFloats(r, rows), drawnInts(r, rows, n), drawnFloats(r, n)
			for _, how := range []string{"none", "add", "max"} {
				sameBits(t,
					kerneltest.Case{Name: fmt.Sprint(how, n, rows), Kind: op.ScatterElements,
						Attrs: []graph.Attr{{Name: "reduction", Value: how}},
						In:    []*executor.Tensor{x, at, u}, Out: []graph.DType{graph.Float32}})
			}
		}
	}
	sameBits(t, kerneltest.Case{Name: "rows", Kind: op.GatherGrad, Attrs: []graph.Attr{{Name: "axis", Value: int64(1)}},
		Out: []graph.DType{graph.Float32},
		In:  []*executor.Tensor{integers(2, 50, 6), drawnInts(r, 50, 30, 10), drawnFloats(r, 2, 30, 10, 6)}})
}

// TestDropoutBits: the mask and the values are the host's, in and out of whole words and packs.
func TestDropoutBits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 31, 1030, 4096} {
		in := []*executor.Tensor{drawnFloats(r, n), executor.NewTensor(graph.Float32, nil, float32(0.3)),
			executor.NewTensor(graph.Bool, nil, uint8(1))}
		sameBits(t, kerneltest.Case{Name: fmt.Sprint("bools ", n), Kind: op.Dropout, In: in,
			Out: []graph.DType{graph.Float32, graph.Bool}})
		sameBits(t, kerneltest.Case{Name: fmt.Sprint("bits ", n), Kind: op.BitmaskDropout, In: in,
			Out: []graph.DType{graph.Float32, graph.Uint32}})
	}
}

// TestRandomBits: uniform numbers are the host's.
func TestRandomBits(t *testing.T) {
	for _, dt := range []graph.DType{graph.Float32, graph.Float64, graph.Float16, graph.BFloat16} {
		sameBits(t, kerneltest.Case{Name: fmt.Sprint(dt), Kind: op.RandomUniform, Out: []graph.DType{dt},
			Attrs: []graph.Attr{
				{Name: "shape", Value: []int64{1001}}, {Name: "low", Value: float32(-0.1)},
				{Name: "high", Value: float32(2.7)}}})
	}
}

// TestPadBits: all modes, with pads longer than the axis and such that cut.
func TestPadBits(t *testing.T) {
	for _, mode := range []string{"constant", "reflect", "edge", "wrap"} {
		sameBits(t, kerneltest.Case{Name: mode, Kind: op.Pad, Attrs: []graph.Attr{{Name: "mode", Value: mode}},
			Out: []graph.DType{graph.Float16},
			In: []*executor.Tensor{counted(graph.Float16, 3, 4, 1, 5), integers(1, -1, 2, 7, 4, 9, 0, -2),
				counted(graph.Float16, 1)}})
	}
}
