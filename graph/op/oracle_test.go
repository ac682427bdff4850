package op

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"memopt/symbolic"
)

// sliced counts the elements that a slice takes one by one, as ONNX defines it.
func sliced(d, start, end, step int64) int64 {
	hold := func(x, low, high int64) int64 {
		if x < 0 {
			x += d
		}
		return max(low, min(x, high))
	}
	n := int64(0)
	if step > 0 {
		for i := hold(start, 0, d); i < hold(end, 0, d); i += step {
			n++
		}
		return n
	}
	for i := hold(start, 0, d-1); i > hold(end, -1, d-1); i += step {
		n++
	}
	return n
}

// TestSliceLength compares the length of slices of an axis, by number and by symbol,
// with counting.
func TestSliceLength(t *testing.T) {
	sym := symbolic.Sym("d")
	for _, step := range []int64{1, 2, 3, 7, -1, -2, -5} {
		for start := int64(-8); start <= 8; start++ {
			for end := int64(-8); end <= 8; end++ {
				k := cut{0, symbolic.Const(start), symbolic.Const(end), step}
				bySymbol := k.length(sym)
				for d := int64(1); d < 12; d++ {
					want := sliced(d, start, end, step)
					require.True(t, k.length(symbolic.Const(d)).IsConst(want), "[%d:%d:%d] of %d: %v, wanted %d",
						start, end, step, d, k.length(symbolic.Const(d)), want)
					got, err := bySymbol.Eval(symbolic.Env{"d": d})
					require.NoError(t, err)
					require.Equal(t, want, got, "[%d:%d:%d] of d=%d: %v", start, end, step, d, bySymbol)
				}
			}
		}
	}
}

// TestSliceToEnd: bounds that mean "all there is" give clean dims, whatever the step's sign.
func TestSliceToEnd(t *testing.T) {
	d := symbolic.Sym("d")
	for _, end := range []int64{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt32} {
		assert.True(t, cut{0, symbolic.Const(0), symbolic.Const(end), 1}.length(d).Equal(d))
		assert.True(t, cut{0, symbolic.Const(1), symbolic.Const(end), 1}.length(d).Equal(d.Sub(symbolic.Const(1))))
		assert.True(t, cut{0, symbolic.Const(end), symbolic.Const(-end), -1}.length(d).Equal(d))
		assert.True(t, cut{0, symbolic.Const(-end), symbolic.Const(end), 1}.length(d).Equal(d))
	}
	assert.True(t, cut{0, symbolic.Const(math.MinInt64), symbolic.Const(math.MaxInt64), 1}.length(d).Equal(d))
}

// TestSliceSymbolicBounds binds bounds that are expressions.
func TestSliceSymbolicBounds(t *testing.T) {
	d, s := symbolic.Sym("d"), symbolic.Sym("s")
	bounds := []symbolic.Expr{s, s.Neg(), d, d.Sub(symbolic.Const(1)), d.Add(s), symbolic.Const(0), symbolic.Const(-1),
		symbolic.Const(3)}
	for _, step := range []int64{1, 2, -1, -3} {
		for _, start := range bounds {
			for _, end := range bounds {
				e := cut{0, start, end, step}.length(d)
				require.True(t, e.IsKnown(), "[%v:%v:%d]", start, end, step)
				for n := int64(1); n < 7; n++ {
					for m := int64(1); m < 9; m++ {
						env := symbolic.Env{"d": n, "s": m}
						from, _ := start.Eval(env)
						to, _ := end.Eval(env)
						got, err := e.Eval(env)
						require.NoError(t, err)
						require.Equal(t, sliced(n, from, to, step), got, "[%v:%v:%d] = %v with %v",
							start, end, step, e, env)
					}
				}
			}
		}
	}
}

// TestTruncDiv compares quotients with Go's, which also round to zero.
func TestTruncDiv(t *testing.T) {
	s := symbolic.Sym("s")
	for a := int64(-9); a <= 9; a++ {
		for y := int64(1); y < 6; y++ {
			e := truncDiv(s.Add(symbolic.Const(a)), symbolic.Const(y))
			for n := int64(1); n < 20; n++ {
				got, err := e.Eval(symbolic.Env{"s": n})
				require.NoError(t, err)
				require.Equal(t, (n+a)/y, got, "(%d%+d)/%d", n, a, y)
			}
		}
		for _, y := range []int64{-3, -1, 1, 4} {
			require.True(t, truncDiv(symbolic.Const(a), symbolic.Const(y)).IsConst(a/y), "%d/%d", a, y)
		}
	}
	assert.True(t, truncDiv(s, symbolic.Const(0)).IsUnknown())
	assert.ErrorIs(t, truncDiv(symbolic.Const(math.MinInt64), symbolic.Const(-1)).Err(), symbolic.ErrOverflow)
}

// TestCompare binds the symbols of expressions whose order is claimed.
func TestCompare(t *testing.T) {
	a, b := symbolic.Sym("a"), symbolic.Sym("b")
	exprs := []symbolic.Expr{a, b, a.Mul(b), a.Add(b), a.Sub(b), a.Neg(), symbolic.Const(0), symbolic.Const(1),
		symbolic.Const(3),
		a.Sub(symbolic.Const(1)), a.FloorDiv(symbolic.Const(2)), symbolic.Min(a, b), symbolic.Max(a, symbolic.Const(2))}
	holds := map[order]func(x, y int64) bool{
		less: func(x, y int64) bool { return x < y }, equal: func(x, y int64) bool { return x == y },
		greater: func(x, y int64) bool { return x > y }, atMost: func(x, y int64) bool { return x <= y },
		atLeast: func(x, y int64) bool { return x >= y }, unordered: func(int64, int64) bool { return true },
	}
	for _, x := range exprs {
		for _, y := range exprs {
			o := compare(x, y)
			for n := int64(1); n < 6; n++ {
				for m := int64(1); m < 6; m++ {
					env := symbolic.Env{"a": n, "b": m}
					xn, _ := x.Eval(env)
					yn, _ := y.Eval(env)
					require.True(t, holds[o](xn, yn), "compare(%v, %v) = %d with %v", x, y, o, env)
					lo, _ := smaller(x, y).Eval(env)
					hi, _ := larger(x, y).Eval(env)
					require.Equal(t, min(xn, yn), lo)
					require.Equal(t, max(xn, yn), hi)
				}
			}
		}
	}
	assert.Equal(t, atLeast, compare(a, symbolic.Const(1)))
	assert.Equal(t, unordered, compare(a, symbolic.Unknown()))
}

// TestFraction: the fraction that is found is one that rounds to the number.
func TestFraction(t *testing.T) {
	for _, c := range []struct {
		x        float64
		num, den int64
	}{{0.5, 1, 2}, {0.1, 1, 10}, {float64(float32(0.1)), 1, 10}, {2, 2, 1}, {-1.5, -3, 2}, {0, 0, 1},
		{float64(float32(1) / 3), 1, 3}} {
		num, den, ok := fraction(c.x, false)
		require.True(t, ok, "%v", c.x)
		assert.Equal(t, [2]int64{c.num, c.den}, [2]int64{num, den}, "%v", c.x)
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e30, 1e-30} {
		if num, den, ok := fraction(x, true); ok {
			t.Errorf("%v is %d/%d", x, num, den)
		}
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 10000 {
		x := float32(rnd.NormFloat64())
		if num, den, ok := fraction(float64(x), false); ok {
			require.Equal(t, x, float32(float64(num)/float64(den)), "seed %d", seed)
		}
	}
}
