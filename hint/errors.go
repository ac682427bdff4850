package hint

import (
	"errors"
	"fmt"
	"strings"
)

// hinted is an error of Errorf.
type hinted struct {
	err    error
	format string
	args   []any
}

// Errorf is fmt.Errorf for texts with advice: among its arguments, an Option or a Use stands for its
// words. For example, Errorf("the dim is unknown: bind it with %v", Dims.With("seq=256")).
// The text of the error is in the library's words; Style.Error gives it in others.
func Errorf(format string, args ...any) error {
	return &hinted{fmt.Errorf(format, args...), format, args}
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

// Error returns the text of an error with all advice in it in this style, that of the errors that it
// wraps included.
func (s Style) Error(err error) string {
	text := err.Error()
	if s == nil {
		return text
	}
	s.replace(err, &text)
	return text
}

// replace words anew the parts of a text that are from errors with advice.
func (s Style) replace(err error, text *string) {
	switch e := err.(type) {
	case *hinted:
		*text = strings.Replace(*text, e.Error(), fmt.Errorf(e.format, s.worded(e.args)...).Error(), 1)
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			s.replace(inner, text)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			s.replace(inner, text)
		}
	}
}

// Sprintf is fmt.Sprintf with advice and errors among the arguments in this style.
func (s Style) Sprintf(format string, args ...any) string {
	return fmt.Sprintf(format, s.worded(args)...)
}

// worded replaces advice and errors by their texts in this style.
func (s Style) worded(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case Option:
			out[i] = s.Use(Use{Option: a})
		case Use:
			out[i] = s.Use(a)
		case error:
			out[i] = errors.New(s.Error(a))
		default:
			out[i] = a
		}
	}
	return out
}
