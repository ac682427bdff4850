package estimate

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/autograd"
	"memopt/graph/precision"
	"memopt/internal/test/graphtest"
	"memopt/train"
)

// TestLeastHeld: the bound that leaves out sets of changes is at most the weights and states of the step with them,
// and near them where states are codes.
func TestLeastHeld(t *testing.T) {
	list := graphtest.Structures.Files(t)
	for _, net := range []string{"gpt2_6l_256", "resnet18", "mlp_8x1024"} {
		at := slices.IndexFunc(list, func(x graphtest.Sample) bool { return x.Name == net })
		require.GreaterOrEqual(t, at, 0, net)
		m, err := memopt.Open(list[at].File, memopt.Options{Dims: map[string]int64{"batch": 2, "seq": 8}})
		require.NoError(t, err)
		defer m.Close()
		for _, kind := range []string{"sgd", "adamw", "lion"} {
			s, err := newStep(m, Options{Recipe: train.Recipe{Optimizer: autograd.Optimizer{Kind: kind, MaxNorm: 1}}})
			require.NoError(t, err)
			sets := s.changes()
			require.NotEmpty(t, sets)
			near := false
			for _, c := range sets {
				other, err := newStep(m, c.on(s.opts))
				require.NoError(t, err, "%+v", c)
				p := other.persistent()
				held, least := p.Weights-p.Inputs+p.State+other.master, s.leastHeld(&c)
				require.LessOrEqual(t, least, held, "%s %s %+v", net, kind, c)
				near = near || c.precision == precision.BF16Pure && 10*least >= 9*held
			}
			require.True(t, near, "%s %s", net, kind)
		}
	}
}
