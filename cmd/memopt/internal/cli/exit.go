package cli

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
	ExitInternal    = 1
	ExitUsage       = 2
	ExitInfeasible  = 3
	ExitDiffers     = 4
	ExitAbove       = 5
	ExitInvalid     = 6
	ExitMissing     = 7
	ExitEarly       = 8
	ExitSaved       = 9
	ExitHungUp      = 129
	ExitInterrupted = 130
	exitWarned      = 138
	ExitPipe        = 141
	ExitTerminated  = 143
)

// ExitError is an error with the exit code of the program.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }

func (e *ExitError) Unwrap() error { return e.Err }

// Usage is an error of the command line, or of a file or value that it names.
func Usage(format string, args ...any) error {
	return &ExitError{ExitUsage, fmt.Errorf(format, args...)}
}

// FileError is an error of a file: usage, unless memory for it is lacking.
func FileError(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if errors.Is(err, memlimit.ErrOutOfMemory) {
		return &ExitError{ExitInfeasible, err}
	}
	return &ExitError{ExitUsage, err}
}

// Invalid is an error of the model.
func Invalid(err error) error { return &ExitError{ExitInvalid, err} }

// faultCodes are the codes of errors whose fault only memopt.Error tells.
var faultCodes = [...]int{memopt.OfCaller: ExitUsage, memopt.OfModel: ExitInvalid, memopt.OfMemopt: ExitInternal}

// Classify gives an error of the planning packages its code: faults of
// bindings and files are the caller's, all others are the model's.
func Classify(err error) error {
	var have *ExitError
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
		return &ExitError{ExitInternal, InternalError(err)}
	case errors.As(err, &runtime):
		return classifyORT(runtime)
	case errors.As(err, &fault):
		return &ExitError{faultCodes[fault.Fault], err}
	case errors.Is(err, context.Canceled):
		return &ExitError{ExitInterrupted, errors.New(Interrupted)}
	case errors.Is(err, executor.ErrOutOfMemory), errors.Is(err, planner.ErrInfeasible):
		return &ExitError{ExitInfeasible, err}
	case errors.As(err, &unbound), errors.As(err, &config), errors.Is(err, recompute.ErrPlacement),
		errors.Is(err, planner.ErrDemand),
		errors.Is(err, planner.ErrStashLimit), errors.Is(err, verify.ErrOutputs), errors.As(err, &changed):
		return &ExitError{ExitUsage, err}
	case errors.As(err, &missing):
		return &ExitError{ExitMissing, err}
	case errors.As(err, &device):
		return &ExitError{ExitInternal, err}
	case errors.Is(err, live.ErrNoBoundary):
		return &ExitError{ExitInvalid, err}
	}
	return Invalid(err)
}

// InternalError says that an error is a fault of memopt.
func InternalError(err error) error {
	return fmt.Errorf("internal error: %w; please report it with the output of -v", err)
}

// ClassifyPlan gives an error of planning a model its code. After an interrupted search it is
// unknown whether nothing fits.
func (a *App) ClassifyPlan(name string, err error) error {
	if a.Ctx.Err() != nil && errors.Is(err, planner.ErrInfeasible) {
		return &ExitError{ExitInterrupted, fmt.Errorf("%s: interrupted before a plan that fits was found", name)}
	}
	var infeasible *planner.InfeasibleError
	if errors.As(err, &infeasible) {
		if where, ok := strings.CutSuffix(err.Error(), infeasible.Error()); ok {
			err = humanInfeasible{infeasible, where}
		}
	}
	return Classify(Wrap(name, err))
}

func (a *App) ExitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "The exit codes and their meaning",
		Long: `Exit codes of memopt:

    0  done; also if a time limit ended a search that has a valid answer
    1  internal error: a bug in memopt, please report it
    2  usage: a wrong flag, an unbound symbol, a file that cannot be read or
       written
    3  does not fit: into a budget (the error names the lower bound that rules
       it out, at once, or else the lowest peak that a search reached), or into
       memory (the error names the bytes and the limit)
    4  numbers differ between the baseline and the planned graph; or the loss of
       a training job is not finite; or check finds a false claim of a plan
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
		return &ExitError{ExitInfeasible, e}
	case errors.As(e, &missing), errors.As(e, &crash):
		return &ExitError{ExitMissing, e}
	case errors.As(e, &failed):
		return &ExitError{ExitInvalid, e}
	}
	return &ExitError{ExitUsage, e}
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

// ClassifyRun gives an error of an execution its exit code.
func ClassifyRun(name string, err error) error {
	return Classify(Wrap(name, err))
}
