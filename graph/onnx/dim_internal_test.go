package onnx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"memopt/symbolic"
)

func TestParseDim(t *testing.T) {
	sym := symbolic.Sym
	for text, want := range map[string]symbolic.Expr{
		"":                  symbolic.Unknown(),
		"batch":             sym("batch"),
		"input-0_dim0":      sym("input-0_dim0"),
		"seq-len":           sym("seq-len"),
		"a/b":               sym("a/b"),
		"batch size":        sym("batch size"),
		"16*batch":          sym("batch").Mul(symbolic.Const(16)),
		"s0 + 1":            sym("s0").Add(symbolic.Const(1)),
		"floor(n/2)":        sym("n").FloorDiv(symbolic.Const(2)),
		"(a + b)*c":         sym("a").Add(sym("b")).Mul(sym("c")),
		"n (rows)":          sym("n (rows)"),
		"1 - 5":             sym("1 - 5"), // no dim is negative
		"2*3":               symbolic.Const(6),
		"2*?":               sym("2*?"),
		"7":                 sym("7"),
		"16*`input-0_dim0`": sym("input-0_dim0").Mul(symbolic.Const(16)),
	} {
		got := parseDim(text)
		assert.True(t, got.Identical(want), "%q: got %v, wanted %v", text, got, want)
		if got.IsKnown() && text != "2*3" {
			assert.True(t, parseDim(dimText(got)).Identical(got), "%q does not survive as %q", text, dimText(got))
		}
	}
}

// TestParseDimIsBounded: hostile texts stay names or cost no more than an honest formula. What they
// allocate is counted, since that grows with the terms that are multiplied out and, unlike time, is
// the same on a busy machine.
func TestParseDimIsBounded(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("(a+b+c+d+1)*", 19) + "1",
		"(a+b+c+d+e+f)**40*2",
		strings.Repeat("(a+b)*", 8) + "c",
		strings.Repeat("Max(a,b)*", 28) + "1",
		strings.Repeat("x*", 5000) + "1",
	} {
		assert.Less(t, testing.AllocsPerRun(1, func() { parseDim(text) }), 2_000., "%.40q", text)
	}
}
