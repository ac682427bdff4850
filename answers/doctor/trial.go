package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Trial runs a command with one variable changed at a time, beside the unchanged command.
type Trial struct {
	Command  []string // program and arguments
	Env      []string // the unchanged environment, in the form of os.Environ
	Settings []Setting
	Runs     int           // of each setting
	Time     time.Duration // that a run may take; 0 means any
	Memory   int64         // bytes that the processes of a run may have resident; 0 means any
	Output   io.Writer     // for the command's output; nil discards it
	// Progress is called before each run; it may be nil.
	Progress func(run, runs int, setting string)
}

// Run is one run of a command.
type Run struct {
	// Peak is the most memory that a process of the run had resident (VmHWM), Tree the most that all
	// of them were seen to have together; shared memory counts for each.
	Peak, Tree int64
	// Small means that Peak is only a bound: the run took less than memopt itself, whose peak a new
	// process inherits.
	Small     bool
	Wall, CPU time.Duration
	Ending
}

// Ending is how a run ended.
type Ending struct {
	Code  int    // of the exit; -1 without an exit
	Cause string // the reason or the signal that ended it; "" if it ended by itself
	Said  string // the end of its error stream
}

// OK reports whether the run ended by itself and without an error.
func (e *Ending) OK() bool { return e.Code == 0 && e.Cause == "" }

// String describes the end of a run: "exit code 3", or why it was ended.
func (e *Ending) String() string {
	if e.Cause != "" {
		return e.Cause
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// Row sums up the runs with one setting.
type Row struct {
	Setting string // "" for the unchanged command
	Runs    []Run  // those that succeeded
	Ending         // of the last run
	// Medians of the runs.
	Peak, Tree int64
	Wall, CPU  time.Duration
	// Memory and Speed compare with the unchanged command: -1 less, 1 more, 0 no difference beyond
	// that between runs.
	Memory, Speed int
}

// Outcome is the result of a trial: the unchanged command, then the settings in their order.
type Outcome struct {
	Rows     []Row
	Finished bool // whether all runs were made
}

// FailedError means that the unchanged command fails.
type FailedError struct {
	Command string
	Ending  Ending
}

// Error is how it ended, and the end of its error stream.
func (e *FailedError) Error() string {
	text := fmt.Sprintf("%s: %v without any setting", e.Command, &e.Ending)
	if e.Ending.Said != "" {
		text += "; its last words: " + e.Ending.Said
	}
	return text
}

// The causes of a run that was ended.
const (
	overTime   = "ended: time limit"
	overMemory = "ended: memory limit"
	stopped    = "interrupted"
)

// OutOfMemory reports whether the command was ended because it took more memory than it may.
func (e *FailedError) OutOfMemory() bool { return e.Ending.Cause == overMemory }

// Run makes the runs: one of the unchanged command that does not count, so that files are in memory,
// then rounds in which each setting has its turn. A setting that fails is not run again. When the
// context ends, the measurements so far are the outcome.
func (t *Trial) Run(ctx context.Context) (*Outcome, error) {
	o := &Outcome{Rows: make([]Row, 1+len(t.Settings))}
	for i, s := range t.Settings {
		o.Rows[i+1].Setting = s.String()
	}
	total, done := 1+t.Runs*len(o.Rows), 0
	turn := func(i int) (Run, error) {
		done++
		env := t.Env
		if i > 0 {
			env = t.Settings[i-1].apply(env)
		}
		if t.Progress != nil {
			t.Progress(done, total, o.Rows[i].Setting)
		}
		return t.once(ctx, env)
	}
	first, err := turn(0)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !first.OK() {
		return nil, &FailedError{t.Command[0], first.Ending}
	}
	for range t.Runs {
		for i := range o.Rows {
			row := &o.Rows[i]
			if ctx.Err() != nil {
				o.summarize()
				return o, nil
			}
			if !row.OK() {
				done++
				continue
			}
			r, err := turn(i)
			if err != nil {
				return nil, err
			}
			if ctx.Err() != nil {
				continue
			}
			if row.Ending = r.Ending; r.OK() {
				row.Runs = append(row.Runs, r)
			} else if i == 0 {
				return nil, &FailedError{t.Command[0], r.Ending}
			}
		}
	}
	o.Finished = ctx.Err() == nil
	o.summarize()
	return o, nil
}

// summarize computes medians, and compares.
func (o *Outcome) summarize() {
	base := o.Rows[0].Runs
	for i := range o.Rows {
		r := &o.Rows[i]
		r.Peak, r.Tree = median(r.Runs, peakOf), median(r.Runs, treeOf)
		r.Wall, r.CPU = median(r.Runs, wallOf), median(r.Runs, cpuOf)
		if i > 0 {
			if !r.small() || !o.Rows[0].small() { // two bounds cannot be compared
				r.Memory = compare(base, r.Runs, func(r *Run) int64 { return max(r.Peak, r.Tree) })
			}
			r.Speed = compare(base, r.Runs, func(r *Run) int64 { return int64(r.Wall) })
		}
	}
}

// small reports whether the peak is only a bound.
func (r *Row) small() bool {
	return slices.ContainsFunc(r.Runs, func(r Run) bool { return r.Small })
}

func peakOf(r *Run) int64         { return r.Peak }
func treeOf(r *Run) int64         { return r.Tree }
func wallOf(r *Run) time.Duration { return r.Wall }
func cpuOf(r *Run) time.Duration  { return r.CPU }

// median returns the median of the runs, the mean of the two in the middle for an even number, 0
// without runs.
func median[T int64 | time.Duration](runs []Run, of func(*Run) T) T {
	if len(runs) == 0 {
		return 0
	}
	var all []T
	for i := range runs {
		all = append(all, of(&runs[i]))
	}
	slices.Sort(all)
	low, high := all[(len(all)-1)/2], all[len(all)/2]
	return low + (high-low)/2
}

// least is the smallest difference that counts: a hundredth.
const least = 100

// compare returns -1 or 1 if every run of b is below, or above, every run of a, and their medians
// differ by a hundredth at least, else 0. Single runs do not suffice.
func compare(a, b []Run, of func(*Run) int64) int {
	if len(a) < 2 || len(b) < 2 {
		return 0
	}
	byValue := func(x, y Run) int { return cmp.Compare(of(&x), of(&y)) }
	lowA, highA := slices.MinFunc(a, byValue), slices.MaxFunc(a, byValue)
	lowB, highB := slices.MinFunc(b, byValue), slices.MaxFunc(b, byValue)
	middle := median(a, of)
	difference := median(b, of) - middle
	switch {
	case of(&highB) < of(&lowA) && -difference >= middle/least:
		return -1
	case of(&lowB) > of(&highA) && difference >= middle/least:
		return 1
	}
	return 0
}
