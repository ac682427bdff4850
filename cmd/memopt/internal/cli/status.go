package cli

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

// StatusAfter is how long a command works before a terminal shows its status line; tests make it shorter.
var StatusAfter = time.Second

// StatusTick is how often the line is drawn anew.
const StatusTick = 200 * time.Millisecond

// StatusLine is the last line of a terminal while a command works: its task, the time since it began, and
// how far it has come. It appears after a second and is gone when the command prints or ends. A nil
// one shows no line.
type StatusLine struct {
	w       io.Writer
	columns func() int
	began   time.Time
	Limit   time.Duration // of all searches; 0 without a search
	mu      sync.Mutex
	text    string
	drawn   bool // the line stands on the terminal
	over    bool
	stop    chan struct{}
}

// startStatus begins the line on the error stream; nil where that is no terminal, or with -q.
func (a *App) startStatus(verb string) {
	f, ok := a.Err.(*os.File)
	if !ok || a.Global.Quiet || !term.IsTerminal(int(f.Fd())) {
		return
	}
	columns := func() int {
		n, _, err := term.GetSize(int(f.Fd()))
		if err != nil || n <= 0 {
			return HelpWidth
		}
		return n
	}
	s := NewStatusLine(f, columns, a.Began)
	s.text = verb
	if a.Limits != nil {
		s.Limit = a.Limits.Limit
	}
	a.Status = s
	a.Keeper.line(s)
	go s.Draw(time.After(time.Until(a.Began.Add(StatusAfter))), StatusTick)
}

func NewStatusLine(w io.Writer, columns func() int, began time.Time) *StatusLine {
	return &StatusLine{w: w, columns: columns, began: began, stop: make(chan struct{})}
}

// Draw draws the line from some moment on, until the command ends.
func (s *StatusLine) Draw(first <-chan time.Time, every time.Duration) {
	for {
		select {
		case <-s.stop:
			return
		case <-first:
		}
		s.mu.Lock()
		if !s.over {
			text := StatusText(s.text, time.Since(s.began), s.Limit)
			fmt.Fprintf(s.w, "\r%s\x1b[K", CutTo(text, s.columns()-1))
			s.drawn = true
		}
		s.mu.Unlock()
		first = time.After(every)
	}
}

// CutTo is the beginning of a text that has some columns.
func CutTo(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return string([]rune(text)[:max(columns-1, 0)]) + "…"
}

// Say changes the text of the line.
func (s *StatusLine) Say(format string, args ...any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.text = report.Message(fmt.Sprintf(format, args...), false)
	s.mu.Unlock()
}

// Untimed says that the following work is no search, which the time limit bounds.
func (s *StatusLine) Untimed() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.Limit = 0
	s.mu.Unlock()
}

// Clear removes the line, so that other text can stand there, until it is drawn again.
func (s *StatusLine) Clear() {
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

// End removes the line for good; it may be called more than once.
func (s *StatusLine) End() {
	if s == nil {
		return
	}
	s.Clear()
	s.mu.Lock()
	if !s.over {
		close(s.stop)
	}
	s.over = true
	s.mu.Unlock()
}

// StatusText is the text of a command's task and the time since it began.
func StatusText(text string, took, limit time.Duration) string {
	if limit > 0 && took <= limit {
		return fmt.Sprintf("%.1f s of %.0f s: %s", took.Seconds(), limit.Seconds(), text)
	}
	return fmt.Sprintf("%.1f s: %s", took.Seconds(), text)
}

// Progress returns a function that says how much of something is done, or nil where no line is shown.
func (a *App) Progress(what string) func(done, total int) {
	if a.Status == nil {
		return nil
	}
	return func(done, total int) { a.Status.Say("%s, %d of %d", what, done, total) }
}

// Searched shows the best plan of a search so far.
func (a *App) Searched(p planner.SearchProgress) { a.Status.Say("%s", SearchText(&p)) }

// SearchText is the text of the best plan of a search.
func SearchText(p *planner.SearchProgress) string {
	if p.Fits {
		return "searching for a plan, best +" + report.Percent(p.Overhead) + " time"
	}
	return "searching for a plan, no plan fits yet, lowest arena " + report.Bytes(p.LowestArena)
}
