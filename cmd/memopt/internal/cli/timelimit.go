package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/internal/timelimit"
	"memopt/planner"
)

// DefaultLimit is the time that a command may search for, where --time-limit does not say.
const DefaultLimit = 10 * time.Second

// effortPart divides the time limit into the effort that is spent where --effort does not say: answers
// then do not depend on the machine unless it is several times slower than a typical core.
const effortPart = 5

// LimitFlags bound all searches of a command together.
type LimitFlags struct {
	Limit  time.Duration // 0: the quickest answer
	effort float64       // seconds of a typical core; 0: as the limit says
}

// Register adds --time-limit and --effort.
func (l *LimitFlags) Register(f *pflag.FlagSet) {
	l.RegisterLimit(f)
	NumberVar(f, &l.effort, "effort", "", 0, Bounds{Least: 0, Most: 1e6},
		"work of all searches, counted in seconds of a typical core, so that the answer is the same on "+
			"every machine that does it within --time-limit; 0: a fifth of --time-limit")
}

// RegisterLimit adds --time-limit alone.
func (l *LimitFlags) RegisterLimit(f *pflag.FlagSet) {
	l.Limit = DefaultLimit
	f.Var((*limitValue)(l), LimitName, "time for the whole search, from the start of the command: 10s, 2m, or a "+
		"number of seconds; when it is over, the best so far is the answer. 0: the first answer")
}

// Work is the counted work of all searches, in seconds of a typical core; 0 asks for the first answer.
func (l *LimitFlags) Work() float64 {
	switch {
	case l.Limit == 0:
		return 0
	case l.effort > 0:
		return l.effort
	}
	return l.Limit.Seconds() / effortPart
}

// LimitName is the name of the flag for the time.
const LimitName = "time-limit"

// limitValue reads --time-limit into its flags.
type limitValue LimitFlags

// String returns the value as pflag prints defaults.
func (v *limitValue) String() string { return v.Limit.String() }

// Type is the name of the value's type in help texts.
func (v *limitValue) Type() string { return "duration" }

// Set reads the value.
func (v *limitValue) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d < 0 {
		return errors.New("wanted a duration such as 10s, 2m or 30, or 0")
	}
	v.Limit = d
	return nil
}

// Limited gives the searches of a verb that has --time-limit their one deadline.
func (a *App) Limited(flags *pflag.FlagSet) {
	f := flags.Lookup(LimitName)
	if f == nil {
		return
	}
	if v, ok := f.Value.(*limitValue); ok {
		a.Limits = (*LimitFlags)(v)
		a.RestartClock(a.Began)
	}
}

// SearchFor is the context for the plan of a strategy: that of a plan file is made whatever it takes.
func (a *App) SearchFor(s memopt.Strategy) context.Context {
	if _, file := s.(*planner.PlanFile); file {
		return a.Ctx
	}
	return a.Search
}

// RestartClock counts the time limit from another moment on: that at which the data of a job have been
// read, which are no part of a search.
func (a *App) RestartClock(from time.Time) {
	a.StopClock()
	if a.Limits != nil {
		a.Search, a.release = timelimit.With(a.Ctx, from.Add(a.Limits.Limit))
	}
}

// StopClock releases the deadline.
func (a *App) StopClock() {
	if a.release != nil {
		a.release()
	}
	a.Search, a.release = a.Ctx, nil
}

// Clock is the time limit of a verb.
type Clock struct {
	Began   time.Time          // when the command began
	Limits  *LimitFlags        // nil if the verb has no such flag
	Search  context.Context    // ctx of the app with the deadline of the limits
	release context.CancelFunc // of search; nil: search has no deadline
}

// ParseDuration reads Go's durations and bare numbers of seconds.
func ParseDuration(flag, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d <= 0 {
		return 0, Usage("%s %q: wanted a positive duration such as 10s, 2m or 30", flag, text)
	}
	return d, nil
}
