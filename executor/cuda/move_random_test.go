package cuda_test

import (
	"testing"

	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/internal/test/kerneltest"
)

// movedTypes have elements of every size.
var movedTypes = []graph.DType{graph.Bool, graph.Float16, graph.Float32, graph.Int64}

// TestMovesLikeHost: transposes, slices, repeats and gathers of random shapes have the host's bits.
func TestMovesLikeHost(t *testing.T) {
	d, _ := opened(t, double.Options{})
	rapid.Check(t, func(t *rapid.T) {
		dt := rapid.SampledFrom(movedTypes).Draw(t, "type")
		shape := rapid.SliceOfN(rapid.IntRange(1, 12), 1, 4).Draw(t, "shape")
		c := kerneltest.Case{Name: "random", In: []*executor.Tensor{counted(dt, shape...)}, Out: []graph.DType{dt}}
		switch rapid.IntRange(0, 3).Draw(t, "operator") {
		case 0:
			c.Kind = op.Transpose
			axes := make([]int64, len(shape))
			for i := range axes {
				axes[i] = int64(i)
			}
			c.Attrs = []graph.Attr{{Name: "perm", Value: rapid.Permutation(axes).Draw(t, "perm")}}
		case 1:
			c.Kind = op.Slice
			bounds := rapid.SliceOfN(rapid.Int64Range(-13, 13), len(shape), len(shape))
			steps := rapid.SliceOfN(rapid.SampledFrom([]int64{-3, -1, 1, 2}), len(shape), len(shape))
			axes := make([]int64, len(shape))
			for i := range axes {
				axes[i] = int64(i)
			}
			c.In = append(c.In, integers(bounds.Draw(t, "starts")...), integers(bounds.Draw(t, "ends")...),
				integers(axes...), integers(steps.Draw(t, "steps")...))
		case 2:
			c.Kind = op.Tile
			c.In = append(c.In,
				integers(rapid.SliceOfN(rapid.Int64Range(0, 3), len(shape), len(shape)).Draw(t, "repeats")...))
		case 3:
			c.Kind = op.Gather
			axis := rapid.IntRange(0, len(shape)-1).Draw(t, "axis")
			c.Attrs = []graph.Attr{{Name: "axis", Value: int64(axis)}}
			n := int64(shape[axis])
			c.In = append(c.In, integers(rapid.SliceOfN(rapid.Int64Range(-n, n-1), 0, 20).Draw(t, "indices")...))
		}
		want, err := kerneltest.Run(cpu.Device{}, &c, kerneltest.Setup{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		got, err := kerneltest.Run(d, &c, kerneltest.Setup{Threads: 1, Runs: 2})
		if err != nil {
			t.Fatal(err)
		}
		if err := kerneltest.Compare(got[0], want[0], 0); err != nil {
			t.Fatal(err)
		}
	})
}
