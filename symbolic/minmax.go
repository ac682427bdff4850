package symbolic

import "slices"

// Min returns the smallest of its operands.
func Min(a, b Expr, more ...Expr) Expr { return extremum(kindMin, a, b, more) }

// Max returns the largest of its operands.
func Max(a, b Expr, more ...Expr) Expr { return extremum(kindMax, a, b, more) }

func extremum(kind atomKind, a, b Expr, more []Expr) Expr {
	s := max(a.state(), b.state())
	for _, e := range more {
		s = max(s, e.state())
	}
	if s != stateKnown {
		return without(s)
	}
	if a.p == nil && b.p == nil && len(more) == 0 {
		if (kind == kindMin) == (a.c < b.c) {
			return a
		}
		return b
	}
	args := flatten(kind, flatten(kind, make([]Expr, 0, 2+len(more)), a), b)
	for _, e := range more {
		args = flatten(kind, args, e)
	}
	if len(args) > MaxArgs {
		return without(stateTooLarge)
	}
	slices.SortFunc(args, compareExprs) // first, so that the result does not depend on the given order
	args = dominant(kind, absorb(kind, args))
	if len(args) == 1 {
		return args[0]
	}
	slices.SortFunc(args, compareExprs)
	return newAtom(kind, args...)
}

// flatten appends e to args, or the operands of e if it is the same operation.
func flatten(kind atomKind, args []Expr, e Expr) []Expr {
	if a := e.alone(); a != nil && a.kind == kind {
		return append(args, a.args...)
	}
	return append(args, e)
}

// absorb drops from the operands of a Max each Min that has another operand as its own, and
// the other way round: Max(a, Min(a, b)) is a.
func absorb(kind atomKind, args []Expr) []Expr {
	dual := kindMin + kindMax - kind
	return slices.DeleteFunc(slices.Clone(args), func(e Expr) bool {
		a := e.alone()
		return a != nil && a.kind == dual && slices.ContainsFunc(args, func(other Expr) bool {
			return slices.ContainsFunc(a.args, other.Equal)
		})
	})
}

// dominant keeps the operands that no other one makes superfluous for every integer value of
// the symbols.
func dominant(kind atomKind, args []Expr) []Expr {
	kept := args[:0:0]
	for _, e := range args {
		if slices.ContainsFunc(kept, func(k Expr) bool { return covers(kind, k, e) }) {
			continue
		}
		kept = slices.DeleteFunc(kept, func(k Expr) bool { return covers(kind, e, k) })
		kept = append(kept, e)
	}
	return kept
}

// covers reports whether a is at least b (Max) or at most b (Min), always.
func covers(kind atomKind, a, b Expr) bool {
	if kind == kindMin {
		a, b = b, a
	}
	if a.p == nil && b.p == nil {
		return a.c >= b.c
	}
	if d := a.Sub(b); d.IsKnown() {
		return evalInterval(d, anyInteger).lo >= 0
	}
	return evalInterval(a, anyInteger).lo >= evalInterval(b, anyInteger).hi
}
