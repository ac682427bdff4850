package executor_test

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/executor/null"
	"memopt/graph"
)

// movedText keeps h1 of 1024 bytes on the host while a product of 4096 bytes is made; plainText is the same graph
// without the copies.
const (
	plainText = `<ir_version: 8, opset_import: ["" : 17]>
plain (float[16, 16] x) => (float[16, 16] y) <int64[2] reps = {4, 1}> {
	h1 = Exp(x)
	h2 = Neg(h1)
	wide = Tile(h2, reps)
	least = ReduceMax<axes = [0], keepdims = 1>(wide)
	y = Add(h1, least)
}`
	movedText = `<ir_version: 8, opset_import: ["" : 17, "memopt" : 1]>
moved (float[16, 16] x) => (float[16, 16] y) <int64[2] reps = {4, 1}> {
	h1 = Exp(x)
	far = memopt.Offload(h1)
	h2 = Neg(h1)
	there = memopt.Wait(far, h1)
	wide = Tile(h2, reps)
	least = ReduceMax<axes = [0], keepdims = 1>(wide)
	coming = memopt.Reload(there)
	back = memopt.Wait(coming, there)
	y = Add(back, least)
}`
)

// TestCopiesKeepBits: a value that has been on the host and back is the same, in every way to run, and memory is as
// predicted on both sides: h1 does not lie beside wide, but beside h2. The race detector sees a copy that runs beside a
// node on the same bytes in the placed session, whose block is of Go's heap.
func TestCopiesKeepBits(t *testing.T) {
	m, types := parsed(t, plainText)
	plain := opened(t, m, types, executor.Options{Threads: 1})
	fill(t, plain, nil)
	require.NoError(t, plain.Run(context.Background()))
	want := bytes.Clone(plain.Output(0).Data)
	require.Equal(t, int64(4096+1024+1024), plain.Prediction().Live)
	m, types = parsed(t, movedText)
	for name, o := range map[string]executor.Options{
		"planned": {}, "placed": {}, "on demand": {OnDemand: true}, "guarded": {Guard: true},
		"slow": {Link: executor.Link{BytesPerSecond: 1 << 20, Latency: time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, m, types, o)
			if name == "placed" {
				block := make([]byte, s.Prediction().Arena+256)
				s.Place(block[-uintptr(unsafe.Pointer(&block[0]))%256:])
			}
			fill(t, s, nil)
			for range 3 {
				require.NoError(t, s.Run(context.Background()))
				require.True(t, bytes.Equal(want, s.Output(0).Data))
			}
			p, got := s.Prediction(), s.Measured()
			require.Equal(t, int64(4096+1024), p.Live, "wide and h2")
			require.Equal(t, int64(1024), p.HostLive)
			require.Equal(t, p.Live, got.Live)
			require.Equal(t, p.Arena, got.Arena)
			require.Equal(t, p.HostLive, got.HostLive)
			require.Equal(t, p.Host, got.Host)
			if name == "planned" || name == "placed" {
				require.Equal(t, int64(1024), p.Host)
			}
			require.Equal(t, executor.Copies{In: 3, Out: 3, InBytes: 3072, OutBytes: 3072}, got.Moved.Copies)
		})
	}
	s, err := executor.Open(context.Background(), m, types, null.Device{}, executor.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Run(context.Background()))
	require.Equal(t, int64(1024), s.Measured().Host)
	require.Equal(t, s.Prediction().Arena, s.Measured().Arena)
	require.NoError(t, s.Close())
}

// work lets a replay's thread work for a millisecond in each node that is no copy.
type work struct {
	*executor.Replay
	g *graph.Graph
}

func (w work) Node(_ int, id graph.NodeID, _ time.Time, _ time.Duration, _ int64) {
	if w.g.Nodes[id].Domain == "" {
		w.Work(time.Millisecond)
	}
}

// TestCopiesTakeTheirTime replays the three clocks by hand at 1024 bytes in a time per millisecond. In units of ms,
// the copy out of h1 takes from 1 to 1 + size, Neg ends at 2, and the wait at the later of both; Tile and
// ReduceMax take 2 more; the copy back, which no node works behind, takes its whole time; Add takes 1.
func TestCopiesTakeTheirTime(t *testing.T) {
	m, types := parsed(t, movedText)
	for _, c := range []struct {
		link Link
		want time.Duration
	}{
		{Link{}, 5 * time.Millisecond},
		{Link{BytesPerSecond: 1024 * 2000}, (2+2+1)*time.Millisecond + 500*time.Microsecond},
		{Link{BytesPerSecond: 1024 * 1000}, (2 + 2 + 1 + 1) * time.Millisecond},
		{Link{BytesPerSecond: 1024 * 100}, (1 + 10 + 2 + 10 + 1) * time.Millisecond},
		{Link{BytesPerSecond: 1024 * 100, Latency: 3 * time.Millisecond}, (1 + 13 + 2 + 13 + 1) * time.Millisecond},
		{Link{Latency: 3 * time.Millisecond}, (1 + 3 + 2 + 3 + 1) * time.Millisecond},
	} {
		r := &executor.Replay{}
		s := opened(t, m, types, executor.Options{Threads: 1, NoFusion: true, Link: c.link, Observer: work{r, m.Graph}})
		executor.SetClock(s, r)
		fill(t, s, nil)
		for step := range 3 {
			require.NoError(t, s.Run(context.Background()))
			require.Equal(t, time.Duration(step+1)*c.want, r.At(), "%+v", c.link)
		}
	}
}

type Link = executor.Link

// TestCopiesEndWithTheContext: a run whose copy takes hours ends with its context, and the session runs again.
func TestCopiesEndWithTheContext(t *testing.T) {
	m, types := parsed(t, movedText)
	s := opened(t, m, types, executor.Options{Link: Link{BytesPerSecond: 1e-2}})
	fill(t, s, nil)
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		require.ErrorIs(t, s.Run(ctx), context.DeadlineExceeded)
		cancel()
	}
}

// TestCopiesLeaveNoThreads: a closed session has ended its copiers.
func TestCopiesLeaveNoThreads(t *testing.T) {
	m, types := parsed(t, movedText)
	before := runtime.NumGoroutine()
	for range 8 {
		s, err := executor.Open(context.Background(), m, types, cpu.Device{}, executor.Options{Threads: 1})
		require.NoError(t, err)
		fill(t, s, nil)
		require.NoError(t, s.Run(context.Background()))
		require.NoError(t, s.Close())
	}
	for range 1000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

// TestCopiesAreChecked: graphs whose copies could be read too early, or from the other side, are refused.
func TestCopiesAreChecked(t *testing.T) {
	const away, back = "h = memopt.Offload(x) g = memopt.Wait(h) ", "r = memopt.Reload(g) z = memopt.Wait(r) "
	for _, c := range []struct{ nodes, want string }{
		{away + "y = Neg(h)", `node "Neg#2" (Neg): reads "h", a copy that may be under way`},
		{away + "y = Neg(g)", `reads "g", which lies in the host's memory`},
		{"h = memopt.Offload(x) y = Neg(x)", `(Offload): begins a copy that no Wait waits for`},
		{"h = memopt.Reload(x) y = memopt.Wait(h)", `reloads "x", which does not lie in the host's memory`},
		{"h = memopt.Offload(x) y = memopt.Wait(h)", `graph output 0 ("y") is a copy`},
		{away + "z = memopt.Reload(h) y = Neg(x)", `reads "h", a copy that may be under way`},
		{"y = memopt.Wait(x)", `waits for "x", which no Offload or Reload makes`},
		{away + back + "y = memopt.Wait(h, r)", `reads "r", a copy`},
	} {
		m, types := parsed(t, `<ir_version: 8, opset_import: ["" : 17, "memopt" : 1]>
			bad (float[8] x) => (float[8] y) {`+c.nodes+`}`)
		_, err := executor.Open(context.Background(), m, types, cpu.Device{}, executor.Options{})
		require.ErrorContains(t, err, c.want)
		var no *executor.Unsupported
		require.ErrorAs(t, err, &no)
	}
	m, types := parsed(t, movedText)
	for _, l := range []Link{{BytesPerSecond: -1}, {Latency: -1}} {
		_, err := executor.Open(context.Background(), m, types, cpu.Device{}, executor.Options{Link: l})
		require.ErrorContains(t, err, "a link")
	}
}
