package memopt

// Fault says whose fault an error is.
type Fault int

const (
	OfCaller Fault = iota + 1 // a file, a name or a size that is not available
	OfModel                   // the model is invalid
	OfMemopt                  // a bug in memopt
)

// Error is an error whose type alone does not say whose fault it is. Other errors have the types of
// the packages that they come from: *onnx.FormatError, *symbolic.UnboundError, planner.ErrInfeasible,
// live.ErrNoBoundary, executor.ErrOutOfMemory and so on.
type Error struct {
	Fault Fault
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }
