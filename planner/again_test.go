package planner_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner"
)

// squareLayers is the training step of so many layers of 64×64 weights for a batch of so many rows.
func squareLayers(t *testing.T, layers, rows int, lossScale string, o autograd.Optimizer) *autograd.Joint {
	t.Helper()
	var inputs, nodes strings.Builder
	var wrt []string
	x := "x"
	for i := range layers {
		w := fmt.Sprintf("w%d", i)
		fmt.Fprintf(&inputs, ", float[64, 64] %s", w)
		fmt.Fprintf(&nodes, "  p%d = MatMul(%s, %s)  h%d = Tanh(p%d)", i, x, w, i, i)
		x, wrt = fmt.Sprintf("h%d", i), append(wrt, w)
	}
	text := fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17]>
net (float[%d, 64] x, float[%[1]d, 64] target%s) => (float loss) {%s
	d = Sub(%s, target)  e = Mul(d, d)  loss = ReduceMean<keepdims = 0>(e)
}`, rows, inputs.String(), nodes.String(), x)
	m, err := graph.Parse(text, "net")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	j, err := autograd.Differentiate(m, autograd.Options{Losses: []autograd.Loss{{Name: "loss"}}, Wrt: wrt,
		LossScale: lossScale})
	require.NoError(t, err)
	require.NoError(t, autograd.AppendOptimizer(j, o))
	return j
}

// Gradients that wait for the norm of all of them, or for whether all are finite, are made a second
// time to a budget: the second pass goes through the backward half and updates each weight once
// nothing of it needs the old one, so that no state is copied.
func TestGradientsAgain(t *testing.T) {
	const layers, weight = 8, 64 * 64 * 4
	for _, c := range []struct {
		lossScale string
		o         autograd.Optimizer
	}{
		{"", autograd.Optimizer{Kind: "adamw", MaxNorm: 1}},
		{"", autograd.Optimizer{Kind: "sgd", LR: 0.1, MaxNorm: 1}},
		{"scale", autograd.Optimizer{Kind: "adam"}},
		{"scale", autograd.Optimizer{Kind: "sgd", LR: 0.1, Momentum: 0.9, MaxNorm: 1}},
	} {
		j := squareLayers(t, layers, 2, c.lossScale, c.o)
		plain, err := planner.Make(j.Model, j.Types, planner.Options{})
		require.NoError(t, err)
		require.Empty(t, plain.Planned.Copied)
		require.Greater(t, plain.Base.Peak.Bytes, int64(layers*weight), "all gradients wait")
		require.Less(t, plain.Base.Peak.Bytes, int64((layers+2)*weight+1024), "squares are summed up without a copy")
		for _, gradients := range []int64{6, 4} {
			p, err := planner.Make(j.Model, j.Types,
				planner.Options{Strategy: planner.Budget{Arena: gradients * weight, Effort: 0.5}})
			require.NoError(t, err, "%+v: %d gradients", c, gradients)
			checkPlan(t, p, 0)
			require.LessOrEqual(t, p.Arena.Bytes, gradients*weight)
			require.Empty(t, p.Planned.Copied)
			again := 0
			for _, pl := range p.Placements {
				for _, id := range pl.Nodes {
					if p.Analysis.Backward[id] {
						again++
					}
				}
			}
			require.GreaterOrEqual(t, again, layers-int(gradients))
		}
	}
}

// Where what leads to the gradients is as large as they are, it is made again as well, and only as
// long as the weights that it takes are there.
func TestBackwardHalfAgain(t *testing.T) {
	const layers, size = 8, 64 * 64 * 4
	j := squareLayers(t, layers, 64, "", autograd.Optimizer{Kind: "sgd", LR: 0.1, MaxNorm: 1})
	least := int64(0)
	for share := 0.9; share > 0; share -= 0.1 {
		p, err := planner.Make(j.Model, j.Types,
			planner.Options{Strategy: planner.Budget{Share: share, Effort: 0.5}})
		if errors.Is(err, planner.ErrInfeasible) {
			break
		}
		require.NoError(t, err)
		checkPlan(t, p, 0)
		require.Empty(t, p.Planned.Copied, "%.0f %%", 100*share)
		least = p.Arena.Bytes
		require.Less(t, p.Overhead, 1.2*(1-share)*2, "%.0f %%", 100*share)
	}
	require.LessOrEqual(t, least, int64(5*size), "%d buffers and more are needed as it is", layers)
}
