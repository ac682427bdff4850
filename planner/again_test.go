package planner_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/autograd"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/planner"
)

// squareLayers is the training step of so many layers of 64×64 weights, which dwarf activations.
func squareLayers(t *testing.T, layers int, lossScale string, o autograd.Optimizer) *autograd.Joint {
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
net (float[2, 64] x, float[2, 64] target%s) => (float loss) {%s
	d = Sub(%s, target)  e = Mul(d, d)  loss = ReduceMean<keepdims = 0>(e)
}`, inputs.String(), nodes.String(), x)
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
		j := squareLayers(t, layers, c.lossScale, c.o)
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
