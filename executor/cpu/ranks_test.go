package cpu_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/train/collective"
)

// rankGraph reduces a and b in two ways and gathers a piece. In place or not is the executor's choice: x
// is an input, which others still read, y is not.
const rankGraph = `<ir_version: 8, opset_import: ["" : 17, "memopt" : 1]>
g (T[N] a, T[M] b, bool[R] counts) => (T[N] sum, T[P] mine, T[N] back, T[P] whole) {
  begun = memopt.AllReduceStart <ranks = R> (a, counts)
  flat = Concat <axis = 0> (a, b)
  begun2 = memopt.ReduceScatterStart <ranks = R> (flat, counts)
  sum = memopt.CollectiveWait (begun)
  scattered = memopt.CollectiveWait (begun2)
  mine = memopt.RankPiece <ranks = R> (scattered)
  piece = memopt.RankPiece <ranks = R> (a, b)
  gathering = memopt.AllGatherStart <ranks = R> (piece)
  gathered = memopt.CollectiveWait (gathering)
  back = memopt.Unpack <offset = 0> (gathered, a)
  whole = memopt.Unpack <offset = 0> (gathered, mine)
}`

// rankModel is rankGraph for n+m elements, a multiple of ranks.
func rankModel(t require.TestingT, dtype string, n, m, ranks int) *graph.Model {
	text := strings.NewReplacer("[N]", fmt.Sprintf("[%d]", n), "[M]", fmt.Sprintf("[%d]", m),
		"[P]", fmt.Sprintf("[%d]", (n+m)/ranks), "[R]", fmt.Sprintf("[%d]", ranks),
		"= R>", fmt.Sprintf("= %d>", ranks)).
		Replace(rankGraph)
	model, err := graph.Parse(strings.ReplaceAll(text, "T[", dtype+"["), "ranks")
	require.NoError(t, err)
	return model
}

// onRanks runs a model on every rank with its inputs, and returns the outputs by rank.
func onRanks(m func() *graph.Model, groups []collective.Group, in []map[string]*executor.Tensor) ([][]*executor.Tensor,
	[]error) {
	out, errs := make([][]*executor.Tensor, len(groups)), make([]error, len(groups))
	var all sync.WaitGroup
	for r, g := range groups {
		all.Go(func() {
			out[r], errs[r] = onRank(m(), executor.NewRanks(g), in[r])
			if errs[r] != nil {
				g.Abort(1)
			}
		})
	}
	all.Wait()
	return out, errs
}

func onRank(m *graph.Model, ranks *executor.Ranks, in map[string]*executor.Tensor) ([]*executor.Tensor, error) {
	types, err := op.Infer(m)
	if err != nil {
		return nil, err
	}
	s, err := executor.Open(context.Background(), m, types, cpu.Device{}, executor.Options{Threads: 1, Ranks: ranks,
		Guard: true})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for name, t := range in {
		if err := s.SetInput(name, t); err != nil {
			return nil, err
		}
	}
	for range 2 {
		if err = s.Run(context.Background()); err != nil {
			return nil, err
		}
	}
	var out []*executor.Tensor
	for i := range m.Graph.Outputs {
		v := s.Output(i)
		out = append(out, &executor.Tensor{DType: v.DType, Shape: slices.Clone(v.Shape), Data: aligned(v.Data)})
	}
	return out, nil
}

// aligned is a copy of elements that Of can read.
func aligned(data []byte) []byte {
	return append(make([]byte, 0, len(data)+8), data...)
}

// TestRanks: sums, pieces and what is gathered, against plain loops in the order of the ranks.
func TestRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(1, 4).Draw(t, "ranks")
		n := rapid.IntRange(0, 40).Draw(t, "n")
		m := rapid.IntRange(1, 10).Draw(t, "m")
		for (n+m)%ranks != 0 {
			m++
		}
		counts := rapid.SliceOfN(rapid.Bool(), ranks, ranks).Draw(t, "counts")
		double := rapid.Bool().Draw(t, "double")
		if double {
			checkRanks[float64](t, "double", graph.Float64, ranks, n, m, counts)
		} else {
			checkRanks[float32](t, "float", graph.Float32, ranks, n, m, counts)
		}
	})
}

func checkRanks[T float32 | float64](t *rapid.T, name string, d graph.DType, ranks, n, m int, counts []bool) {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(m)))
	in, flat, sum := make([]map[string]*executor.Tensor, ranks), make([][]T, ranks), make([]T, n+m)
	flags := make([]uint8, ranks)
	for r := range ranks {
		for range n + m {
			flat[r] = append(flat[r], T(rng.NormFloat64()))
		}
		if counts[r] {
			flags[r] = 1
		}
	}
	for r := range ranks {
		in[r] = map[string]*executor.Tensor{"a": executor.NewTensor(d, []int{n}, flat[r][:n]...),
			"b":      executor.NewTensor(d, []int{m}, flat[r][n:]...),
			"counts": executor.NewTensor(graph.Bool, []int{ranks}, flags...)}
		for i := range sum {
			x := flat[r][i]
			if !counts[r] {
				x = 0
			}
			if r == 0 {
				sum[i] = x
			} else {
				sum[i] += x
			}
		}
	}
	model := func() *graph.Model { return rankModel(t, name, n, m, ranks) }
	out, errs := onRanks(model, collective.Local(ranks), in)
	piece := (n + m) / ranks
	var gathered []T
	for r := range ranks {
		gathered = append(gathered, flat[r][r*piece:(r+1)*piece]...)
	}
	for r := range ranks {
		require.NoError(t, errs[r])
		require.Equal(t, sum[:n], append([]T{}, executor.Of[T](out[r][0])...))
		require.Equal(t, sum[r*piece:(r+1)*piece], executor.Of[T](out[r][1]))
		require.Equal(t, gathered[:n], append([]T{}, executor.Of[T](out[r][2])...))
		require.Equal(t, gathered[:piece], executor.Of[T](out[r][3]))
	}
}

// TestRanksDisagree: a graph of another number of ranks is refused with both numbers, and so is a group
// that ends.
func TestRanksDisagree(t *testing.T) {
	model := func() *graph.Model { return rankModel(t, "float", 4, 4, 4) }
	_, errs := onRanks(model, collective.Local(2), make([]map[string]*executor.Tensor, 2))
	for _, err := range errs {
		require.ErrorContains(t, err, "one of 4 ranks, and 2 are running")
	}
	groups := collective.Local(2)
	groups[1].Abort(3)
	in := map[string]*executor.Tensor{"a": executor.NewTensor[float32](graph.Float32, []int{2}, 1, 2),
		"b":      executor.NewTensor[float32](graph.Float32, []int{2}, 1, 2),
		"counts": executor.NewTensor[uint8](graph.Bool, []int{2}, 1, 1)}
	_, err := onRank(rankModel(t, "float", 2, 2, 2), executor.NewRanks(groups[0]), in)
	require.ErrorContains(t, err, "AllReduceStart")
	require.ErrorIs(t, err, collective.ErrAborted)
}

// TestEndOfPieces: the last piece ends with zeros, whatever was in its memory before.
func TestEndOfPieces(t *testing.T) {
	model := func() *graph.Model {
		m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17, "memopt" : 1]>
g (float[64] c, float[10] a) => (float s, float[3] y) {
  e = Exp (c)
  s = ReduceSum <keepdims = 0> (e)
  piece = memopt.RankPiece <ranks = 4> (a)
  y = Abs (piece)
}`, "piece")
		require.NoError(t, err)
		return m
	}
	in := make([]map[string]*executor.Tensor, 4)
	for r := range in {
		in[r] = map[string]*executor.Tensor{"c": executor.NewTensor(graph.Float32, []int{64}, make([]float32, 64)...),
			"a": executor.NewTensor(graph.Float32, []int{10}, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}...)}
	}
	out, errs := onRanks(model, collective.Local(4), in)
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, []float32{7, 8, 9}, executor.Of[float32](out[2][1]))
	require.Equal(t, []float32{10, 0, 0}, executor.Of[float32](out[3][1]))
}
