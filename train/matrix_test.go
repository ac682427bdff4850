package train_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/precision"
	"memopt/train/checkpoint"
)

// TestMatrixOptimizersGoOn: jobs with muon and adafactor learn in any precision, take the arena that is predicted, have
// equal bits with any number of threads and whatever is recomputed, and go on from a checkpoint bit for bit. The states
// of a checkpoint are those of the rule: a momentum for each hidden matrix, two moments for each other parameter; a row
// and a column for each matrix.
func TestMatrixOptimizersGoOn(t *testing.T) {
	states := map[string][]string{
		"muon":      {"w1_momentum", "w2_momentum", "w3_exp_avg", "w3_exp_avg_sq"},
		"adafactor": {"w1_row_var", "w1_col_var", "w2_row_var", "w2_col_var", "w3_row_var", "w3_col_var"},
	}
	for kind, names := range states {
		for _, p := range []precision.Precision{precision.AsIs, precision.BF16, precision.BF16Pure} {
			for _, micros := range []int{1, 3} {
				what := fmt.Sprintf("%s, %s, %d micro-batches", kind, p, micros)
				fresh := func() *task {
					k := newTask(t, wideText)
					k.recipe.Micros, k.config.Micros = micros, int64(micros)
					k.recipe.Optimizer.Kind, k.config.Schedule.LR = kind, 0.005
					if kind == "adafactor" {
						k.config.Schedule.LR = 0.1
					}
					k.recipe.Differentiate.Precision = p
					return k
				}
				r, want := fresh().run(t, context.Background(), t.TempDir())
				require.Less(t, r.LossLast, 0.5*r.LossFirst, what)
				require.Equal(t, r.Predicted.Arena, r.MeasuredArena, what)
				c, err := checkpoint.Load(r.Saved)
				require.NoError(t, err)
				var held []string
				for _, e := range c.Others.Entries() {
					if e.Name != "step" {
						held = append(held, e.Name)
					}
				}
				require.ElementsMatch(t, names, held, what)
				require.NoError(t, c.Close())
				goesOn(t, what, fresh, want)
			}
		}
	}
}
