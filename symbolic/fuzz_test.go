package symbolic_test

import (
	"testing"

	"memopt/symbolic"
)

// Whatever the text, Parse ends soon without a panic, and what it read prints as a text that
// reads the same, and prints and computes without a panic.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"batch*seq**2 + 1", "1 - x", "floor(x/2 + 1/3)", "ceiling((a + b)/(2*c))", "Mod(x, 3)%2",
		"Max(a, Min(b, 3), `x y`)", "-9223372036854775808*x - 9223372036854775808", "((a+b)**9)**9",
		"?*0", "x/y*y", "a//0", "1/(0*x)", "- - +-a**2**2", "`a``b`", "(a+b+c+d+e)**20", "Max(a)",
		"floor(floor(a/3)/2)", "floor(Mod(a, 3)/3)", "x**1000*y**25", "Max(a,b)**3//Max(b,a)",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := symbolic.Parse(text)
		if err != nil {
			return
		}
		printed := e.String()
		back, err := symbolic.Parse(printed)
		if err != nil {
			t.Fatalf("Parse(%q) = %q, which fails: %v", text, printed, err)
		}
		if !back.Identical(e) {
			t.Fatalf("Parse(%q) = %q, which reads as %q", text, printed, back)
		}
		if again := back.String(); again != printed {
			t.Fatalf("%q prints as %q the second time", printed, again)
		}
		exercise(e)
	})
}

// exercise calls what should never panic.
func exercise(e symbolic.Expr) {
	_ = e.FloatString(-3, 7)
	_, _, _, _ = e.Bounds(nil)
	_ = symbolic.Compare(e, symbolic.Const(1), symbolic.Bounds{"a": {Lo: 0, Hi: 9}})
	env := symbolic.Env{}
	for i, name := range e.Symbols() {
		env[name] = int64(i)*7 - 3
	}
	_, _ = e.Eval(env)
	_ = e.Bind(env)
}
