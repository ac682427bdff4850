package ortengine

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"memopt/executor/ort"
	"memopt/graph"
	"memopt/graph/op"
)

// Error is an error of ONNX Runtime about a model (an *ort.RuntimeError), or the reason why it
// cannot be used: an *ort.MissingError, an *ort.CrashError, or an error of the files that are
// exchanged.
type Error struct {
	Err  error
	Node string // the label of the node at fault; "" if it is not known
}

func (e *Error) Error() string {
	if e.Node == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v (node %q)", e.Err, e.Node)
}

func (e *Error) Unwrap() error { return e.Err }

// OutOfMemory reports whether the runtime ran out of memory.
func (e *Error) OutOfMemory() bool {
	var crash *ort.CrashError
	var failed *ort.RuntimeError
	return errors.As(e.Err, &crash) && crash.Killed() ||
		errors.As(e.Err, &failed) && failed.OutOfMemory()
}

// exchange is the error of a file that is exchanged with the runtime.
func exchange(format string, args ...any) error { return &Error{Err: fmt.Errorf(format, args...)} }

// failed is an error of the runtime's, with the node of a graph that its message is about.
func failed(g *graph.Graph, err error) error {
	var missing *ort.MissingError
	var crash *ort.CrashError
	var failed *ort.RuntimeError
	switch {
	case errors.As(err, &missing), errors.As(err, &crash):
		return &Error{Err: err}
	case errors.As(err, &failed):
		e := &Error{Err: err}
		if !failed.OutOfMemory() {
			e.Node = blamed(g, failed.Message)
		}
		return e
	}
	return err
}

// checkCopies refuses a graph whose values move to the host's memory. The runtime's own message would say that it
// has no such operator, after the file has been written.
func checkCopies(g *graph.Graph) error {
	for _, n := range g.Nodes {
		if op.Of(n.Kind).Transfer != op.NoTransfer {
			return &Error{Err: fmt.Errorf("ONNX Runtime has no operator %s:%s: values move to the host's memory in "+
				"memopt's own executor alone", n.Domain, n.Op), Node: g.NodeLabel(n.ID)}
		}
	}
	return nil
}

// failed is an error of the runtime's about the side.
func (s *steps) failed(err error) error { return failedOn(s.model(), s.side.Model.Graph, err) }

// failedOn is an error of the runtime without the name of a temporary file, which the user does not
// know.
func failedOn(file string, g *graph.Graph, err error) error {
	var e *ort.RuntimeError
	if errors.As(err, &e) {
		e.Message = strings.Replace(e.Message, "Load model from "+file+" failed:", "", 1)
		e.Message = strings.ReplaceAll(e.Message, file, "the model's file")
	}
	return failed(g, err)
}

// blamed returns the label of the node that a message of the runtime is about, the first one whose
// name it quotes or whose operator it names, or "".
func blamed(g *graph.Graph, message string) string {
	if g == nil {
		return ""
	}
	for id, n := range g.Nodes {
		if n.Name != "" && (strings.Contains(message, "'"+n.Name+"'") || strings.Contains(message, "("+n.Name+")")) {
			return g.NodeLabel(graph.NodeID(id))
		}
	}
	for id, n := range g.Nodes {
		if namesOperator(message, n.Op) {
			return g.NodeLabel(graph.NodeID(id))
		}
	}
	return ""
}

// namesOperator looks for an operator as the runtime's messages write it: with its version in
// brackets behind it, "Elu(6)", or "Elu node".
func namesOperator(message, name string) bool {
	for rest := message; ; {
		at := strings.Index(rest, name)
		if at < 0 {
			return false
		}
		before, after := strings.TrimRightFunc(rest[:at], isWordPart), rest[at+len(name):]
		if len(before) == at && (strings.HasPrefix(after, "(") || strings.HasPrefix(after, " node")) {
			return true
		}
		rest = after
	}
}

func isWordPart(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
