package symbolic

import (
	"errors"
	"fmt"
	"strings"
)

// Reasons why an expression has no value. Test for them with [errors.Is].
var (
	// ErrOverflow means that a coefficient, or a value, left the range of int64.
	ErrOverflow = errors.New("integer overflow: the number does not fit 64 bits")
	// ErrDivisionByZero means that a quotient or remainder had divisor 0.
	ErrDivisionByZero = errors.New("division by zero")
	// ErrTooLarge means that an expression outgrew MaxTerms, MaxSize, MaxDegree or MaxDepth.
	ErrTooLarge = errors.New("expression too large")
	// ErrUnknown means that an expression holds an unknown dim.
	ErrUnknown = errors.New("unknown dimension")
)

// Limits of an expression. The operation that would pass one yields ErrTooLarge.
const (
	// MaxTerms bounds the number of terms of a polynomial.
	MaxTerms = 4096
	// MaxSize bounds the terms and factors of an expression, those inside atoms included.
	MaxSize = 1 << 16
	// MaxDegree bounds the exponents of a product, summed, those inside atoms included.
	MaxDegree = 1024
	// MaxDepth bounds how deep atoms nest in each other.
	MaxDepth = 64
	// MaxArgs bounds the operands of one Min or Max.
	MaxArgs = 64

	// maxProducts bounds the terms that one multiplication makes before it merges equal ones.
	maxProducts = 1 << 15
)

// UnboundError lists the symbols that an evaluation needed and did not have.
type UnboundError struct {
	Symbols []string // sorted, each once
	// Origins says where symbols that do not occur in the inputs come from, in words that follow
	// the symbol's name. It may be nil.
	Origins map[string]string
}

// Error names every unbound symbol, and where it comes from as far as that is known.
func (e *UnboundError) Error() string {
	text := e.list()
	for _, s := range e.Symbols {
		if origin := e.Origins[s]; origin != "" {
			text += fmt.Sprintf("; %q %s", s, origin)
		}
	}
	return text
}

func (e *UnboundError) list() string {
	if len(e.Symbols) == 1 {
		return fmt.Sprintf("symbol %q has no value", e.Symbols[0])
	}
	quoted := make([]string, len(e.Symbols))
	for i, s := range e.Symbols {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("symbols %s have no value", strings.Join(quoted, ", "))
}
