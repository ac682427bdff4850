package cuda_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/graph"
	"memopt/recompute"
)

const stayText = `<ir_version: 8, opset_import: ["" : 17]>
net (float[16, 16] x, float[16, 16] w) => (float[16, 16] y) {
	a = Exp(x)  b = Mul(a, w)  c = MatMul(b, w)  d = MatMul(c, b)  e = MatMul(d, c)  f = Sub(e, a)
	g = MatMul(f, w)  h = MatMul(g, f)  y = Sub(h, a)
}`

// TestCopiesBeside: values that a device copies to pinned memory and back beside its work, twice for one write, are
// the same bits in every way to run. The double does unordered work in either order.
func TestCopiesBeside(t *testing.T) {
	m, _ := parsed(t, stayText)
	value := func(name string) graph.ValueID {
		v, ok := m.Graph.Lookup(name)
		require.True(t, ok)
		return v
	}
	node := func(name string) graph.NodeID { return m.Graph.Values[value(name)].Def }
	out, err := recompute.MoveValues(m, graph.FileOrder(m.Graph), []recompute.Move{
		{Value: value("a"), Offload: node("c"), Free: node("d"), Reload: node("e"), Wait: node("f")},
		{Value: value("c"), Offload: node("d"), Free: node("e"), Reload: node("e"), Wait: node("e")},
		{Value: value("a"), Offload: graph.NoNode, Free: node("g"), Reload: node("h"), Wait: node("y")},
	})
	require.NoError(t, err)
	for _, setup := range fetchSetups {
		if setup.double.NoPinning {
			continue
		}
		d, _ := opened(t, setup.double)
		var got [2][]byte
		for i, side := range []*graph.Model{m, out.Model} {
			side, sideTypes := parsed(t, graph.Format(side, graph.FormatOptions{}))
			s, err := executor.Open(context.Background(), side, sideTypes, d, setup.session)
			require.NoError(t, err)
			require.Empty(t, s.HostNodes())
			for step := range 4 {
				for name, x := range madeOf(t, m, nil, uint64(step)) {
					require.NoError(t, s.SetInput(name, x))
				}
				require.NoError(t, s.Run(context.Background()))
				got[i] = append(got[i], bytes.Clone(s.Output(0).Data)...)
			}
			if p, m := s.Prediction(), s.Measured(); i == 1 {
				require.Equal(t, []int64{p.Live, p.Arena, p.Host, p.HostLive},
					[]int64{m.Live, m.Arena, m.Host, m.HostLive})
				require.Equal(t, int64(2048), p.HostLive, "a and c")
				require.Empty(t, s.WhyNoCapture())
			}
			require.NoError(t, s.Close())
		}
		require.True(t, bytes.Equal(got[0], got[1]), "%+v", setup)
	}
}
