package main

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/planner"
)

func TestSearchText(t *testing.T) {
	for _, c := range []struct {
		p     *planner.SearchProgress
		limit time.Duration
		want  string
	}{
		{nil, 0, "searching, 1.5 s"},
		{nil, 10 * time.Second, "searching, 1.5 s of 10 s"},
		{&planner.SearchProgress{LowestArena: 3 << 30}, 0, "searching, 1.5 s: nothing fits yet, lowest arena 3.00 GiB"},
		{&planner.SearchProgress{Fits: true, Overhead: 0.0971, LowestArena: 1}, 10 * time.Second,
			"searching, 1.5 s of 10 s: best +9.7 % time"},
	} {
		require.Equal(t, c.want, searchText(c.p, 1500*time.Millisecond, c.limit))
	}
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

func (l *lockedBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestSearchLine: the line tells the latest, and is gone when the search ends; a search that ends
// before the first tick draws nothing, and neither does one that has no line.
func TestSearchLine(t *testing.T) {
	var b lockedBuffer
	s := newSearchLine(&b, time.Minute, time.Millisecond)
	s.tell(planner.SearchProgress{Fits: true, Overhead: 0.25})
	require.Eventually(t, func() bool {
		return bytes.Contains([]byte(b.text()), []byte("best +25.0 % time"))
	}, 10*time.Second, time.Millisecond)
	s.end()
	s.end()
	text := b.text()
	require.NotContains(t, text, "\n")
	require.Regexp(t, `\r *\r$`, text, "the line is blank at the end")

	var quick lockedBuffer
	s = newSearchLine(&quick, 0, time.Hour)
	s.tell(planner.SearchProgress{})
	s.end()
	require.Empty(t, quick.text())

	var none *searchLine
	none.tell(planner.SearchProgress{})
	none.end()
}
