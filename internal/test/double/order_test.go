package double_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/internal/test/double"
)

// reader has a copy of y on a stream of its own behind a kernel that computes it, and returns what
// the host reads when it has waited for that stream. The copy waits for the kernel or not.
func reader(t *testing.T, d driver.Driver, wait bool) func() []float32 {
	x, y := device(t, d, []float32{1, 2, 3, 4}), device(t, d, make([]float32, 4))
	f := kernel(t, d, "unary_f32", "neg_f32")
	s, err := d.NewStream()
	require.NoError(t, err)
	e, err := d.NewEvent()
	require.NoError(t, err)
	host, err := d.Pin(16)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Unpin(host)) })
	return func() []float32 {
		require.NoError(t, d.Fill(0, y, 0))
		require.NoError(t, d.Sync(0))
		require.NoError(t, d.Launch(f, driver.Line(1, 32), 0, unary(x, y, 4)))
		require.NoError(t, d.Record(e, 0))
		if wait {
			require.NoError(t, d.Wait(s, e))
		}
		require.NoError(t, d.CopyOutAsync(s, host, y))
		require.NoError(t, d.Sync(s))
		return append([]float32{}, executor.Cast[float32](host)...)
	}
}

// TestStreams: what an event orders is done in that order, and what none orders sometimes in the
// other one.
func TestStreams(t *testing.T) {
	for _, c := range []struct{ lazy, wait, right bool }{{false, true, true}, {true, true, true},
		{true, false, false}} {
		read, right := reader(t, opened(t, double.Options{Lazy: c.lazy}), c.wait), true
		for range 8 {
			right = slices.Equal(read(), []float32{-1, -2, -3, -4}) && right
		}
		require.Equal(t, c.right, right, "%+v", c)
	}
}

// TestPinnedRules: copies beside other work go to pinned memory, which holds no numbers before they
// are done and stays until then.
func TestPinnedRules(t *testing.T) {
	d := double.New(double.Options{Lazy: true})
	x, err := d.Alloc(16)
	require.NoError(t, err)
	require.NoError(t, d.Fill(0, x, 0))
	require.NoError(t, d.Sync(0))
	require.ErrorContains(t, d.CopyOutAsync(0, make([]byte, 16), x), "not pinned")
	host, err := d.Pin(16)
	require.NoError(t, err)
	require.NoError(t, d.CopyOutAsync(0, host, x))
	require.True(t, math.IsNaN(float64(executor.Cast[float32](host)[3])), "the host does not wait")
	require.NoError(t, d.Sync(0))
	require.Zero(t, executor.Cast[float32](host)[3])
	require.NoError(t, d.CopyOutAsync(0, host, x))
	require.NoError(t, d.Unpin(host))
	require.ErrorContains(t, d.Unpin(host), "twice")
	require.ErrorContains(t, d.Sync(0), "given back before a copy to it was done")
	require.Error(t, d.Close())
}

// TestForkedCapture: a stream that waits for an event of a capture is a part of it, and must be
// waited for before it ends.
func TestForkedCapture(t *testing.T) {
	d := opened(t, double.Options{Lazy: true})
	x := device(t, d, []float32{1, 2, 3, 4})
	s, err := d.NewStream()
	require.NoError(t, err)
	var events [3]driver.Event
	for i := range events {
		events[i], err = d.NewEvent()
		require.NoError(t, err)
	}
	host, err := d.Pin(16)
	require.NoError(t, err)
	defer d.Unpin(host)
	forked := func(join bool) (driver.Graph, error) {
		require.NoError(t, d.Record(events[2], s))
		require.NoError(t, d.BeginCapture(0))
		require.ErrorContains(t, d.Wait(0, events[2]), "no part of the capture")
		require.NoError(t, d.Fill(0, x, 0x40))
		require.NoError(t, d.Record(events[0], 0))
		require.NoError(t, d.Wait(s, events[0]))
		require.NoError(t, d.CopyOutAsync(s, host, x))
		require.Error(t, d.Sync(s), "it is being captured")
		if join {
			require.NoError(t, d.Record(events[1], s))
			require.NoError(t, d.Wait(0, events[1]))
		}
		require.NoError(t, d.Fill(0, x, 0))
		return d.EndCapture(0)
	}
	_, err = forked(false)
	require.ErrorContains(t, err, "not waited for")
	require.ErrorContains(t, d.Wait(s, events[0]), "a capture that has ended")
	g, err := forked(true)
	require.NoError(t, err)
	for range 4 {
		clear(host)
		require.NoError(t, d.Replay(g, 0))
		require.NoError(t, d.Sync(0))
		require.Equal(t, byte(0x40), host[7])
	}
	require.NoError(t, d.FreeGraph(g))
}
