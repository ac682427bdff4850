package symbolic_test

import (
	"errors"
	"math"
	"sync"
	"testing"

	"memopt/symbolic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Equal texts have equal normal forms: each row is a rule of the package comment at work.
func TestSimplifications(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"(a + b)*(a - b)", "a**2 - b**2"},
		{"batch*seq*1024/(seq*16)", "64*batch"},
		{"a - a", "0"},
		{"a**0", "1"},
		{"0**0", "1"},
		// Quotients by constants.
		{"(6*a + 4)//2", "3*a + 2"},
		{"(2*a + 3)//2", "a + 1"},
		{"(3*a)//2", "a + floor(a/2)"},
		{"(2*a + 1)//4", "floor(a/2)"},
		{"a//-2", "-a + floor(a/2)"},
		{"7//-2", "-4"},
		{"-7//2", "-4"},
		{"(a//2)//3", "floor(a/6)"},
		{"(a//2 + b)//3", "floor((a + 2*b)/6)"},
		{"floor(a/2 + 1/2)", "ceiling(a/2)"},
		{"floor((a + 3)/4)", "ceiling(a/4)"},
		{"(h + 2*1 - 3)//2 + 1", "ceiling(h/2)"},
		{"ceiling((a + 1)/4)", "floor(a/4) + 1"},
		{"ceiling(7/2)", "4"},
		{"ceiling(-7/2)", "-3"},
		{"ceiling(ceiling(a/2)/3)", "ceiling(a/6)"},
		{"Mod(a, 3)//3", "0"},
		{"(3*b + Mod(a, 3))//3", "b"},
		// Quotients by expressions.
		{"(a*b)//b", "a"},
		{"(a*b + c)//b", "a + floor(c/b)"},
		{"(2*a*b)//(4*b)", "floor(a/2)"},
		{"(n*(k + 1) + 3)//(k + 1)", "n + floor(3/(k + 1))"},
		{"a//-b", "-ceiling(a/b)"},
		{"0//b", "0"},
		{"(a**2 - b**2)//(a + b)", "a - b"},
		{"1//Max(a, 2)", "0"},
		// Remainders.
		{"Mod(4*a + 6, 4)", "2"},
		{"Mod(5*a + 6, 4)", "Mod(a + 2, 4)"},
		{"Mod(2*a + 1, 4)", "2*Mod(a, 2) + 1"},
		{"-7 % 3", "2"},
		{"7 % -3", "-2"},
		{"Mod(a, -3)", "-Mod(2*a, 3)"},
		{"Mod(Mod(a, 6), 3)", "Mod(a, 3)"},
		{"Mod(3*Mod(a, 4) + b, 6)", "Mod(3*a + b, 6)"},
		{"Mod(Mod(a, 3), 5)", "Mod(a, 3)"},
		{"Mod(a + Mod(a, 2), 2)", "0"},
		{"Mod(9223372036854775807*a + Mod(a, 2), 2)", "0"},
		{"Mod(a*b, b)", "0"},
		{"Mod(a*b + c, b)", "Mod(c, b)"},
		{"Mod(2*a, 2*b)", "2*Mod(a, b)"},
		{"Mod(a, 1)", "0"},
		// Min and Max.
		{"Max(a, Max(b, 3), 2)", "Max(3, a, b)"},
		{"Max(a, a + 1)", "a + 1"},
		{"Min(a, a + 1, b)", "Min(a, b)"},
		{"Max(a, Min(a, b))", "a"},
		{"Min(a, Max(b, a))", "a"},
		{"Max(Mod(a, 5), 4)", "4"},
		{"Max(a, 1)", "Max(1, a)"}, // dims may be zero as far as the normal form knows
		{"Min(-9223372036854775808, Mod(a, 9223372036854775807))", "-9223372036854775808"},
		{"Max(3, 5)", "5"},
		{"Min(3, 5)", "3"},
		{"Max(a)", "a"},
	} {
		got, err := symbolic.Parse(tt.in)
		require.NoError(t, err)
		assert.True(t, got.Equal(symbolic.MustParse(tt.want)), "%s = %v, want %s", tt.in, got, tt.want)
	}
}

func TestZeroValueIsZero(t *testing.T) {
	var e symbolic.Expr
	assert.True(t, e.Equal(symbolic.Const(0)))
	assert.Equal(t, "0", e.String())
	assert.True(t, e.Add(symbolic.Sym("a")).Equal(symbolic.Sym("a")))
}

func TestUnknownAbsorbs(t *testing.T) {
	u, a, zero := symbolic.Unknown(), symbolic.Sym("a"), symbolic.Const(0)
	for name, e := range map[string]symbolic.Expr{
		"add": a.Add(u), "sub": u.Sub(u), "mul": zero.Mul(u), "neg": u.Neg(), "floor": zero.FloorDiv(u),
		"ceil": u.CeilDiv(a), "mod": u.Mod(a), "pow": u.Pow(0), "min": symbolic.Min(zero, u),
		"max": symbolic.Max(a, a, u), "sum": symbolic.Sum(a, u), "empty name": symbolic.Sym(""),
		"subst": a.Subst(map[string]symbolic.Expr{"a": u}),
	} {
		assert.True(t, e.IsUnknown(), name)
		assert.False(t, e.IsKnown(), name)
		assert.NoError(t, e.Err(), name)
		assert.False(t, e.Equal(e), name)
		assert.True(t, e.Identical(u), name)
		_, err := e.Eval(nil)
		assert.ErrorIs(t, err, symbolic.ErrUnknown, name)
		_, ok := e.Const()
		assert.False(t, ok, name)
	}
	_, ok := u.ExactDiv(a)
	assert.False(t, ok)
	assert.Equal(t, symbolic.Incomparable, symbolic.Compare(u, u, nil))
	assert.False(t, symbolic.AtMost(u, u, nil))
}

func TestFailuresStick(t *testing.T) {
	a, huge := symbolic.Sym("a"), symbolic.Const(math.MaxInt64)
	least := symbolic.Const(math.MinInt64)
	bySum := make([]symbolic.Expr, symbolic.MaxTerms+1)
	for i := range bySum {
		bySum[i] = a.Pow(uint(i % 70)).Mul(symbolic.Sym("b").Pow(uint(i / 70)))
	}
	nested := a
	for range symbolic.MaxDepth + 1 {
		nested = symbolic.Max(nested.Mul(symbolic.Const(2)), symbolic.Sym("b"))
	}
	many := make([]symbolic.Expr, symbolic.MaxArgs)
	for i := range many {
		many[i] = symbolic.Sym(string(rune('a' + i)))
	}
	for name, tt := range map[string]struct {
		e    symbolic.Expr
		want error
	}{
		"add":          {huge.Add(symbolic.Const(1)), symbolic.ErrOverflow},
		"sub":          {least.Sub(symbolic.Const(1)), symbolic.ErrOverflow},
		"sub least":    {symbolic.Const(0).Sub(least), symbolic.ErrOverflow},
		"neg":          {least.Neg(), symbolic.ErrOverflow},
		"mul":          {huge.Mul(symbolic.Const(2)), symbolic.ErrOverflow},
		"floor":        {least.FloorDiv(symbolic.Const(-1)), symbolic.ErrOverflow},
		"pow":          {symbolic.Const(2).Pow(63), symbolic.ErrOverflow},
		"huge pow":     {symbolic.Const(2).Pow(math.MaxUint), symbolic.ErrOverflow},
		"coefficient":  {a.Mul(huge).Add(a), symbolic.ErrOverflow},
		"sum":          {symbolic.Sum(huge, huge, huge), symbolic.ErrOverflow},
		"zero divisor": {a.FloorDiv(symbolic.Const(0)), symbolic.ErrDivisionByZero},
		"zero by zero": {symbolic.Const(0).Mod(symbolic.Const(0)), symbolic.ErrDivisionByZero},
		"ceil":         {a.CeilDiv(a.Sub(a)), symbolic.ErrDivisionByZero},
		"power":        {a.Pow(symbolic.MaxDegree + 1), symbolic.ErrTooLarge},
		"power of two": {a.Pow(symbolic.MaxDegree).Mul(a), symbolic.ErrTooLarge},
		"terms":        {symbolic.Sum(bySum...), symbolic.ErrTooLarge},
		"depth":        {nested, symbolic.ErrTooLarge},
		"operands":     {symbolic.Max(a, symbolic.Sym("last"), many...), symbolic.ErrTooLarge},
	} {
		assert.ErrorIs(t, tt.e.Err(), tt.want, name)
		assert.False(t, tt.e.IsKnown(), name)
		assert.False(t, tt.e.IsUnknown(), name)
		assert.False(t, tt.e.Equal(tt.e), name)
		for _, later := range []symbolic.Expr{
			tt.e.Mul(symbolic.Const(0)), a.Add(tt.e), tt.e.Pow(2), symbolic.Unknown().Add(tt.e),
			symbolic.Min(symbolic.Unknown(), tt.e), tt.e.FloorDiv(a), a.Mod(tt.e), tt.e.Neg(),
		} {
			assert.True(t, later.Identical(tt.e), name)
		}
		_, err := tt.e.Eval(nil)
		assert.ErrorIs(t, err, tt.want, name)
		_, err = symbolic.Parse(tt.e.String())
		assert.Error(t, err, name)
	}
	assert.ErrorIs(t, a.FloorDiv(symbolic.Const(0)).Add(huge.Add(huge)).Err(), symbolic.ErrDivisionByZero)
}

// Near the ends of int64 every result that fits is right.
func TestConstantsAtTheEnds(t *testing.T) {
	const lo, hi = math.MinInt64, math.MaxInt64
	c := symbolic.Const
	for _, tt := range []struct {
		got  symbolic.Expr
		want int64
	}{
		{c(-1).Sub(c(lo)), hi},
		{c(lo).Sub(c(lo)), 0},
		{c(lo).Add(c(hi)), -1},
		{c(lo).Mul(c(1)), lo},
		{c(1 << 62).Mul(c(-2)), lo},
		{c(-2).Pow(63), lo},
		{c(-1).Pow(math.MaxUint), -1},
		{c(0).Pow(math.MaxUint), 0},
		{c(lo).FloorDiv(c(1)), lo},
		{c(lo).FloorDiv(c(hi)), -2},
		{c(hi).CeilDiv(c(2)), 1 << 62},
		{c(lo).Mod(c(-1)), 0},
		{c(lo).Mod(c(hi)), hi - 1},
		{symbolic.Max(c(lo), c(hi)), hi},
		{symbolic.Min(c(0), c(hi), c(lo)), lo},
		{symbolic.Sum(c(hi), c(hi), c(-hi)), hi},
	} {
		v, ok := tt.got.Const()
		assert.True(t, ok, "%v", tt.got)
		assert.Equal(t, tt.want, v)
	}
}

func TestEval(t *testing.T) {
	e := symbolic.MustParse("batch*seq**2 + floor(batch/3)*Max(seq, heads) - Mod(seq, 5)")
	got, err := e.Eval(symbolic.Env{"batch": 7, "seq": 8, "heads": 9, "other": 1})
	require.NoError(t, err)
	assert.Equal(t, int64(7*64+2*9-3), got)

	_, err = e.Eval(symbolic.Env{"batch": 7})
	var unbound *symbolic.UnboundError
	require.ErrorAs(t, err, &unbound)
	assert.Equal(t, []string{"heads", "seq"}, unbound.Symbols)
	assert.EqualError(t, err, `symbols "heads", "seq" have no value`)
	_, err = symbolic.Sym("n").Eval(nil)
	assert.EqualError(t, err, `symbol "n" has no value`)

	_, err = symbolic.MustParse("1//a").Eval(symbolic.Env{"a": 0})
	assert.ErrorIs(t, err, symbolic.ErrDivisionByZero)
	assert.EqualError(t, err, "evaluating floor(1/a): division by zero")

	_, err = symbolic.MustParse("a*b").Eval(symbolic.Env{"a": 1 << 40, "b": 1 << 40})
	assert.ErrorIs(t, err, symbolic.ErrOverflow)
	got, err = symbolic.MustParse("a*b - c*b + 1").Eval(symbolic.Env{"a": 1 << 40, "b": 1 << 40, "c": 1 << 40})
	require.NoError(t, err, "only something on the way does not fit")
	assert.Equal(t, int64(1), got)
	got, err = symbolic.MustParse("floor(a**2/b) + Mod(a**2, 7)*Min(a**2, 1)*Max(1, -a**2)").Eval(
		symbolic.Env{"a": 1 << 62, "b": 1 << 62})
	require.NoError(t, err)
	assert.Equal(t, int64(1<<62+2), got, "2**124 = 2 modulo 7")
}

func TestSymbols(t *testing.T) {
	e := symbolic.MustParse("z*Max(a, `x y`) + floor(z/`b-c`)")
	assert.Equal(t, []string{"a", "b-c", "x y", "z"}, e.Symbols())
	assert.Empty(t, symbolic.Const(3).Symbols())
	assert.Empty(t, symbolic.Unknown().Symbols())
	assert.Len(t, e.AppendSymbols([]string{"first"}), 6, "as often as they occur")
}

func TestSubst(t *testing.T) {
	e := symbolic.MustParse("a*b + floor(a/2)")
	swapped := e.Subst(map[string]symbolic.Expr{"a": symbolic.Sym("b"), "b": symbolic.Sym("a")})
	assert.Equal(t, "a*b + floor(b/2)", swapped.String(), "all at once")
	assert.Equal(t, "2*b*c + c", e.Subst(map[string]symbolic.Expr{"a": symbolic.MustParse("2*c")}).String())
	assert.Equal(t, "7*b + 3", e.Bind(symbolic.Env{"a": 7}).String())
	assert.ErrorIs(t, symbolic.MustParse("1//a").Bind(symbolic.Env{"a": 0}).Err(), symbolic.ErrDivisionByZero)
	assert.True(t, e.Subst(nil).Identical(e))
}

func TestExactDiv(t *testing.T) {
	for _, tt := range []struct {
		a, b, want string // no want: there is no quotient
	}{
		{"batch*seq*1024", "seq*16", "64*batch"},
		{"a**2 - b**2", "a - b", "a + b"},
		{"6*a + 4", "2", "3*a + 2"},
		{"6*a + 3", "2", ""},
		{"6*a", "-3", "-2*a"},
		{"a", "b", ""},
		{"5", "a", ""},
		{"0", "a", "0"},
		{"a", "0", ""},
		{"Max(a, b)**2*c", "Max(b, a)", "Max(a, b)*c"},
		{"a*b + a", "b + 1", "a"},
		{"a*b + a + 1", "b + 1", ""},
	} {
		q, ok := symbolic.MustParse(tt.a).ExactDiv(symbolic.MustParse(tt.b))
		require.Equal(t, tt.want != "", ok, "%s / %s = %v", tt.a, tt.b, q)
		if ok {
			assert.True(t, q.Equal(symbolic.MustParse(tt.want)), "%s / %s = %v, want %s", tt.a, tt.b, q, tt.want)
		}
	}
}

func TestSymbolsAreTheSameFromEveryGoroutine(t *testing.T) {
	var wg sync.WaitGroup
	got := make([]symbolic.Expr, 16)
	for i := range got {
		wg.Go(func() { got[i] = symbolic.Sym("shared dim").Mul(symbolic.Sym("b")) })
	}
	wg.Wait()
	for _, e := range got {
		assert.True(t, e.Equal(got[0]))
	}
}

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct {
		in     string
		offset int
		msg    string
	}{
		{"", 0, "want a number, a name or a parenthesis, got the end"},
		{"a +", 3, "want a number, a name or a parenthesis, got the end"},
		{"a b", 2, `want an operator or the end, got "b"`},
		{"(a", 2, `want ")", got the end`},
		{"a $ b", 2, `unexpected "$"; put names that are not identifiers in backquotes`},
		{"a-é!", 4, `unexpected "!"; put names that are not identifiers in backquotes`},
		{"`abc", 0, "unclosed backquote"},
		{"1 + ``", 4, "empty name"},
		{"sin(a)", 0, `unknown function "sin"; known are floor, ceiling, Mod, Min and Max`},
		{"Mod(a)", 0, "Mod takes 2 argument(s), got 1"},
		{"floor(a, b)", 0, "floor takes 1 argument(s), got 2"},
		{"1 + a/2", 0, "not an integer for all values of its symbols; write floor(a/b) or a//b"},
		{"a**b", 3, "an exponent must be a constant that is not negative"},
		{"a**-1", 3, "an exponent must be a constant that is not negative"},
		{"2 + a//0", 4, "division by zero"},
		{"a/0", 0, "division by zero"},
		{"9223372036854775808", 0, "9223372036854775808 does not fit 64 bits"},
		{"a - 9223372036854775808//3", 4, "the number does not fit 64 bits"},
		{"a*9223372036854775807*3", 0, "integer overflow: the number does not fit 64 bits"},
		{"(a + b + c + d + e)**30", 0, "expression too large"},
	} {
		_, err := symbolic.Parse(tt.in)
		var fault *symbolic.ParseError
		require.True(t, errors.As(err, &fault), "%q: %v", tt.in, err)
		assert.Equal(t, tt.offset, fault.Offset, "%q: %v", tt.in, err)
		assert.Equal(t, tt.msg, fault.Msg, tt.in)
	}
	_, err := symbolic.Parse("a +* b")
	assert.EqualError(t, err, `expression "a +* b": at byte 3: want a number, a name or a parenthesis, got "*"`)
	_, err = symbolic.Parse("a//0")
	assert.ErrorIs(t, err, symbolic.ErrDivisionByZero)
}

func TestParseSpellings(t *testing.T) {
	for in, want := range map[string]string{
		" a\t*\nb ":                            "a*b",
		"- - +-a**2":                           "-a**2",
		"-2**2":                                "-4",
		"2**3**2":                              "512",
		"a - b - c":                            "a - b - c",
		"a//b*b":                               "b*floor(a/b)",
		"8//3//2":                              "1",
		"a - 9223372036854775808*b":            "a - 9223372036854775808*b",
		"-9223372036854775808":                 "-9223372036854775808",
		"? + a":                                "?",
		"`batch`*`a``b`":                       "`a``b`*batch",
		"floor(a/2 + b/3 + 1/6)":               "floor(a/2 + b/3 + 1/6)",
		"floor(a/b + 1/2)":                     "floor((2*a + b)/(2*b))",
		"floor":                                "floor",
		"α_1*β":                                "α_1*β",
		"past_sequence_length+sequence_length": "past_sequence_length + sequence_length",
		"Max(floor, Max)*Min":                  "Min*Max(Max, floor)",
		// Coefficients whose opposite does not fit keep their sign.
		"2*a + floor(-9223372036854775808/floor(-1/a))": "2*a + floor(-9223372036854775808/floor(-1/a))",
		"a + -9223372036854775808*floor(-1/a)":          "a - 9223372036854775808*floor(-1/a)",
		"floor((a - 9223372036854775808)/floor(-1/a))":  "floor((a - 9223372036854775808)/floor(-1/a))",
		"0009*a":                                 "9*a",
		"(a*b*2)/(b*2)":                          "a",
		"ceiling(a/b)**2":                        "ceiling(a/b)**2",
		"ceiling(a/b)**3*a*-9223372036854775807": "-9223372036854775807*a*ceiling(a/b)**3",
	} {
		e, err := symbolic.Parse(in)
		if assert.NoError(t, err) {
			assert.Equal(t, want, e.String(), in)
		}
	}
}

func TestFloatStringOfConstants(t *testing.T) {
	for _, tt := range []struct {
		e        string
		num, den int64
		want     string
	}{
		{"1234", 1, 1, "1234.0"},
		{"0", 1, 3, "0.0"},
		{"a", 0, 3, "0.0"},
		{"-1", 1, 3, "-0.333333333333333"},
		{"-1", -2, 3, "0.666666666666667"},
		{"9223372036854775807", 100, 1, "9.22337203685478e+20"},
		{"1", 1, 1000000, "1.0e-6"},
		{"999999999999999999", 1, 1, "1.0e+18"},
		{"?", 1, 2, "?"},
		{"a", 1, 0, "<division by zero>"},
		{"`a b`*3", 1, 2, "1.5*`a b`"},
	} {
		assert.Equal(t, tt.want, symbolic.MustParse(tt.e).FloatString(tt.num, tt.den), tt.e)
	}
}
