package cuda_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/internal/test/double"
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

// lateModel updates a weight and a count before a node reads indices of which nothing is known.
const lateModel = `<ir_version: 8, opset_import: ["" : 17]>
step (float[64] w, int64 n, float[64] g, float[8] x, int64[2] late, int64[2] seen)
	=> (float[64] w_updated, int64 n_updated, float[2] a, float[2] b) < int64 one = {1} > {
	a = Gather(x, seen)  w_updated = Sub(w, g)  n_updated = Add(n, one)  b = Gather(x, late)
}`

// TestStepThatDataFail: wrong indices end a step before it has written a state, on a device as on the
// host. Where the device replays steps, nobody can stop it between two nodes: the session says that
// states which it has written in place are torn.
func TestStepThatDataFail(t *testing.T) {
	early := strings.Replace(lateModel, "b = Gather(x, late)", "b = Gather(x, seen)", 1)
	for _, o := range []executor.Options{{}, {OnDemand: true}, {Blocking: true}, {Capture: true}} {
		stepThatDataFail(t, lateModel, "late", o, false)
		stepThatDataFail(t, lateModel, "seen", o, false)
		stepThatDataFail(t, early, "seen", o, o.Capture)
	}
}

// stepThatDataFail gives an input wrong indices in the second step.
func stepThatDataFail(t *testing.T, text, name string, o executor.Options, tears bool) {
	t.Helper()
	m, types := parsed(t, text)
	in := made(t, m, nil)
	indices := func(list ...int64) *executor.Tensor {
		x := &executor.Tensor{DType: graph.Int64, Shape: []int{2}, Data: make([]byte, 16)}
		copy(executor.Of[int64](x), list)
		return x
	}
	good, bad := indices(1, 7), indices(1, 8)
	d, _ := opened(t, double.Options{})
	s, err := executor.Open(context.Background(), m, types, d, o)
	require.NoError(t, err)
	defer s.Close()
	for name, x := range in {
		require.NoError(t, s.SetInput(name, x))
	}
	require.NoError(t, s.SetInput("late", good))
	require.NoError(t, s.SetInput("seen", good))
	run := func() (w, n []byte) {
		require.NoError(t, s.Run(context.Background()))
		return bytes.Clone(s.Output(0).Data), bytes.Clone(s.Output(1).Data)
	}
	run()
	wantW, wantN := run()
	require.NoError(t, s.Restart())
	run()
	require.NoError(t, s.SetInput(name, bad))
	var torn *executor.TornError
	err = s.Run(context.Background())
	require.ErrorContains(t, err, "index", "%+v", o)
	require.NoError(t, s.SetInput(name, good))
	require.Equal(t, tears, errors.As(err, &torn), "%+v, wrong %s: %v", o, name, err)
	if tears {
		require.ErrorAs(t, s.Run(context.Background()), &torn)
		require.NoError(t, s.Restart())
		run()
	}
	w, n := run()
	require.Equal(t, wantW, w, "%+v, wrong %s", o, name)
	require.Equal(t, wantN, n, "%+v, wrong %s", o, name)
}
