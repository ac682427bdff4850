package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/planner"
)

func TestSearchText(t *testing.T) {
	for _, c := range []struct {
		p    planner.SearchProgress
		want string
	}{
		{planner.SearchProgress{LowestArena: 3 << 30},
			"searching for a plan, no plan fits yet, lowest arena 3.00 GiB"},
		{planner.SearchProgress{Fits: true, Overhead: 0.0971, LowestArena: 1},
			"searching for a plan, best +9.7 % time"},
	} {
		require.Equal(t, c.want, cli.SearchText(&c.p))
	}
}

func TestStatusText(t *testing.T) {
	require.Equal(t, "1.5 s: reading", cli.StatusText("reading", 1500*time.Millisecond, 0))
	require.Equal(t, "1.5 s of 10 s: planning", cli.StatusText("planning", 1500*time.Millisecond, 10*time.Second))
	require.Equal(t, "12.0 s: writing", cli.StatusText("writing", 12*time.Second, 10*time.Second))
	require.Equal(t, "wid…", cli.CutTo("width", 4))
	require.Equal(t, "width", cli.CutTo("width", 5))
}

// lockedBuffer is a buffer that two goroutines may write to and read.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// take returns the text written since the last call.
func (l *lockedBuffer) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.b.String()
	l.b.Reset()
	return text
}

// TestStatusLine: the line appears after a second and tells the latest; it is gone while other text is
// printed, and for good when the command ends. A command that ends before shows none.
func TestStatusLine(t *testing.T) {
	const gone = "\r\x1b[K"
	synctest.Test(t, func(t *testing.T) {
		var b lockedBuffer
		s := cli.NewStatusLine(&b, func() int { return 24 }, time.Now())
		s.Say("reading %s", "a\x1b[2Jmodel.onnx")
		go s.Draw(time.After(cli.StatusAfter), cli.StatusTick)
		time.Sleep(cli.StatusAfter - 1)
		synctest.Wait()
		s.Clear()
		require.Empty(t, b.take())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		first := b.take()
		require.True(t, strings.HasPrefix(first, "\r1.0 s: reading a"), "%q", first)
		require.NotContains(t, first, "[2J", "a name controls the terminal")
		require.Contains(t, first, "…\x1b[K", "the line is as wide as the terminal")

		s.Clear()
		require.Equal(t, gone, b.take())
		s.Clear()
		require.Empty(t, b.take())
		s.Limit = 10 * time.Second
		s.Say("planning")
		time.Sleep(cli.StatusTick)
		synctest.Wait()
		require.Equal(t, "\r1.2 s of 10 s: planning\x1b[K", b.take())
		s.Untimed()
		time.Sleep(cli.StatusTick)
		synctest.Wait()
		require.Equal(t, "\r1.4 s: planning\x1b[K", b.take())

		s.End()
		s.End()
		require.Equal(t, gone, b.take())
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, b.take())
	})
	var none *cli.StatusLine
	none.Say("")
	none.Clear()
	none.Untimed()
	none.End()
}

// firstUpdate takes messages, and notes the output that is there when the first update is reported.
type firstUpdate struct {
	out   *bytes.Buffer
	there string
}

func (f *firstUpdate) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "update 1/") {
		f.there = f.out.String()
	}
	return len(p), nil
}

// TestTrainTellsFirst: the memory of a job is printed before its first update, where the output is redirected, too.
func TestTrainTellsFirst(t *testing.T) {
	var out bytes.Buffer
	errs := &firstUpdate{out: &out}
	line := "train example:transformer --data example:text --batch 1 --dim seq=8 --max-steps 1"
	require.Zero(t, runUntil(t.Context(), &cli.Keeper{}, strings.Fields(line), cli.Stdio{In: nil, Out: &out, Err: errs},
		nil), out.String())
	require.Contains(t, errs.there, "arena")
	require.NotContains(t, errs.there, "measured")
	require.Contains(t, out.String(), "measured")
}
