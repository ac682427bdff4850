package symbolic

// Expr is an integer expression in normal form. It is immutable and takes 16 bytes; the zero value
// is the constant 0, and a constant needs no allocation.
type Expr struct {
	c int64 // the value where p is nil, else 0
	p *poly // a polynomial that is not constant, or one of the special values
}

// state says whether an expression has a value. Where two meet, the larger one wins.
type state uint8

const (
	stateKnown state = iota
	stateUnknown
	stateTooLarge
	stateOverflow
	stateDivisionByZero
	numStates
)

var stateErr = [numStates]error{
	stateTooLarge:       ErrTooLarge,
	stateOverflow:       ErrOverflow,
	stateDivisionByZero: ErrDivisionByZero,
}

// special holds the one polynomial of each state that is not known.
var special = [numStates]*poly{
	stateUnknown:        {state: stateUnknown},
	stateTooLarge:       {state: stateTooLarge},
	stateOverflow:       {state: stateOverflow},
	stateDivisionByZero: {state: stateDivisionByZero},
}

func without(s state) Expr { return Expr{p: special[s]} }

func (a Expr) state() state {
	if a.p == nil {
		return stateKnown
	}
	return a.p.state
}

// Const returns the constant c.
func Const(c int64) Expr { return Expr{c: c} }

// constant returns the constant c, or overflow if it does not fit.
func constant(c int64, fits bool) Expr {
	if !fits {
		return without(stateOverflow)
	}
	return Const(c)
}

// Unknown returns the unknown dim. It absorbs whatever it meets, zero included.
func Unknown() Expr { return without(stateUnknown) }

// Sym returns the symbol with that name. Any text is a name; names are equal by content. The
// empty name is Unknown.
func Sym(name string) Expr {
	if name == "" {
		return Unknown()
	}
	return internSymbol(name).expr
}

// IsUnknown reports whether a depends on an unknown dim.
func (a Expr) IsUnknown() bool { return a.state() == stateUnknown }

// IsKnown reports whether a has a value: neither unknown nor failed.
func (a Expr) IsKnown() bool { return a.p == nil || a.p.state == stateKnown }

// Err returns why a failed (ErrOverflow, ErrDivisionByZero or ErrTooLarge), or nil. Unknown is
// not an error.
func (a Expr) Err() error { return stateErr[a.state()] }

// Terms returns the number of terms of the polynomial a; 1 for a constant, and for an expression
// without a value.
func (a Expr) Terms() int { return max(a.termCount(), 1) }

// Size returns the number of terms and factors in a, those inside operations included: about the
// cost of a walk over it.
func (a Expr) Size() int {
	if a.p == nil {
		return 1
	}
	return int(a.p.size)
}

// Const returns the value of a constant, and whether a is one.
func (a Expr) Const() (int64, bool) { return a.c, a.p == nil }

// IsConst reports whether a is the constant c.
func (a Expr) IsConst(c int64) bool { return a.p == nil && a.c == c }

// Equal reports whether a and b have the same normal form. Unknown and failed values are not equal
// to any, not even to themselves.
func (a Expr) Equal(b Expr) bool { return a.IsKnown() && b.IsKnown() && a.Identical(b) }

// Identical is Equal, except that unknown is identical to unknown, and a failed value to one
// that failed for the same reason.
func (a Expr) Identical(b Expr) bool {
	if a.p == b.p {
		return a.c == b.c
	}
	return a.state() == b.state() && compareExprs(a, b) == 0
}
