package verify_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/null"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/symbolic"
)

const shortModel = `<ir_version: 8, opset_import: ["" : 17]>
short (float[N] x) => (float[N] y) {
	y = Mul(x, x)
}`

const longModel = `<ir_version: 8, opset_import: ["" : 17]>
long (float[N] x) => (float[N] y) {
	a = Identity(x)
	b = Identity(a)
	y = Mul(b, a)
}`

// lengths notes how many nodes each step has that it is shown.
type lengths []int

func (l *lengths) Node(i int, _ graph.NodeID, _ time.Time, _ time.Duration, _ int64) {
	if i == 0 {
		*l = append(*l, 0)
	}
	(*l)[len(*l)-1]++
}

func sides(t *testing.T) (short, long verify.Side, inputs map[string]*executor.Tensor) {
	t.Helper()
	env := symbolic.Env{"N": 3}
	for i, text := range []string{shortModel, longModel} {
		m, err := graph.Parse(text, "test")
		require.NoError(t, err)
		side := verify.Side{Model: m, Types: infer(t, m), Dims: env}
		if i == 0 {
			short, inputs = side, made(t, m, env, 1)
		} else {
			long = side
		}
	}
	return short, long, inputs
}

// TestStepsAlternate: of several measured steps one of each side runs in turn, and sides that share an arena run one
// after the other.
func TestStepsAlternate(t *testing.T) {
	short, long, inputs := sides(t)
	for _, c := range []struct {
		name           string
		repeat, warmup int
		shared         bool
		want           []int
	}{
		{"one step", 1, 0, false, []int{1, 3}},
		{"one step, warmed up", 1, 2, false, []int{1, 1, 1, 3, 3, 3}},
		{"no warm-up", 3, 0, false, []int{1, 3, 1, 3, 1, 3}},
		{"warmed up", 2, 2, false, []int{1, 1, 3, 3, 1, 3, 1, 3}},
		{"shared arena", 2, 1, true, []int{1, 1, 1, 3, 3, 3}},
	} {
		var got lengths
		opts := verify.Options{Device: cpu.Device{}, Repeat: c.repeat, Warmup: c.warmup, Session: executor.Options{Threads: 1, Observer: &got}}
		if c.shared {
			opts.Session.Arena = executor.NewArena(executor.NextPowerOfTwo, 0)
		}
		last := 0
		opts.Progress = func(done, total int) {
			require.Equal(t, last+1, done, c.name)
			require.Equal(t, len(c.want), total, c.name)
			last = done
		}
		v, err := verify.Verify(context.Background(), short, long, inputs, opts, verify.Tolerance{Bitwise: true})
		require.NoError(t, err, c.name)
		require.True(t, v.Equal, c.name)
		require.Equal(t, c.want, []int(got), c.name)
		require.Equal(t, len(c.want), last, c.name)
		require.Len(t, v.Baseline.Times, c.repeat, c.name)
		require.Len(t, v.Planned.Times, c.repeat, c.name)
		require.Equal(t, v.Baseline.Outputs[0].Tensor.Data, v.Planned.Outputs[0].Tensor.Data, c.name)
	}
}

// TestStepsDoNotAlternate: where two arenas do not fit into memory, the baseline is done before the planned graph takes its own. The
// null device takes none, so that arenas can be as large as it takes.
func TestStepsDoNotAlternate(t *testing.T) {
	if _, ok := executor.AvailableMemory(); !ok {
		t.Skip("/proc/meminfo is missing: the test needs Linux, which says there how much memory is free")
	}
	short, long, _ := sides(t)
	for n, want := range map[int64][]int{3: {1, 3, 1, 3, 1, 3}, 1 << 50: {1, 1, 1, 3, 3, 3}} {
		short.Dims, long.Dims = symbolic.Env{"N": n}, symbolic.Env{"N": n}
		var got lengths
		opts := verify.Options{Device: null.Device{}, Repeat: 2, Warmup: 1, Session: executor.Options{Observer: &got}}
		_, err := verify.Verify(context.Background(), short, long, nil, opts, verify.Tolerance{})
		require.NoError(t, err)
		require.Equal(t, want, []int(got), "N = %d", n)
	}
}

// TestVerifyNamesTheSideThatFails: an error says which graph it is of.
func TestVerifyNamesTheSideThatFails(t *testing.T) {
	short, long, inputs := sides(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := verify.Verify(ctx, short, long, inputs, verify.Options{Device: cpu.Device{}, Repeat: 2}, verify.Tolerance{})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "the baseline: ")
	steps := 0
	ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	_, err = verify.Verify(ctx, short, long, inputs, verify.Options{Device: cpu.Device{}, Repeat: 2, Progress: func(int, int) {
		if steps++; steps == 3 { // the baseline's second step is done
			cancel()
		}
	}}, verify.Tolerance{})
	require.True(t, errors.Is(err, context.Canceled))
	require.ErrorContains(t, err, "the planned graph: ")
}

func TestSlowdown(t *testing.T) {
	for _, c := range []struct {
		base, planned []time.Duration
		want          float64
	}{
		{[]time.Duration{10}, []time.Duration{13}, 1.3},
		{[]time.Duration{10, 10}, []time.Duration{12, 13}, 1.2},                 // 12/10, 12/10, 13/10
		{[]time.Duration{10, 10, 20, 20}, []time.Duration{12, 12, 24, 90}, 1.2}, // the machine slows down, one step is disturbed
		{[]time.Duration{10, 20}, []time.Duration{12}, 0.9},                     // 12/10, 12/20
		{nil, nil, 1},
		{[]time.Duration{0}, []time.Duration{5}, 1},
	} {
		v := verify.Verdict{Baseline: &verify.Run{Times: c.base}, Planned: &verify.Run{Times: c.planned}}
		require.InDelta(t, c.want, v.Slowdown(), 1e-12)
	}
}
