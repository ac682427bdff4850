package symbolic

import "slices"

// Symbols returns the names of the symbols in a, sorted.
func (a Expr) Symbols() []string {
	names := a.AppendSymbols(nil)
	slices.Sort(names)
	return slices.Compact(names)
}

// AppendSymbols appends the names of the symbols in a to names as often as they occur, in
// no useful order.
func (a Expr) AppendSymbols(names []string) []string {
	a.VisitSymbols(func(name string) { names = append(names, name) })
	return names
}

// VisitSymbols calls f with the name of every occurrence of a symbol in a.
func (a Expr) VisitSymbols(f func(name string)) {
	if a.p == nil {
		return
	}
	for _, t := range a.p.terms {
		for _, x := range t.mono.factors {
			if x.atom.kind == kindSymbol {
				f(x.atom.name)
			}
			for _, arg := range x.atom.args {
				arg.VisitSymbols(f)
			}
		}
	}
}

// Subst returns a with every symbol named in values replaced by its expression there, all at
// once, and simplified again.
func (a Expr) Subst(values map[string]Expr) Expr {
	if a.p == nil || len(values) == 0 {
		return a
	}
	return a.replace(func(x *atom) (Expr, bool) {
		v, ok := values[x.name]
		return v, ok && x.kind == kindSymbol
	})
}

// Bind returns a with every symbol that env binds replaced by its value.
func (a Expr) Bind(env Env) Expr {
	if a.p == nil || len(env) == 0 {
		return a
	}
	return a.replace(func(x *atom) (Expr, bool) {
		v, ok := env[x.name]
		return Const(v), ok && x.kind == kindSymbol
	})
}

// replace returns a with every atom replaced by the expression that f returns for it, if any,
// looking inside the other atoms.
func (a Expr) replace(f func(*atom) (Expr, bool)) Expr {
	if a.p == nil || a.p.state != stateKnown {
		return a
	}
	sum := make([]Expr, 0, len(a.p.terms))
	for _, t := range a.p.terms {
		product := Const(t.coef)
		for _, x := range t.mono.factors {
			product = product.Mul(x.atom.replace(f).Pow(uint(x.pow)))
		}
		sum = append(sum, product)
	}
	return Sum(sum...)
}

func (a *atom) replace(f func(*atom) (Expr, bool)) Expr {
	if e, ok := f(a); ok {
		return e
	}
	if a.kind == kindSymbol {
		return a.expr
	}
	args := make([]Expr, len(a.args))
	same := true
	for i, arg := range a.args {
		args[i] = arg.replace(f)
		same = same && args[i].Identical(arg)
	}
	if same {
		return a.expr
	}
	switch a.kind {
	case kindFloor:
		return args[0].FloorDiv(args[1])
	case kindMod:
		return args[0].Mod(args[1])
	}
	return extremum(a.kind, args[0], args[1], args[2:])
}
