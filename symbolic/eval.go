package symbolic

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// Env binds symbols to values.
type Env map[string]int64

// Eval returns the value of a at the bindings. It is exact: intermediate values may be larger than
// 64 bits. Errors are *[UnboundError] with every symbol that env lacks; [ErrOverflow] if the value
// does not fit int64; [ErrDivisionByZero]; [ErrUnknown]; and those of [Expr.Err].
func (a Expr) Eval(env Env) (int64, error) {
	if a.p == nil {
		return a.c, nil
	}
	switch {
	case a.IsUnknown():
		return 0, ErrUnknown
	case !a.IsKnown():
		return 0, a.Err()
	}
	v, err := evalSmall(a, env)
	if err == nil {
		return v, nil
	}
	var unbound *UnboundError
	if errors.As(err, &unbound) {
		return 0, a.unbound(env)
	}
	if errors.Is(err, ErrOverflow) { // it may be that only something on the way does not fit
		if v, err = evalBig(a, env); err == nil {
			return v, nil
		}
	}
	return 0, fmt.Errorf("evaluating %s: %w", abbreviate(a.String(), 200), err)
}

// unbound lists the symbols of a that env lacks.
func (a Expr) unbound(env Env) error {
	names := slices.DeleteFunc(a.Symbols(), func(s string) bool {
		_, ok := env[s]
		return ok
	})
	return &UnboundError{Symbols: names}
}

// abbreviate returns text, cut to about n bytes.
func abbreviate(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return text[:n] + "..."
}

// errUnbound tells Eval to look for every unbound symbol.
var errUnbound = &UnboundError{}

// evalSmall evaluates in 64 bits and fails with ErrOverflow where something does not fit.
func evalSmall(e Expr, env Env) (int64, error) {
	if e.p == nil {
		return e.c, nil
	}
	var sum int64
	for _, t := range e.p.terms {
		v := t.coef
		for _, f := range t.mono.factors {
			x, err := f.atom.evalSmall(env)
			if err != nil {
				return 0, err
			}
			x, ok := powInt(x, uint(f.pow))
			if ok {
				v, ok = mulInt(v, x)
			}
			if !ok {
				return 0, ErrOverflow
			}
		}
		var ok bool
		if sum, ok = addInt(sum, v); !ok {
			return 0, ErrOverflow
		}
	}
	return sum, nil
}

func (a *atom) evalSmall(env Env) (int64, error) {
	if a.kind == kindSymbol {
		v, ok := env[a.name]
		if !ok {
			return 0, errUnbound
		}
		return v, nil
	}
	v, err := evalSmall(a.args[0], env)
	if err != nil {
		return 0, err
	}
	for _, arg := range a.args[1:] {
		w, err := evalSmall(arg, env)
		if err != nil {
			return 0, err
		}
		if v, err = a.kind.apply(v, w); err != nil {
			return 0, err
		}
	}
	return v, nil
}

// apply returns the operation on two values.
func (k atomKind) apply(v, w int64) (int64, error) {
	switch {
	case k == kindMin:
		return min(v, w), nil
	case k == kindMax:
		return max(v, w), nil
	case w == 0:
		return 0, ErrDivisionByZero
	case k == kindMod:
		return modInt(v, w), nil
	}
	q, ok := floorDivInt(v, w)
	if !ok {
		return 0, ErrOverflow
	}
	return q, nil
}

// evalBig evaluates without limits and fails with ErrOverflow where the result does not fit.
func evalBig(e Expr, env Env) (int64, error) {
	v, err := bigValue(e, env)
	if err != nil {
		return 0, err
	}
	if !v.IsInt64() {
		return 0, ErrOverflow
	}
	return v.Int64(), nil
}

func bigValue(e Expr, env Env) (*big.Int, error) {
	if e.p == nil {
		return big.NewInt(e.c), nil
	}
	sum := new(big.Int)
	for _, t := range e.p.terms {
		v := big.NewInt(t.coef)
		for _, f := range t.mono.factors {
			x, err := f.atom.bigValue(env)
			if err != nil {
				return nil, err
			}
			v.Mul(v, x.Exp(x, big.NewInt(int64(f.pow)), nil))
		}
		sum.Add(sum, v)
	}
	return sum, nil
}

func (a *atom) bigValue(env Env) (*big.Int, error) {
	if a.kind == kindSymbol {
		v, ok := env[a.name]
		if !ok {
			return nil, errUnbound
		}
		return big.NewInt(v), nil
	}
	v, err := bigValue(a.args[0], env)
	if err != nil {
		return nil, err
	}
	for _, arg := range a.args[1:] {
		w, err := bigValue(arg, env)
		if err != nil {
			return nil, err
		}
		if v, err = a.kind.applyBig(v, w); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (k atomKind) applyBig(v, w *big.Int) (*big.Int, error) {
	switch {
	case k == kindMin && v.Cmp(w) > 0, k == kindMax && v.Cmp(w) < 0:
		return w, nil
	case k == kindMin, k == kindMax:
		return v, nil
	case w.Sign() == 0:
		return nil, ErrDivisionByZero
	}
	// Truncated division, corrected to rounding down.
	q, r := new(big.Int).QuoRem(v, w, new(big.Int))
	if r.Sign() != 0 && r.Sign() != w.Sign() {
		q.Sub(q, big.NewInt(1))
		r.Add(r, w)
	}
	if k == kindMod {
		return r, nil
	}
	return q, nil
}
