package cuda_test

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/cuda/double"
	"memopt/executor/verify"
)

// stepModel updates weights and a moment in place, an integer count, and two vectors whose next
// values are copied, since each is made from the other's old value.
const stepModel = `<ir_version: 8, opset_import: ["" : 17]>
step (float[8, 64] x, float[64, 64] w, float[64, 64] m, int64 count, float[64] a, float[64] b)
=> (float[64, 64] w_updated, float[64, 64] m_updated, int64 count_updated, float[64] a_updated, float[64] b_updated)
<float rate = {0.01}, float decay = {0.9}, int64 one = {1}> {
	y = MatMul(x, w)  t = Tanh(y)  xt = Transpose<perm = [1, 0]>(x)  g = MatMul(xt, t)
	d = Sub(m, g)  e = Mul(d, decay)  m1 = Add(e, g)  m_updated = Identity(m1)
	s = Mul(m1, rate)  w_updated = Sub(w, s)  count_updated = Add(count, one)
	a_updated = MatMul(b, w)  ta = Tanh(a)  b_updated = MatMul(ta, w)
}`

// TestStates: successive steps on a device give what they give on the host, captured or not, and
// start over after a restart.
func TestStates(t *testing.T) {
	m, types := parsed(t, stepModel)
	outputs := func(s *executor.Session) (all []*executor.Tensor) {
		for i := range m.Graph.Outputs {
			x := s.Output(i)
			all = append(all, &executor.Tensor{DType: x.DType, Shape: slices.Clone(x.Shape), Data: bytes.Clone(x.Data)})
		}
		return all
	}
	host, err := executor.Open(context.Background(), m, types, cpu.Device{}, executor.Options{Threads: 1})
	require.NoError(t, err)
	defer host.Close()
	in := made(t, m, nil)
	for name, x := range in {
		require.NoError(t, host.SetInput(name, x))
	}
	var want [][]*executor.Tensor
	for range 4 {
		require.NoError(t, host.Run(context.Background()))
		want = append(want, outputs(host))
	}
	require.NotEqual(t, want[0], want[1])
	for _, o := range []executor.Options{{}, {Capture: true}, {OnDemand: true}, {NoFusion: true}} {
		d, _ := opened(t, double.Options{})
		s, err := executor.Open(context.Background(), m, types, d, o)
		require.NoError(t, err)
		for name, x := range in {
			require.NoError(t, s.SetInput(name, x))
		}
		for range 2 {
			for k := range want {
				require.NoError(t, s.Run(context.Background()), "%+v", o)
				for i, got := range outputs(s) {
					name := m.Graph.ValueName(m.Graph.Outputs[i].Value)
					diff, _ := verify.Compare(name, got, want[k][i], verify.DefaultTolerance)
					require.Nil(t, diff, "%+v, step %d", o, k)
				}
			}
			require.NoError(t, s.Restart())
		}
		require.NoError(t, s.Close())
	}
}
