package onnx

import (
	"strings"

	"memopt/symbolic"
)

// ONNX knows numbers and names as dims. Exporters that know more write formulas as
// names: ORTModule's "16*batch", PyTorch's "s0 + 1", both in sympy's notation.
// Read as formulas, they need no binding of their own and compare with others.

// parseDim returns the formula that a dim_param spells, or else the symbol of that
// name. Only texts that no exporter uses for plain names count as formulas: "a-b" and
// "a/b" are names, "a - b" and "a*b" are formulas.
func parseDim(text string) symbolic.Expr {
	if looksFormula(text) {
		if e, err := symbolic.Parse(text); err == nil && e.IsKnown() {
			if c, ok := e.Const(); !ok || c >= 0 {
				return e
			}
		}
	}
	return symbolic.Sym(text)
}

// Formulas beyond these bounds stay names, so that a hostile file cannot keep its reader busy
// multiplying out polynomials.
const (
	maxFormulaBytes = 256
	maxFormulaTerms = 512
)

func looksFormula(text string) bool {
	if len(text) > maxFormulaBytes || strings.Contains(text, ")**") {
		return false
	}
	terms := 1
	for part := range strings.SplitSeq(text, "(") {
		terms *= 1 + strings.Count(part, "+") + strings.Count(part, "-")
		if terms > maxFormulaTerms {
			return false
		}
	}
	for _, mark := range []string{"*", "(", " + ", " - ", "//"} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}

// dimText is the inverse of parseDim for known expressions.
func dimText(e symbolic.Expr) string {
	if names := e.Symbols(); len(names) == 1 && e.Identical(symbolic.Sym(names[0])) {
		return names[0]
	}
	return e.String()
}
