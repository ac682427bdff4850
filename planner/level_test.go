package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/recompute"
)

// widening has a float value made of bytes: what frees it by strategy 2 keeps a quarter.
const widening = `<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[4096, 512] x) => (float[4096, 512] g) {
	[small] s = Cast <to = 2> (x)  [wide] w = Cast <to = 1> (s)  [act] a = Tanh (w)
	[yield] ag = com.microsoft.YieldOp <full_shape_outputs = [0]> (a)  [grad] g = Mul (ag, w) }`

// TestFreedByRatio: a candidate frees its share of the bytes, which need not be a half.
func TestFreedByRatio(t *testing.T) {
	m, err := graph.Parse(widening, "widening")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	p := planOf(t, m, nil)
	ratios := map[recompute.Strategy]recompute.Ratio{}
	for i := range p.Analysis.Candidates {
		c := &p.Analysis.Candidates[i]
		ratios[c.Strategy] = c.Ratio
		whole := int64(0)
		for _, v := range c.Stashed {
			whole += p.Sizes.Bytes[v]
		}
		require.Equal(t, whole*c.Ratio.Num/c.Ratio.Den, freed(c, p.Sizes.Bytes))
	}
	require.Equal(t, recompute.Ratio{Num: 3, Den: 4}, ratios[recompute.Compromise])
	c := &recompute.Candidate{Stashed: []graph.ValueID{0, 1}, Ratio: recompute.Ratio{Num: 3, Den: 4}}
	require.Equal(t, int64(75), freed(c, []int64{100, -1}), "what has no size frees nothing")
}

// TestConfigStrategies: an entry turns on the strategy that it names and no other, and strategy 0
// none.
func TestConfigStrategies(t *testing.T) {
	m, err := graph.Parse(widening, "widening")
	require.NoError(t, err)
	_, err = op.Infer(m)
	require.NoError(t, err)
	p := planOf(t, m, nil)
	for i := range p.Analysis.Clusters {
		c := &p.Analysis.Clusters[i]
		for _, strategy := range []recompute.Strategy{recompute.Keep, recompute.Full, recompute.Compromise} {
			m := &maker{request: &request{}, analysis: p.Analysis}
			sel, _ := m.selectConfig([]ConfigEntry{{Cluster: c.ID, Strategy: strategy, Count: -1}})
			want := 0
			for k := range p.Analysis.Candidates {
				if at := p.Analysis.Clusters[p.Analysis.Candidates[k].Cluster]; at.ID == c.ID &&
					at.Strategy == strategy && strategy != recompute.Keep {
					want++
				}
			}
			require.Len(t, sel.chosen, want, "%s:%d", c.ID, strategy)
		}
	}
}

func planOf(t testing.TB, m *graph.Model, dims map[string]int64) *Plan {
	types, err := op.Infer(m)
	require.NoError(t, err)
	p, err := Make(m, types, Options{Dims: dims})
	require.NoError(t, err)
	require.NotNil(t, p.Base)
	return p
}
