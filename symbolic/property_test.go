package symbolic_test

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"memopt/symbolic"

	"pgregory.net/rapid"
)

// agree fails unless e has the value want at env.
func agree(t *rapid.T, what string, e symbolic.Expr, want *big.Int, env symbolic.Env) {
	got, err := e.Eval(env)
	switch {
	case !want.IsInt64() && errors.Is(err, symbolic.ErrOverflow):
	case err != nil:
		t.Fatalf("%s = %v at %v: %v, want %v", what, e, env, err, want)
	case !want.IsInt64() || got != want.Int64():
		t.Fatalf("%s = %v at %v: got %d, want %v", what, e, env, got, want)
	}
}

// failed reports whether e failed, and that it did so for a reason that the tree has.
func failed(t *rapid.T, tr *tree, e symbolic.Expr, env symbolic.Env) bool {
	err := e.Err()
	if err == nil {
		return false
	}
	if errors.Is(err, symbolic.ErrDivisionByZero) && tr.eval(env) != nil {
		t.Fatalf("%v divides by zero only in the package", tr)
	}
	return true
}

// Whatever an operation simplifies, the value stays what step-by-step evaluation gives, at
// positive, zero and negative values of the symbols.
func TestNormalFormKeepsValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := trees(9, allOps...).Draw(t, "tree")
		e := tr.build()
		for range 4 {
			env := drawEnv(t, -6)
			want := tr.eval(env)
			if failed(t, tr, e, env) || want == nil {
				continue
			}
			agree(t, tr.String(), e, want, env)
		}
	})
}

// The same with divisors that are often constants, which is where most rules are.
func TestQuotientsKeepValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := &tree{op: "sym", name: "a"}
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			op := rapid.SampledFrom([]string{"add", "sub", "mul", "floor", "ceil", "mod", "min", "max", "floor", "ceil",
				"mod"}).Draw(t, "op")
			var other *tree
			if rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
				other = drawTree(t, 1, []string{"add", "mul"})
			} else {
				other = &tree{op: "const", c: rapid.Int64Range(-8, 8).Draw(t, "const")}
			}
			tr = &tree{op: op, args: []*tree{tr, other}}
		}
		e := tr.build()
		for range 4 {
			env := drawEnv(t, -10)
			want := tr.eval(env)
			if failed(t, tr, e, env) || want == nil {
				continue
			}
			agree(t, tr.String(), e, want, env)
		}
		roundTrip(t, e)
	})
}

// roundTrip fails unless parsing the text of e gives e.
func roundTrip(t *rapid.T, e symbolic.Expr) {
	if e.Err() != nil {
		return
	}
	text := e.String()
	back, err := symbolic.Parse(text)
	if err != nil {
		t.Fatalf("Parse(String()): %v", err)
	}
	if !back.Identical(e) {
		t.Fatalf("Parse(%q) = %q", text, back)
	}
}

func TestParseInvertsString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { roundTrip(t, trees(9, allOps...).Draw(t, "tree").build()) })
}

func TestParseInvertsStringForAnyName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := symbolic.Sym(rapid.String().Draw(t, "name")).Add(
			symbolic.Sym(string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))))
		roundTrip(t, e)
	})
}

func drawBounds(t *rapid.T) symbolic.Bounds {
	b := symbolic.Bounds{}
	for _, name := range names {
		switch rapid.IntRange(0, 3).Draw(t, "bound of "+name) {
		case 0:
			lo := rapid.Int64Range(-5, 5).Draw(t, "lo")
			b[name] = symbolic.Range{Lo: lo, Hi: lo + rapid.Int64Range(0, 9).Draw(t, "width")}
		case 1:
			b[name] = symbolic.Range{Lo: math.MinInt64, Hi: rapid.Int64Range(-5, 5).Draw(t, "hi")}
		}
	}
	return b
}

// within draws values that b allows.
func within(t *rapid.T, b symbolic.Bounds) symbolic.Env {
	env := symbolic.Env{}
	for _, name := range names {
		r, ok := b[name]
		if !ok {
			r = symbolic.Dim
		}
		lo, hi := r.Lo, r.Hi
		if rapid.IntRange(0, 9).Draw(t, "any") > 0 { // near a finite end
			if lo != math.MinInt64 {
				hi = min(hi, max(lo, 0)+12)
			} else {
				lo = min(hi, 0) - 12
			}
		}
		env[name] = rapid.Int64Range(lo, hi).Draw(t, name)
	}
	return env
}

func TestBoundsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := trees(7, allOps...).Draw(t, "tree")
		b := drawBounds(t)
		e := tr.build()
		lo, hi, loOK, hiOK := e.Bounds(b)
		for range 4 {
			env := within(t, b)
			v := tr.eval(env)
			if v == nil || !e.IsKnown() {
				continue
			}
			if loOK && v.Cmp(big.NewInt(lo)) < 0 || hiOK && v.Cmp(big.NewInt(hi)) > 0 {
				t.Fatalf("%v = %v at %v is %v, outside [%d %v, %d %v]", tr, e, env, v, lo, loOK, hi, hiOK)
			}
		}
	})
}

// What Compare and AtMost prove holds at every binding within the bounds.
func TestCompareIsSound(t *testing.T) {
	decided := 0
	rapid.Check(t, func(t *rapid.T) {
		left, right := trees(5, allOps...).Draw(t, "left"), trees(5, allOps...).Draw(t, "right")
		if rapid.Bool().Draw(t, "related") { // so that some pairs are comparable
			op := rapid.SampledFrom([]string{"add", "floor", "mul", "max", "min", "sub", "ceil"}).Draw(t, "op")
			right = &tree{op: op, args: []*tree{left, right}}
		}
		b := drawBounds(t)
		x, y := left.build(), right.build()
		order, atMost := symbolic.Compare(x, y, b), symbolic.AtMost(x, y, b)
		if order != symbolic.Incomparable {
			decided++
		}
		if back := symbolic.Compare(y, x, b); order == symbolic.Less != (back == symbolic.Greater) {
			t.Fatalf("Compare(%v, %v) = %v, but the other way round %v", x, y, order, back)
		}
		if (order == symbolic.Less || order == symbolic.Equal) && !atMost {
			t.Fatalf("Compare(%v, %v) = %v, but AtMost is false", x, y, order)
		}
		for range 4 {
			env := within(t, b)
			v, w := left.eval(env), right.eval(env)
			if v == nil || w == nil {
				continue
			}
			sign := v.Cmp(w)
			ok := order == symbolic.Incomparable || order == symbolic.Less && sign < 0 ||
				order == symbolic.Equal && sign == 0 || order == symbolic.Greater && sign > 0
			if !ok || atMost && sign > 0 {
				t.Fatalf("Compare(%v, %v) = %v, AtMost %v; at %v they are %v and %v", x, y, order, atMost, env, v, w)
			}
		}
	})
	if decided == 0 {
		t.Error("no pair was comparable: the property was not tested")
	}
}

var polynomialOps = []string{"add", "sub", "mul", "neg", "pow"}

func TestExactDivMultipliesBack(t *testing.T) {
	exact := 0
	rapid.Check(t, func(t *rapid.T) {
		a, b := trees(5, allOps...).Draw(t, "a").build(), trees(4, allOps...).Draw(t, "b").build()
		if rapid.Bool().Draw(t, "multiple") {
			a = a.Mul(b)
		}
		q, ok := a.ExactDiv(b)
		if !ok {
			return
		}
		exact++
		if back := q.Mul(b); !back.Equal(a) {
			t.Fatalf("(%v) / (%v) = %v, which gives back %v", a, b, q, back)
		}
	})
	if exact == 0 {
		t.Error("no division was exact: the property was not tested")
	}
}

func TestExactDivUndoesMul(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := trees(5, polynomialOps...).Draw(t, "a").build(), trees(4, polynomialOps...).Draw(t, "b").build()
		product := a.Mul(b)
		if !product.IsKnown() || b.IsConst(0) || nearOverflow(a) || nearOverflow(b) {
			return
		}
		if q, ok := product.ExactDiv(b); !ok || !q.Equal(a) {
			t.Fatalf("(%v) / (%v) = %v, %v; want %v", product, b, q, ok, a)
		}
	})
}

// nearOverflow reports whether e has a coefficient so large that dividing may overflow.
func nearOverflow(e symbolic.Expr) bool {
	return !e.Mul(symbolic.Const(1 << 31)).IsKnown()
}

// Sums and products do not depend on the order in which they are made.
func TestRingLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e [3]symbolic.Expr
		for i := range e {
			e[i] = trees(4, allOps...).Draw(t, "operand").build()
		}
		same := func(what string, x, y symbolic.Expr) {
			if x.IsKnown() && y.IsKnown() && !x.Equal(y) {
				t.Fatalf("%s of %v: %v and %v", what, e, x, y)
			}
		}
		same("a+b = b+a", e[0].Add(e[1]), e[1].Add(e[0]))
		same("a*b = b*a", e[0].Mul(e[1]), e[1].Mul(e[0]))
		same("(a+b)+c = a+(b+c)", e[0].Add(e[1]).Add(e[2]), e[0].Add(e[1].Add(e[2])))
		same("(a*b)*c = a*(b*c)", e[0].Mul(e[1]).Mul(e[2]), e[0].Mul(e[1].Mul(e[2])))
		same("(a+b)*c = a*c + b*c", e[0].Add(e[1]).Mul(e[2]), e[0].Mul(e[2]).Add(e[1].Mul(e[2])))
		same("a-b+b = a", e[0].Sub(e[1]).Add(e[1]), e[0])
		same("Sum = Add", symbolic.Sum(e[:]...), e[0].Add(e[1]).Add(e[2]))
		same("Min commutes", symbolic.Min(e[0], e[1]), symbolic.Min(e[1], e[0]))
		same("(a*2)/2 = a", e[0].Mul(symbolic.Const(2)).FloorDiv(symbolic.Const(2)), e[0])
		if x, y := e[0].Mul(e[1]), e[1].Mul(e[0]); !x.Identical(y) {
			t.Fatalf("a*b and b*a fail differently: %v, %v", x, y)
		}
	})
}

// Binding symbols one part at a time, as constants or as expressions, gives the value too.
func TestSubstAgreesWithEval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr, inner := trees(6, allOps...).Draw(t, "tree"), trees(2, "add", "mul", "sub").Draw(t, "inner")
		env := drawEnv(t, -5)
		replaced := tr.build().Subst(map[string]symbolic.Expr{"a": inner.build(), "b": symbolic.Const(env["b"])})
		v := inner.eval(env)
		if !v.IsInt64() || !replaced.IsKnown() {
			return
		}
		outer := symbolic.Env{}
		for name, x := range env {
			outer[name] = x
		}
		outer["a"] = v.Int64()
		want := tr.eval(outer)
		if want == nil {
			return
		}
		agree(t, tr.String()+" with a = "+inner.String(), replaced, want, env)
		if bound := tr.build().Bind(outer); bound.IsKnown() {
			if c, ok := bound.Const(); !ok || want.Cmp(big.NewInt(c)) != 0 {
				t.Fatalf("Bind(%v) of %v = %v, want %v", outer, tr, bound, want)
			}
		}
	})
}
