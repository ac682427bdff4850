package symbolic

import (
	"slices"
	"strings"
	"sync"
)

// atomKind is the kind of an atom. The order is that of the normal form: symbols first.
type atomKind uint8

const (
	kindSymbol atomKind = iota
	kindFloor           // floor(args[0]/args[1]); ceilings are floors too, see print.go
	kindMod             // Mod(args[0], args[1])
	kindMin             // Min of all args, two or more, sorted
	kindMax
)

// atom is a symbol, or an operation that no polynomial expresses on expressions in normal form.
type atom struct {
	kind   atomKind
	name   string // of a symbol
	args   []Expr // of everything else
	degree int32  // exponents inside, at least 1
	size   int32  // terms and factors inside, at least 1
	depth  int16  // 0 for symbols
	mono   mono   // the product that is this atom alone
	expr   Expr   // the expression that is this atom alone
}

// symbols holds every symbol ever named, so that equal names are equal pointers. It only
// grows; the names of dims are few.
var symbols sync.Map // string to *atom

func internSymbol(name string) *atom {
	if a, ok := symbols.Load(name); ok {
		return a.(*atom)
	}
	name = strings.Clone(name) // do not keep the file that the name may be a part of
	a, _ := symbols.LoadOrStore(name, (&atom{kind: kindSymbol, name: name, degree: 1, size: 1}).wrap())
	return a.(*atom)
}

// newAtom returns the expression of an atom over arguments in normal form.
func newAtom(kind atomKind, args ...Expr) Expr {
	a := &atom{kind: kind, args: args, size: 1, depth: 1}
	for _, arg := range args {
		a.degree += arg.degree()
		if arg.p != nil {
			a.size += arg.p.size
			a.depth = max(a.depth, arg.p.depth+1)
		} else {
			a.size++
		}
	}
	if a.degree > MaxDegree || a.size > MaxSize || a.depth > MaxDepth {
		return without(stateTooLarge)
	}
	return a.wrap().expr
}

// wrap fills in the product and the expression that are this atom alone.
func (a *atom) wrap() *atom {
	a.mono = mono{factors: []factor{{a, 1}}, degree: a.degree, size: a.size, depth: a.depth}
	a.expr = single(1, &a.mono)
	return a
}

// degree returns the largest sum of exponents of a term; 0 for a constant.
func (a Expr) degree() int32 {
	var d int32
	if a.p != nil {
		for _, t := range a.p.terms {
			d = max(d, t.mono.degree)
		}
	}
	return d
}

// alone returns the atom that a consists of, or nil.
func (a Expr) alone() *atom {
	if a.p == nil || len(a.p.terms) != 1 || a.p.terms[0].coef != 1 {
		return nil
	}
	return a.p.terms[0].mono.alone()
}

// compareAtoms orders atoms totally: symbols by name, then the rest by kind and arguments.
func compareAtoms(a, b *atom) int {
	switch {
	case a == b:
		return 0
	case a.kind != b.kind:
		return int(a.kind) - int(b.kind)
	case a.kind == kindSymbol:
		return strings.Compare(a.name, b.name)
	}
	return slices.CompareFunc(a.args, b.args, compareExprs)
}
