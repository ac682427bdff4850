package op

import (
	"maps"
	"slices"

	"memopt/graph"
	"memopt/symbolic"
)

const (
	maxMet         = 64 // bounds Result.Met; a file has a handful of such pairs
	maxEqualShapes = 64 // different shapes of inputs that are compared with each other
	maxEqualRounds = 4  // comparisons of all: symbols that become one may make others so
)

// meet notes that an operator requires two sizes to be equal, or broadcasts them to each other.
func (inf *inference) meet(a, b symbolic.Expr) {
	if !a.IsKnown() || !b.IsKnown() || a.Equal(b) {
		return
	}
	if len(a.Symbols()) == 0 || len(b.Symbols()) == 0 {
		return
	}
	for inf.outer != nil {
		inf = inf.outer
	}
	same := func(p [2]symbolic.Expr) bool { return p[0].Equal(a) && p[1].Equal(b) }
	if len(inf.res.Met) < maxMet && !slices.ContainsFunc(inf.res.Met, same) {
		inf.res.Met = append(inf.res.Met, [2]symbolic.Expr{a, b})
	}
}

// EqualSizes maps symbols of a graph's inputs to the symbol of an earlier input that stands for the
// same size. It considers only symbols that made reports, and replaces no symbol that kept reports.
//
// Three rules find them. First, two symbols that meet in an operator are one: input [s1, 10] minus
// input [s5, 10]. Second, two inputs of one rank have the same dims if that makes expressions
// equal that meet in operators: the labels [s3, s4] of tokens [s1, s2], as the loss wants
// s1*s2 = s3*s4. Third, inputs that agree in all dims but the first, in one symbol or more,
// hold one row a sample, all of them: the mask [s5, s2] of tokens [s1, s2]. The second and the third do
// not hold where a value has both symbols as dims: it then has an element for each pair.
//
// An operator that broadcasts would take 1 for one of the two sizes as well, so these are assumptions that
// a caller has to tell its user about.
func (r *Result) EqualSizes(g *graph.Graph, made, kept func(symbol string) bool) map[string]string {
	e := &equalities{g: g, met: r.Met, made: made, kept: kept, as: map[string]symbolic.Expr{}}
	e.read()
	e.meetings()
	for round, changed := 0, true; changed && round < maxEqualRounds; round++ {
		changed = false
		for i, later := range e.shapes {
			for _, earlier := range e.shapes[:i] {
				changed = e.align(earlier, later) || changed
			}
		}
	}
	names := map[string]string{}
	for s, to := range e.as {
		names[s] = to.Symbols()[0]
	}
	return names
}

// equalities is the state of EqualSizes.
type equalities struct {
	g          *graph.Graph
	met        [][2]symbolic.Expr
	made, kept func(symbol string) bool
	shapes     [][]symbolic.Expr        // of inputs with a made symbol
	rank       map[string]int           // of made symbols: their order in the inputs
	as         map[string]symbolic.Expr // the expression that a symbol equals; never a symbol with an entry
}

// read collects the shapes of the inputs that have a made symbol as a dim.
func (e *equalities) read() {
	e.rank = map[string]int{}
	known := map[string]bool{}
	for _, in := range e.g.Inputs {
		v := &e.g.Values[in.Value]
		if v.IsInitializer() {
			continue
		}
		found := false
		for _, d := range v.Type.Shape.Dims {
			if name, ok := e.symbol(d); ok {
				if _, known := e.rank[name]; !known {
					e.rank[name] = len(e.rank)
				}
				found = true
			}
		}
		if text := v.Type.Shape.String(); found && !known[text] && len(known) < maxEqualShapes {
			known[text] = true
			e.shapes = append(e.shapes, v.Type.Shape.Dims)
		}
	}
}

// symbol returns the name of a dim that is one made symbol.
func (e *equalities) symbol(d symbolic.Expr) (name string, ok bool) {
	if !isSymbol(d) {
		return "", false
	}
	name = d.Symbols()[0]
	return name, e.made(name)
}

// meetings takes symbols that meet each other for one.
func (e *equalities) meetings() {
	for _, pair := range e.met {
		a, okA := e.symbol(pair[0].Subst(e.as))
		b, okB := e.symbol(pair[1].Subst(e.as))
		_, inputA := e.rank[a]
		_, inputB := e.rank[b]
		if !okA || !okB || !inputA || !inputB || a == b {
			continue
		}
		if later, earlier := e.order(a, b); !e.kept(later) {
			e.take(later, earlier)
		}
	}
}

// order returns two symbols of inputs, that of the later input first.
func (e *equalities) order(a, b string) (later, earlier string) {
	if e.rank[a] > e.rank[b] {
		return a, b
	}
	return b, a
}

// take notes that a symbol is the same as an earlier one.
func (e *equalities) take(later, earlier string) {
	to := map[string]symbolic.Expr{later: symbolic.Sym(earlier)}
	for s, old := range e.as {
		e.as[s] = old.Subst(to)
	}
	e.as[later] = to[later]
}

// align takes the dims of two inputs for the same, where the second rule or the third says so, and reports
// whether anything was found.
func (e *equalities) align(x, y []symbolic.Expr) bool {
	if len(x) != len(y) {
		return false
	}
	pairs, axes, shared := map[string]string{}, 0, false
	for i := range x {
		dx, dy := x[i].Subst(e.as), y[i].Subst(e.as)
		if dx.Equal(dy) {
			shared = shared || len(dx.Symbols()) > 0
			continue
		}
		a, okA := e.symbol(dx)
		b, okB := e.symbol(dy)
		if !okA || !okB {
			return false
		}
		later, earlier := e.order(a, b)
		if old, again := pairs[later]; again && old != earlier || e.kept(later) {
			return false
		}
		pairs[later], axes = earlier, axes|1<<i
	}
	rows := axes == 1 && shared
	if len(pairs) == 0 || !rows && !e.supported(pairs) || e.crossed(pairs) {
		return false
	}
	for _, later := range slices.Sorted(maps.Keys(pairs)) {
		e.take(later, pairs[later])
	}
	return true
}

// supported reports whether each of the later symbols is in expressions that meet, differ so far, and
// are the same once the pairs are.
func (e *equalities) supported(pairs map[string]string) bool {
	to := map[string]symbolic.Expr{}
	for later, earlier := range pairs {
		if _, chained := pairs[earlier]; chained {
			return false
		}
		to[later] = symbolic.Sym(earlier)
	}
	left := maps.Clone(pairs)
	for _, pair := range e.met {
		a, b := pair[0].Subst(e.as), pair[1].Subst(e.as)
		if a.Equal(b) || !a.Subst(to).Equal(b.Subst(to)) {
			continue
		}
		for _, s := range append(a.Symbols(), b.Symbols()...) {
			delete(left, s)
		}
	}
	return len(left) == 0
}

// crossed reports whether a value has both symbols of a pair as dims.
func (e *equalities) crossed(pairs map[string]string) bool {
	for i := range e.g.Values {
		has := map[string]bool{}
		for _, d := range e.g.Values[i].Type.Shape.Dims {
			if name, ok := e.symbol(d.Subst(e.as)); ok {
				has[name] = true
			}
		}
		for later, earlier := range pairs {
			if has[later] && has[earlier] {
				return true
			}
		}
	}
	return false
}

// Rename puts symbols in place of others in the types that a graph states for its inputs, outputs and values.
// Inference has to follow.
func Rename(g *graph.Graph, names map[string]string) {
	to := make(map[string]symbolic.Expr, len(names))
	for from, name := range names {
		to[from] = symbolic.Sym(name)
	}
	for _, list := range [][]graph.Decl{g.Inputs, g.Outputs, g.ValueInfo} {
		for i := range list {
			d := &list[i]
			for axis, dim := range d.Type.Shape.Dims {
				if next := dim.Subst(to); !next.Equal(dim) {
					d.Type.Shape, d.Wire = with(d.Type.Shape, axis, next), nil
				}
			}
			if v := &g.Values[d.Value]; v.Input {
				v.Type = d.Type
			}
		}
	}
}
