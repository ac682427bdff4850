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
	"memopt/internal/memlimit"
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

// TestStepsAlternate: of several measured steps one of each side runs in turn, and sides that share
// an arena run one after the other.
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
		opts := verify.Options{
			Engine: verify.On(cpu.Device{}), Repeat: c.repeat, Warmup: c.warmup,
			Session: executor.Options{Threads: 1, Observer: &got},
		}
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
		require.Equal(t, c.repeat > 1 && !c.shared, v.Alternated, c.name)
		require.Equal(t, c.want, []int(got), c.name)
		require.Equal(t, len(c.want), last, c.name)
		require.Len(t, v.Baseline.Times, c.repeat, c.name)
		require.Len(t, v.Planned.Times, c.repeat, c.name)
		require.Equal(t, v.Baseline.Outputs[0].Tensor.Data, v.Planned.Outputs[0].Tensor.Data, c.name)
	}
}

// TestStepsDoNotAlternate: where two arenas do not fit into memory, the baseline is done before the
// planned graph takes its own. The null device takes none, so that arenas can be as large as it
// takes.
func TestStepsDoNotAlternate(t *testing.T) {
	if _, ok := memlimit.Available(); !ok {
		t.Skip("/proc/meminfo is missing: the test needs Linux, which says there how much memory is free")
	}
	short, long, _ := sides(t)
	for n, want := range map[int64][]int{3: {1, 3, 1, 3, 1, 3}, 1 << 50: {1, 1, 1, 3, 3, 3}} {
		short.Dims, long.Dims = symbolic.Env{"N": n}, symbolic.Env{"N": n}
		var got lengths
		opts := verify.Options{
			Engine: verify.On(null.Device{}), Repeat: 2, Warmup: 1, Session: executor.Options{Observer: &got},
		}
		v, err := verify.Verify(context.Background(), short, long, nil, opts, verify.Tolerance{})
		require.NoError(t, err)
		require.Equal(t, n == 3, v.Alternated)
		require.Equal(t, want, []int(got), "N = %d", n)
	}
}

// lonely is an engine beside whose open sides there is no room for another.
type lonely struct{ verify.Engine }

func (l lonely) Open(
	ctx context.Context, side verify.Side, inputs map[string]*executor.Tensor, o verify.Options,
) (verify.Steps, error) {
	s, err := l.Engine.Open(ctx, side, inputs, o)
	return alone{s}, err
}

type alone struct{ verify.Steps }

func (alone) Shares() bool { return false }

// TestEngineWithoutRoom: what an engine says of its room decides whether steps alternate, not what
// kind of engine it is.
func TestEngineWithoutRoom(t *testing.T) {
	short, long, inputs := sides(t)
	for engine, want := range map[verify.Engine][]int{
		verify.On(cpu.Device{}):         {1, 3, 1, 3},
		lonely{verify.On(cpu.Device{})}: {1, 1, 3, 3},
	} {
		var got lengths
		opts := verify.Options{Engine: engine, Repeat: 2, Session: executor.Options{Threads: 1, Observer: &got}}
		v, err := verify.Verify(t.Context(), short, long, inputs, opts, verify.Tolerance{Bitwise: true})
		require.NoError(t, err)
		require.Equal(t, want, []int(got))
		require.Equal(t, want[1] == 3, v.Alternated)
		require.Len(t, v.Baseline.Times, 2)
	}
}

// TestVerifyNamesTheSideThatFails: an error says which graph it is of.
func TestVerifyNamesTheSideThatFails(t *testing.T) {
	short, long, inputs := sides(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := verify.Verify(ctx, short, long, inputs, verify.Options{Engine: verify.On(cpu.Device{}), Repeat: 2},
		verify.Tolerance{})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "the baseline: ")
	steps := 0
	ctx, cancel = context.WithCancel(context.Background())
	defer cancel()
	_, err = verify.Verify(ctx, short, long, inputs,
		verify.Options{Engine: verify.On(cpu.Device{}), Repeat: 2, Progress: func(int, int) {
			if steps++; steps == 3 { // the baseline's second step is done
				cancel()
			}
		}}, verify.Tolerance{})
	require.True(t, errors.Is(err, context.Canceled))
	require.ErrorContains(t, err, "the planned graph: ")
}

func TestSlowdown(t *testing.T) {
	type times = []time.Duration
	for _, c := range []struct {
		name          string
		base, planned times
		alternated    bool
		want          verify.Slowdown
	}{
		{"one step of each", times{10}, times{13}, false,
			verify.Slowdown{Ratio: 1.3, Baseline: 10, Planned: 13, Least: 1.3, Most: 1.3}},
		// 12/10, 12/10, 13/10
		{"two of each", times{10, 10}, times{12, 13}, true,
			verify.Slowdown{Ratio: 1.2, Baseline: 10, Planned: 12, Pairs: 3, Least: 1.2, Most: 1.3}},
		// 12/10, 12/10, 12/10, 12/20, 24/20, 24/20, 90/20
		{"a machine that slows down, one step disturbed", times{10, 10, 20, 20}, times{12, 12, 24, 90}, true,
			verify.Slowdown{Ratio: 1.2, Baseline: 10, Planned: 12, Pairs: 7, Least: 0.6, Most: 4.5}},
		// 12/10, 12/20
		{"an even number of pairs", times{10, 20}, times{12}, true,
			verify.Slowdown{Ratio: 0.6, Baseline: 20, Planned: 12, Pairs: 2, Least: 0.6, Most: 1.2}},
		// The medians are 20 and 18; pairs would say 30/10 and the like.
		{"one graph after the other", times{10, 20, 50}, times{30, 18, 16}, false,
			verify.Slowdown{Ratio: 0.9, Baseline: 20, Planned: 18, Least: 0.9, Most: 0.9}},
		{"nothing", nil, nil, false, verify.Slowdown{Ratio: 1, Least: 1, Most: 1}},
		{"no baseline", nil, times{7}, true, verify.Slowdown{Ratio: 1, Least: 1, Most: 1}},
		{"too fast for the clock", times{0}, times{5}, true, verify.Slowdown{Ratio: 1, Least: 1, Most: 1}},
		{"some too fast", times{0, 10}, times{5, 20}, true,
			verify.Slowdown{Ratio: 0.5, Baseline: 10, Planned: 5, Pairs: 2, Least: 0.5, Most: 2}},
	} {
		v := verify.Verdict{Baseline: &verify.Run{Times: c.base}, Planned: &verify.Run{Times: c.planned},
			Alternated: c.alternated}
		require.Equal(t, c.want, v.Slowdown(), c.name)
	}
}
