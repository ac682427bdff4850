package executor

import (
	"fmt"
	"maps"

	"memopt/graph"
	"memopt/hint"
	"memopt/symbolic"
)

// BindDims binds the symbols in the declared shapes of inputs to the dims of the data, on top of the
// given bindings. inputs is by ValueID, with nil for values without data. A dim such as 2n+1 binds n;
// with several symbols, all others must be bound. A dim that is not linear in its symbol, such as n//2,
// binds no symbol. The error names the input whose type or shape contradicts its declaration, the
// bindings, or another input.
func BindDims(g *graph.Graph, inputs []*Tensor, given symbolic.Env) (symbolic.Env, error) {
	env := maps.Clone(given)
	if env == nil {
		env = symbolic.Env{}
	}
	from := map[string]string{}
	bind := func(f func(symbolic.Env, map[string]string, string, symbolic.Expr, int64) error) error {
		for _, d := range g.Inputs {
			t, v := inputs[d.Value], &g.Values[d.Value]
			if t == nil {
				continue
			}
			for i, dim := range v.Type.Shape.Dims {
				if err := f(env, from, v.Name, dim, int64(t.Shape[i])); err != nil {
					return fmt.Errorf("input %q: the data are %v, wanted %v: dim %d: %w", v.Name, t, v.Type, i, err)
				}
			}
		}
		return nil
	}
	for _, d := range g.Inputs {
		t := inputs[d.Value]
		if t == nil {
			continue
		}
		name, typ := g.Values[d.Value].Name, g.Values[d.Value].Type
		if typ.DType != graph.Undefined && typ.DType != t.DType || typ.Shape.Ranked && len(typ.Shape.Dims) != t.Rank() {
			return nil, fmt.Errorf("input %q: the data are %v, wanted %v", name, t, typ)
		}
	}
	if err := bind(bindDim); err != nil {
		return nil, err
	}
	for before := -1; before < len(env); { // a symbol that is solved for may let another one be
		before = len(env)
		if err := bind(solveDim); err != nil {
			return nil, err
		}
	}
	return env, bind(checkDim)
}

// bindDim lets a declared dim that is a symbol be n.
func bindDim(env symbolic.Env, from map[string]string, input string, dim symbolic.Expr, n int64) error {
	if dim.IsUnknown() {
		return nil
	}
	symbols := dim.Symbols()
	if len(symbols) == 1 && dim.Equal(symbolic.Sym(symbols[0])) {
		s := symbols[0]
		if old, bound := env[s]; bound && old != n {
			if from[s] != "" {
				return fmt.Errorf("%s is %d here and %d by input %s", s, n, old, from[s])
			}
			return fmt.Errorf("%s is %d here and %d by %v", s, n, old, hint.Dims)
		}
		env[s] = n
		if from[s] == "" {
			from[s] = input
		}
	}
	return nil
}

// checkDim compares a declared dim whose symbols are bound with n.
func checkDim(env symbolic.Env, _ map[string]string, _ string, dim symbolic.Expr, n int64) error {
	if dim.IsUnknown() {
		return nil
	}
	if want, err := dim.Eval(env); err == nil && want != n {
		return fmt.Errorf("is %d, wanted %d", n, want)
	}
	return nil
}

// solveDim binds the one symbol without a binding of a declared dim, if the dim grows by the same
// number with each step of it.
func solveDim(env symbolic.Env, from map[string]string, input string, dim symbolic.Expr, n int64) error {
	open := ""
	for _, s := range dim.Symbols() {
		if _, bound := env[s]; bound {
			continue
		}
		if open != "" {
			return nil
		}
		open = s
	}
	if open == "" {
		return nil
	}
	base, slope, ok := linear(dim, env, open)
	if !ok || slope == 0 {
		return nil
	}
	x := (n - base) / slope
	if x*slope != n-base || x < 0 {
		return fmt.Errorf("is %d: no size %s gives that", n, open)
	}
	env[open], from[open] = x, input
	return nil
}

// linear returns base and slope of a dim as base + slope*symbol; ok is false where it is something
// else. It tells by values: of the functions that symbolic.Expr has, floors, ceilings, remainders,
// minima and maxima bend at small numbers or at large ones, and products curve everywhere.
func linear(dim symbolic.Expr, env symbolic.Env, symbol string) (base, slope int64, ok bool) {
	at := func(x int64) (int64, bool) {
		trial := maps.Clone(env)
		trial[symbol] = x
		y, err := dim.Eval(trial)
		return y, err == nil
	}
	base, ok = at(0)
	one, okOne := at(1)
	if !ok || !okOne {
		return 0, 0, false
	}
	slope = one - base
	for _, x := range []int64{2, 3, 4, 5, 6, 7, 11, 13, 64, 97, 1000, 1021, 65536, 1 << 20} {
		y, ok := at(x)
		if !ok || y != base+slope*x {
			return 0, 0, false
		}
	}
	return base, slope, true
}
