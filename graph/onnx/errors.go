package onnx

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// FormatError says that a model is not valid ONNX, or not of a kind that memopt
// reads. Errors of input and output are not FormatErrors.
type FormatError struct {
	Path string // the model, "" if it has no name
	Err  error  // the place in the model, and the fault
}

// Error returns one line that names the file, the place and the fault.
func (e *FormatError) Error() string {
	if e.Path == "" {
		return oneLine(e.Err.Error())
	}
	return oneLine(e.Path + ": " + e.Err.Error())
}

// Unwrap returns the fault without the file's name.
func (e *FormatError) Unwrap() error { return e.Err }

func formatErr(path, format string, args ...any) error {
	return &FormatError{Path: path, Err: fmt.Errorf(format, args...)}
}

// maxMessage bounds an error's text: names in hostile files can be megabytes.
const maxMessage = 2000

// oneLine makes a text with names from a file fit for one line of a terminal.
func oneLine(s string) string {
	if len(s) > maxMessage { // the place is at the start, the fault at the end
		s = strings.ToValidUTF8(s[:maxMessage/2]+" … "+s[len(s)-maxMessage/2:], "")
	}
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func unprintable(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }

// depthError says that something is nested too deep. Its place is told by the byte alone: the
// path of nodes and attributes to it is as long as it is deep.
type depthError struct{ error }
