package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"memopt"
	"memopt/configs"
	"memopt/executor"
	"memopt/executor/cuda/driver"
	"memopt/executor/ort"
	"memopt/executor/ort/ortengine"
	"memopt/executor/verify"
	"memopt/graph/live"
	"memopt/hint"
	"memopt/internal/caught"
	"memopt/internal/mapfile"
	"memopt/internal/memlimit"
	"memopt/planner"
	"memopt/recompute"
	"memopt/symbolic"
	"memopt/view/report"
)

// Exit codes, as `memopt help exit-codes` explains them.
const (
	exitInternal    = 1
	exitUsage       = 2
	exitInfeasible  = 3
	exitDiffers     = 4
	exitAbove       = 5
	exitInvalid     = 6
	exitMissing     = 7
	exitEarly       = 8
	exitSaved       = 9
	exitHungUp      = 129
	exitInterrupted = 130
	exitWarned      = 138
	exitPipe        = 141
	exitTerminated  = 143
)

// exitError is an error with the exit code of the program.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }

func (e *exitError) Unwrap() error { return e.err }

// usage is an error of the command line, or of a file or value that it names.
func usage(format string, args ...any) error {
	return &exitError{exitUsage, hint.Errorf(format, args...)}
}

// fileError is an error of a file: usage, unless memory for it is lacking.
func fileError(format string, args ...any) error {
	err := hint.Errorf(format, args...)
	if errors.Is(err, memlimit.ErrOutOfMemory) {
		return &exitError{exitInfeasible, err}
	}
	return &exitError{exitUsage, err}
}

// invalid is an error of the model.
func invalid(err error) error { return &exitError{exitInvalid, err} }

// faultCodes are the codes of errors whose fault only memopt.Error tells.
var faultCodes = [...]int{memopt.OfCaller: exitUsage, memopt.OfModel: exitInvalid, memopt.OfMemopt: exitInternal}

// classify gives an error of the planning packages its code: faults of
// bindings and files are the caller's, all others are the model's.
func classify(err error) error {
	var have *exitError
	var fault *memopt.Error
	var runtime *ortengine.Error
	var unbound *symbolic.UnboundError
	var config *configs.Error
	var missing *driver.Missing
	var device *driver.Error
	var changed *mapfile.ChangedError
	var panicked *caught.Error
	switch {
	case err == nil || errors.As(err, &have):
		return err
	case errors.As(err, &panicked):
		return &exitError{exitInternal, internalError(err)}
	case errors.As(err, &runtime):
		return classifyORT(runtime)
	case errors.As(err, &fault):
		return &exitError{faultCodes[fault.Fault], err}
	case errors.Is(err, context.Canceled):
		return &exitError{exitInterrupted, errors.New(interrupted)}
	case errors.Is(err, executor.ErrOutOfMemory), errors.Is(err, planner.ErrInfeasible):
		return &exitError{exitInfeasible, err}
	case errors.As(err, &unbound), errors.As(err, &config), errors.Is(err, recompute.ErrPlacement),
		errors.Is(err, planner.ErrDemand),
		errors.Is(err, planner.ErrStashLimit), errors.Is(err, verify.ErrOutputs), errors.As(err, &changed):
		return &exitError{exitUsage, err}
	case errors.As(err, &missing):
		return &exitError{exitMissing, err}
	case errors.As(err, &device):
		return &exitError{exitInternal, err}
	case errors.Is(err, live.ErrNoBoundary):
		return &exitError{exitInvalid, err}
	}
	return invalid(err)
}

// internalError says that an error is a fault of memopt.
func internalError(err error) error {
	return fmt.Errorf("internal error: %w; please report it with the output of -v", err)
}

// classifyPlan gives an error of planning a model its code. After an interrupted search it is
// unknown whether nothing fits.
func (a *app) classifyPlan(name string, err error) error {
	if a.ctx.Err() != nil && errors.Is(err, planner.ErrInfeasible) {
		return &exitError{exitInterrupted, fmt.Errorf("%s: interrupted before a plan that fits was found", name)}
	}
	var infeasible *planner.InfeasibleError
	if errors.As(err, &infeasible) {
		if where, ok := strings.CutSuffix(err.Error(), infeasible.Error()); ok {
			err = humanInfeasible{infeasible, where}
		}
	}
	return classify(wrap(name, err))
}

func (a *app) exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "The exit codes and their meaning",
		Long: `Exit codes of memopt:

    0  done; also if a time limit ended a search that has a valid answer
    1  internal error: a bug in memopt, please report it
    2  usage: a wrong flag, an unbound symbol, a file that cannot be read or
       written
    3  does not fit: into a budget, in which case the lower bound that rules it
       out is printed, at once, or else the lowest peak that a search reached;
       or into memory, in which case the bytes and the limit are printed
    4  numbers differ between the baseline and the planned graph; or the loss of
       a training job is not finite
    5  the measured peak is above the prediction or the budget
    6  the model is invalid, or an operator in it is unsupported
    7  a runtime or device is missing
    8  the solver stopped early under --require-optimal; or a condition of
       --fail-if is met
    9  a training job was stopped by a signal, and its checkpoint is saved; or
       points of a sweep were stopped, and the next sweep runs them
  129  the terminal was closed (SIGHUP); the best plan so far is kept
  130  interrupted, likewise
  138  asked to end by SIGUSR1, likewise
  141  the reader of the output has gone away
  143  terminated by the system (SIGTERM), likewise`,
	}
}

// classifyORT gives an error of ONNX Runtime's engine its exit code. The error needs no name in
// front of it.
func classifyORT(e *ortengine.Error) error {
	var missing *ort.MissingError
	var crash *ort.CrashError
	var failed *ort.RuntimeError
	switch {
	case e.OutOfMemory():
		return &exitError{exitInfeasible, e}
	case errors.As(e, &missing), errors.As(e, &crash):
		return &exitError{exitMissing, e}
	case errors.As(e, &failed):
		return &exitError{exitInvalid, e}
	}
	return &exitError{exitUsage, e}
}

// humanInfeasible is the error of an infeasible budget, with sizes for people.
type humanInfeasible struct {
	*planner.InfeasibleError
	where string // the sizes, which stand before it
}

func (e humanInfeasible) Error() string {
	return e.where + report.InfeasibleBudgetText(e.InfeasibleError)
}

// Unwrap returns the error itself, which has all sizes in bytes.
func (e humanInfeasible) Unwrap() error { return e.InfeasibleError }

// classifyRun gives an error of an execution its exit code.
func classifyRun(name string, err error) error {
	return classify(wrap(name, err))
}
