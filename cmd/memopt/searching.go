package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"memopt/planner"
	"memopt/report"
)

// searchTick is how often the line of a search is drawn anew. Shorter searches have none.
const searchTick = 300 * time.Millisecond

// searchLine shows on a terminal what a search for a plan has found so far, and the time it took. A
// nil one shows nothing.
type searchLine struct {
	began time.Time
	limit time.Duration // 0: none
	bar   *progressbar.ProgressBar
	mu    sync.Mutex
	last  *planner.SearchProgress // nil: nothing was tried yet
	stop  chan struct{}
	done  chan struct{}
	once  sync.Once
}

// searching begins the line on the error stream; nil where that is no terminal, or with -q.
func (a *app) searching(limit time.Duration) *searchLine {
	f, ok := a.err.(*os.File)
	if !ok || a.global.quiet || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return newSearchLine(f, limit, searchTick)
}

func newSearchLine(w io.Writer, limit, tick time.Duration) *searchLine {
	s := &searchLine{began: time.Now(), limit: limit, stop: make(chan struct{}), done: make(chan struct{}),
		bar: progressbar.NewOptions(-1, progressbar.OptionSetWriter(w), progressbar.OptionSetElapsedTime(false),
			progressbar.OptionSetRenderBlankState(false))}
	go s.draw(tick)
	return s
}

// draw draws the line until the search ends, and then removes it.
func (s *searchLine) draw(tick time.Duration) {
	defer close(s.done)
	t := time.NewTicker(tick)
	defer t.Stop()
	for drawn := false; ; drawn = true {
		select {
		case <-s.stop:
			if drawn {
				s.bar.Clear()
			}
			return
		case <-t.C:
			s.mu.Lock()
			text := searchText(s.last, time.Since(s.began), s.limit)
			s.mu.Unlock()
			s.bar.Describe(text)
			s.bar.Add(1)
		}
	}
}

// tell notes what has been found.
func (s *searchLine) tell(p planner.SearchProgress) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = &p
}

// end removes the line; it may be called more than once.
func (s *searchLine) end() {
	if s == nil {
		return
	}
	s.once.Do(func() {
		close(s.stop)
		<-s.done
	})
}

// searchText says how long a search has taken and what it has found.
func searchText(p *planner.SearchProgress, took, limit time.Duration) string {
	text := fmt.Sprintf("searching, %.1f s", took.Seconds())
	if limit > 0 {
		text += fmt.Sprintf(" of %.0f s", limit.Seconds())
	}
	switch {
	case p == nil:
		return text
	case p.Fits:
		return text + ": best +" + report.Percent(p.Overhead) + " time"
	}
	return text + ": nothing fits yet, lowest arena " + report.Bytes(p.LowestArena)
}
