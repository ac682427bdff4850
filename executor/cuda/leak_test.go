package cuda_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/internal/test/double"
	"memopt/symbolic"
)

// TestLeaks: the device's free memory is the same after a thousand steps as after ten, and after
// many sessions as before.
func TestLeaks(t *testing.T) {
	m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17]>
		g (float[N, 8] x, float[8, 8] w, float[8] b) => (float[N, 8] y, float[N, 8] h) <float ratio = {0.5}, bool training = {1}> {
			p = Gemm(x, w, b)
			d = Dropout(p, ratio, training)
			h = Softmax(d)
			y = Mul(h, x)
		}`)
	env := symbolic.Env{"N": 5}
	d := device(t, double.Options{})
	free := func() int64 {
		n, ok := d.Memory().Available()
		require.True(t, ok)
		return n
	}
	session := func(steps int, o executor.Options) (during int64) {
		o.Dims = env
		s, err := executor.Open(context.Background(), m, types, d, o)
		require.NoError(t, err)
		for name, x := range made(t, m, env) {
			require.NoError(t, s.SetInput(name, x))
		}
		for range steps {
			require.NoError(t, s.Run(context.Background()))
		}
		during = free()
		require.NoError(t, s.Close())
		return during
	}
	options := []executor.Options{{}, {OnDemand: true}, {Capture: true}}
	for _, o := range options {
		session(3, o) // the driver compiles kernels, and takes what it needs for itself
	}
	before := free()
	for _, o := range options {
		require.Equal(t, session(10, o), session(1000, o), "%+v", o)
	}
	for i := range 60 {
		session(2, options[i%len(options)])
	}
	require.Equal(t, before, free())
}
