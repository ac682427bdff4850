package remat

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/internal/test/answers"
)

// replayed is a schedule of a problem of any size, step by step, with sets of names: another
// simulator than Simulate.
type replayed struct {
	cost   float64
	peak   int64
	firsts []string
}

func replay(t *testing.T, p *Problem, steps []Step) replayed {
	t.Helper()
	type value struct {
		maker  string
		size   int64
		keep   bool
		shares string
	}
	values, names := map[string]value{}, []string{}
	for _, n := range p.Nodes {
		for _, o := range n.Outputs {
			v := value{maker: n.ID, size: o.Size, keep: o.Keep}
			if n.View {
				v.size, v.shares = 0, names[n.Inputs[0]]
			}
			values[o.ID] = v
			names = append(names, o.ID)
			for id := v.shares; o.Keep && id != ""; id = values[id].shares {
				base := values[id]
				base.keep = true
				values[id] = base
			}
		}
	}
	live, done := map[string]bool{}, map[string]bool{}
	var r replayed
	for _, s := range steps {
		if s.Free {
			id := names[s.Node]
			require.True(t, live[id] && !values[id].keep, id)
			for other := range live {
				require.NotEqual(t, id, values[other].shares, "%s shares the memory of %s", other, id)
			}
			delete(live, id)
			continue
		}
		n := p.Nodes[s.Node]
		require.False(t, n.Once && done[n.ID], n.ID)
		for _, u := range n.Inputs {
			require.True(t, live[names[u]], "%s needs %s", n.ID, names[u])
		}
		bytes := p.Resident + n.Workspace
		for _, o := range n.Outputs {
			if live[o.ID] {
				require.True(t, values[o.ID].keep, o.ID)
				bytes += values[o.ID].size
			}
			live[o.ID] = true
		}
		for id := range live {
			bytes += values[id].size
		}
		r.peak = max(r.peak, bytes)
		r.cost += n.Cost
		if !done[n.ID] && !n.View {
			r.firsts = append(r.firsts, n.ID)
		}
		done[n.ID] = true
	}
	require.Len(t, done, len(p.Nodes))
	return r
}

// TestJointGraphs holds the schedules of small training steps of transformers' models, as AOTAutograd
// makes their graphs, to testdata/joint/answers.txt, and replays them.
func TestJointGraphs(t *testing.T) {
	var have strings.Builder
	for _, name := range []string{"gpt2", "llama"} {
		f, err := os.Open("testdata/joint/" + name + ".json")
		require.NoError(t, err)
		_, p, err := ReadAny(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		var given []string
		for _, n := range p.Nodes {
			if !n.View {
				given = append(given, n.ID)
			}
		}
		p.InOrder = true
		whole, err := p.Solve(context.Background(), Options{Budget: 1 << 40})
		require.NoError(t, err)
		for _, percent := range []int64{85, 60} {
			for _, p.InOrder = range []bool{true, false} {
				p.Budget = whole.Peak * percent / 100
				s, err := p.Solve(context.Background(), Options{Nodes: 100_000})
				fmt.Fprintf(&have, "%s, %d nodes, %d %%, in order %t: ", name, len(p.Nodes), percent, p.InOrder)
				if err != nil {
					fmt.Fprintln(&have, err)
					continue
				}
				r := replay(t, p, s.Steps)
				require.Equal(t, s.Peak, r.peak)
				require.InEpsilon(t, s.Cost, r.cost, 1e-12)
				require.LessOrEqual(t, s.CostLowerBound, s.Cost)
				require.LessOrEqual(t, s.PeakLowerBound, s.Peak)
				require.Equal(t, s.InOrder, slices.Equal(given, r.firsts))
				require.True(t, s.InOrder || !p.InOrder)
				fmt.Fprintf(&have, "peak %d of at least %d, overhead %.4f %% of at least %.4f %%, by %s, %s\n", s.Peak,
					s.PeakLowerBound, 100*(s.Cost/s.Base-1), 100*(s.CostLowerBound/s.Base-1), s.Solver,
					answers.Sum(s.Steps))
			}
		}
	}
	answers.Hold(t, "testdata/joint/answers.txt", have.String())
}
