package op

import "memopt/symbolic"

// order is the known order of two numbers, for all runs.
type order uint8

const (
	unordered order = iota
	less
	equal
	greater
	atMost  // less or equal
	atLeast // greater or equal
)

// nonNegative reports whether e is at least 0 in every run.
func nonNegative(e symbolic.Expr) bool {
	switch compare(e, symbolic.Const(0)) {
	case equal, greater, atLeast:
		return true
	}
	return false
}

// positive reports whether e is above 0 in every run.
func positive(e symbolic.Expr) bool { return compare(e, symbolic.Const(0)) == greater }

// smaller returns the lesser of two expressions, as one of the two where that is known.
func smaller(a, b symbolic.Expr) symbolic.Expr {
	switch compare(a, b) {
	case less, equal, atMost:
		return a
	case greater, atLeast:
		return b
	}
	return symbolic.Min(a, b)
}

// larger returns the greater of two expressions, as one of the two where that is known.
func larger(a, b symbolic.Expr) symbolic.Expr {
	switch compare(a, b) {
	case less, atMost:
		return b
	case greater, equal, atLeast:
		return a
	}
	return symbolic.Max(a, b)
}

// choose returns x where the condition is 1 and y where it is 0; where it is unknown, their common
// value.
func choose(cond, x, y symbolic.Expr) symbolic.Expr {
	if n, ok := cond.Const(); ok {
		if n != 0 {
			return x
		}
		return y
	}
	if x.Equal(y) {
		return x
	}
	return symbolic.Unknown()
}

// compare orders two expressions for all values that dims may have: symbols are at least 1.
func compare(a, b symbolic.Expr) order {
	switch symbolic.Compare(a, b, nil) {
	case symbolic.Less:
		return less
	case symbolic.Equal:
		return equal
	case symbolic.Greater:
		return greater
	}
	switch {
	case symbolic.AtMost(b, a, nil):
		return atLeast
	case symbolic.AtMost(a, b, nil):
		return atMost
	}
	return unordered
}
