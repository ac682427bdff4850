package train_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/graph/precision"
	"memopt/internal/half"
	"memopt/train"
	"memopt/train/checkpoint"
	"memopt/train/safetensors"
)

// TestMoments: the moments of a checkpoint in float32 are the numbers of its codes times the scales of their blocks,
// in the shape of the parameter; those of bfloat16 are widened, and others stay. The forward model takes the weights.
func TestMoments(t *testing.T) {
	for kind, bits := range map[string]int{"adamw8bit": 8, "adam4bit": 4, "adamw": 0} {
		for _, p := range []precision.Precision{precision.AsIs, precision.BF16Pure} {
			k := newTask(t, wideText)
			k.recipe.Optimizer.Kind, k.config.Schedule.LR, k.config.Updates = kind, 0.002, 3
			k.recipe.Differentiate.Precision = p
			r, _ := k.run(t, context.Background(), t.TempDir())
			c, err := checkpoint.Load(r.Saved)
			require.NoError(t, err)
			var file bytes.Buffer
			require.NoError(t, train.WriteMoments(&file, c))
			path := filepath.Join(t.TempDir(), "moments.safetensors")
			require.NoError(t, os.WriteFile(path, file.Bytes(), 0o600))
			got, err := safetensors.Open(path)
			require.NoError(t, err)
			for _, param := range []string{"w1", "w2", "w3"} {
				for suffix, signed := range map[string]bool{"_exp_avg": true, "_exp_avg_sq": false} {
					x, ok := got.Tensor(param + suffix)
					require.True(t, ok)
					require.Equal(t, graph.Float32, x.DType)
					w, ok := c.Weights.Tensor(param)
					require.True(t, ok)
					require.Equal(t, w.Shape, x.Shape)
					saved, ok := c.Others.Tensor(param + suffix)
					require.True(t, ok)
					coded := saved.DType == graph.Uint8
					require.Equal(t, bits > 0 && w.Len() >= 4096, coded)
					_, ok = got.Tensor(param + suffix + "_scale")
					require.False(t, ok)
					block, numbers := op.LowBitNumbers(max(bits, 4), signed)
					for i, v := range executor.Of[float32](x) {
						var want float32
						switch {
						case coded:
							scales, _ := c.Others.Tensor(param + suffix + "_scale")
							code := saved.Data[i*bits/8]
							if bits == 4 {
								code = code >> (4 - 4*(i%2)) & 15
							}
							want = numbers[code] * executor.Of[float32](scales)[i/block]
						case saved.DType == graph.BFloat16:
							want = executor.Of[half.BFloat16](saved)[i].Float32()
						default:
							want = executor.Of[float32](saved)[i]
						}
						require.Equal(t, want, v, "%s, %s: %s%s[%d]", kind, p, param, suffix, i)
					}
				}
			}
			steps, ok := got.Tensor("step")
			require.True(t, ok)
			require.EqualValues(t, 3, executor.Of[int64](steps)[0])

			m := k.model.Model.Clone()
			out, err := c.Export(m)
			require.NoError(t, err)
			require.ElementsMatch(t, []string{"w1", "w2", "w3"}, out.Weights)
			v, _ := m.Graph.Lookup("w2")
			require.Equal(t, graph.Float32, m.Graph.Values[v].Data.DType)
			raw, err := m.Graph.Values[v].Data.Source.Bytes()
			require.NoError(t, err)
			w, _ := c.Weights.Tensor("w2")
			for i, x := range executor.Cast[float32](raw) {
				if p == precision.BF16Pure {
					require.Equal(t, executor.Of[half.BFloat16](w)[i].Float32(), x)
				} else {
					require.Equal(t, executor.Of[float32](w)[i], x)
				}
			}
			require.NoError(t, got.Close())
			require.NoError(t, c.Close())
		}
	}
}

// TestMomentsRefused: codes beside scales of another number have no format.
func TestMomentsRefused(t *testing.T) {
	job, err := checkpoint.OpenJob(t.TempDir())
	require.NoError(t, err)
	defer job.Close()
	entries := []safetensors.Entry{{Name: "w_exp_avg", DType: graph.Uint8, Shape: []int{100}},
		{Name: "w_exp_avg_scale", DType: graph.Float32, Shape: []int{1}}}
	path, err := job.Save(&checkpoint.Manifest{Step: 1, Accumulation: 1}, nil, entries,
		func(string, []byte) error { return nil })
	require.NoError(t, err)
	c, err := checkpoint.Load(path)
	require.NoError(t, err)
	defer c.Close()
	require.ErrorContains(t, train.WriteMoments(&bytes.Buffer{}, c),
		`tensor "w_exp_avg" has 100 codes beside float[1]: wanted blocks of 256 codes of 8 bits, or of 128 of 4`)
}
