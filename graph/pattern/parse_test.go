package pattern_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/pattern"
)

// TestPatternText: what is no pattern is a fault of the table, which says where.
func TestPatternText(t *testing.T) {
	for text, want := range map[string]string{
		"Mul(x, 2": `wanted ) at ""`, "Mul(x, 2))": `wanted the end at ")"`, "Moul(x)": "wanted an operator, not Moul",
		"{Neg(x)": `wanted } at ""`, "Neg": `wanted ( at ""`, "Mul(, x)": `wanted a name or a number at ",x)"`,
	} {
		func() {
			defer func() { require.Contains(t, recover(), want) }()
			pattern.Parse(text)
		}()
	}
}
