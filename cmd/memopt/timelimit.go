package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/internal/timelimit"
	"memopt/planner"
)

// defaultLimit is the time that a command may search for, where --time-limit does not say.
const defaultLimit = 10 * time.Second

// effortPart divides the time limit into the effort that is spent where --effort does not say: answers
// then do not depend on the machine unless it is several times slower than a typical core.
const effortPart = 5

// limitFlags bound all searches of a command together.
type limitFlags struct {
	limit  time.Duration // 0: the quickest answer
	effort float64       // seconds of a typical core; 0: as the limit says
}

// register adds --time-limit and --effort.
func (l *limitFlags) register(f *pflag.FlagSet) {
	l.registerLimit(f)
	numberVar(f, &l.effort, "effort", "", 0, bounds{least: 0, most: 1e6},
		"work of all searches, counted in seconds of a typical core, so that the answer is the same on "+
			"every machine that does it within --time-limit; 0: a fifth of --time-limit")
}

// registerLimit adds --time-limit alone.
func (l *limitFlags) registerLimit(f *pflag.FlagSet) {
	l.limit = defaultLimit
	f.Var((*limitValue)(l), limitName, "time for the whole search, from the start of the command: 10s, 2m, or a "+
		"number of seconds; when it is over, the best so far is the answer. 0: the first answer")
}

// work is the counted work of all searches, in seconds of a typical core; 0 asks for the first answer.
func (l *limitFlags) work() float64 {
	switch {
	case l.limit == 0:
		return 0
	case l.effort > 0:
		return l.effort
	}
	return l.limit.Seconds() / effortPart
}

// limitName is the name of the flag for the time.
const limitName = "time-limit"

// limitValue reads --time-limit into its flags.
type limitValue limitFlags

// String returns the value as pflag prints defaults.
func (v *limitValue) String() string { return v.limit.String() }

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
	v.limit = d
	return nil
}

// limited gives the searches of a verb that has --time-limit their one deadline.
func (a *app) limited(flags *pflag.FlagSet) {
	f := flags.Lookup(limitName)
	if f == nil {
		return
	}
	if v, ok := f.Value.(*limitValue); ok {
		a.limits = (*limitFlags)(v)
		a.restartClock(a.began)
	}
}

// searchFor is the context for the plan of a strategy: that of a plan file is made whatever it takes.
func (a *app) searchFor(s memopt.Strategy) context.Context {
	if _, file := s.(*planner.PlanFile); file {
		return a.ctx
	}
	return a.search
}

// restartClock counts the time limit from another moment on: that at which the data of a job have been
// read, which are no part of a search.
func (a *app) restartClock(from time.Time) {
	a.stopClock()
	if a.limits != nil {
		a.search, a.release = timelimit.With(a.ctx, from.Add(a.limits.limit))
	}
}

// stopClock releases the deadline.
func (a *app) stopClock() {
	if a.release != nil {
		a.release()
	}
	a.search, a.release = a.ctx, nil
}

// clock is the time limit of a verb.
type clock struct {
	began   time.Time          // when the command began
	limits  *limitFlags        // nil if the verb has no such flag
	search  context.Context    // ctx of the app with the deadline of the limits
	release context.CancelFunc // of search; nil: search has no deadline
}

// parseDuration reads Go's durations and bare numbers of seconds.
func parseDuration(flag, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = time.ParseDuration(text + "s")
	}
	if err != nil || d <= 0 {
		return 0, usage("%s %q: wanted a positive duration such as 10s, 2m or 30", flag, text)
	}
	return d, nil
}
