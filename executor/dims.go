package executor

import (
	"fmt"
	"maps"

	"memopt/graph"
	"memopt/symbolic"
)

// BindDims binds the symbols in the declared shapes of inputs to what the data have, on top of the
// given bindings. inputs is by ValueID, nil where there are no data. The error names the input
// whose type or shape contradicts its declaration, the bindings, or another input.
func BindDims(g *graph.Graph, inputs []*Tensor, given symbolic.Env) (symbolic.Env, error) {
	env := maps.Clone(given)
	if env == nil {
		env = symbolic.Env{}
	}
	from := map[string]string{}
	for _, d := range g.Inputs {
		t := inputs[d.Value]
		if t == nil {
			continue
		}
		name, typ := g.Values[d.Value].Name, g.Values[d.Value].Type
		if typ.DType != graph.Undefined && typ.DType != t.DType || typ.Shape.Ranked && len(typ.Shape.Dims) != t.Rank() {
			return nil, fmt.Errorf("input %q: the data are %v, wanted %v", name, t, typ)
		}
		for i, dim := range typ.Shape.Dims {
			if err := bindDim(env, from, name, dim, int64(t.Shape[i])); err != nil {
				return nil, fmt.Errorf("input %q: the data are %v, wanted %v: dim %d: %w", name, t, typ, i, err)
			}
		}
	}
	return env, nil
}

// bindDim lets a declared dim be n.
func bindDim(env symbolic.Env, from map[string]string, input string, dim symbolic.Expr, n int64) error {
	if dim.IsUnknown() {
		return nil
	}
	symbols := dim.Symbols()
	if len(symbols) == 1 && dim.Equal(symbolic.Sym(symbols[0])) {
		s := symbols[0]
		if old, bound := env[s]; bound && old != n {
			where := "--dim"
			if from[s] != "" {
				where = "input " + from[s]
			}
			return fmt.Errorf("%s is %d here and %d by %s", s, n, old, where)
		}
		env[s] = n
		if from[s] == "" {
			from[s] = input
		}
		return nil
	}
	if want, err := dim.Eval(env); err == nil && want != n {
		return fmt.Errorf("is %d, wanted %d", n, want)
	}
	return nil
}
