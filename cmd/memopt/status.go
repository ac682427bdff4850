package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"memopt/planner"
	"memopt/view/report"
)

// statusAfter is how long a command works before a terminal shows its status line; tests make it shorter.
var statusAfter = time.Second

// statusTick is how often the line is drawn anew.
const statusTick = 200 * time.Millisecond

// statusLine is the last line of a terminal while a command works: its task, the time since it began, and
// how far it has come. It appears after a second and is gone when the command prints or ends. A nil
// one shows no line.
type statusLine struct {
	w       io.Writer
	columns func() int
	began   time.Time
	limit   time.Duration // of all searches; 0 without a search
	mu      sync.Mutex
	text    string
	drawn   bool // the line stands on the terminal
	over    bool
	stop    chan struct{}
}

// startStatus begins the line on the error stream; nil where that is no terminal, or with -q.
func (a *app) startStatus(verb string) {
	f, ok := a.err.(*os.File)
	if !ok || a.global.quiet || !term.IsTerminal(int(f.Fd())) {
		return
	}
	columns := func() int {
		n, _, err := term.GetSize(int(f.Fd()))
		if err != nil || n <= 0 {
			return helpWidth
		}
		return n
	}
	s := newStatusLine(f, columns, a.began)
	s.text = verb
	if a.limits != nil {
		s.limit = a.limits.limit
	}
	a.status = s
	a.keeper.line(s)
	go s.draw(time.After(time.Until(a.began.Add(statusAfter))), statusTick)
}

func newStatusLine(w io.Writer, columns func() int, began time.Time) *statusLine {
	return &statusLine{w: w, columns: columns, began: began, stop: make(chan struct{})}
}

// draw draws the line from some moment on, until the command ends.
func (s *statusLine) draw(first <-chan time.Time, every time.Duration) {
	for {
		select {
		case <-s.stop:
			return
		case <-first:
		}
		s.mu.Lock()
		if !s.over {
			text := statusText(s.text, time.Since(s.began), s.limit)
			fmt.Fprintf(s.w, "\r%s\x1b[K", cutTo(text, s.columns()-1))
			s.drawn = true
		}
		s.mu.Unlock()
		first = time.After(every)
	}
}

// cutTo is the beginning of a text that has some columns.
func cutTo(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return string([]rune(text)[:max(columns-1, 0)]) + "…"
}

// say changes the text of the line.
func (s *statusLine) say(format string, args ...any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.text = report.Message(fmt.Sprintf(format, args...), false)
	s.mu.Unlock()
}

// untimed says that the following work is no search, which the time limit bounds.
func (s *statusLine) untimed() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.limit = 0
	s.mu.Unlock()
}

// clear removes the line, so that other text can stand there, until it is drawn again.
func (s *statusLine) clear() {
	if s == nil {
		return
	}
	s.mu.Lock()
	if s.drawn {
		io.WriteString(s.w, "\r\x1b[K")
	}
	s.drawn = false
	s.mu.Unlock()
}

// end removes the line for good; it may be called more than once.
func (s *statusLine) end() {
	if s == nil {
		return
	}
	s.clear()
	s.mu.Lock()
	if !s.over {
		close(s.stop)
	}
	s.over = true
	s.mu.Unlock()
}

// statusText is the text of a command's task and the time since it began.
func statusText(text string, took, limit time.Duration) string {
	if limit > 0 && took <= limit {
		return fmt.Sprintf("%.1f s of %.0f s: %s", took.Seconds(), limit.Seconds(), text)
	}
	return fmt.Sprintf("%.1f s: %s", took.Seconds(), text)
}

// progress returns a function that says how much of something is done, or nil where no line is shown.
func (a *app) progress(what string) func(done, total int) {
	if a.status == nil {
		return nil
	}
	return func(done, total int) { a.status.say("%s, %d of %d", what, done, total) }
}

// searched shows the best plan of a search so far.
func (a *app) searched(p planner.SearchProgress) { a.status.say("%s", searchText(&p)) }

// searchText is the text of the best plan of a search.
func searchText(p *planner.SearchProgress) string {
	if p.Fits {
		return "searching for a plan, best +" + report.Percent(p.Overhead) + " time"
	}
	return "searching for a plan, nothing fits yet, lowest arena " + report.Bytes(p.LowestArena)
}
