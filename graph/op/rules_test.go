package op_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestMathAndShapeRules runs testdata/math/*.txt and testdata/shape/*.txt, written as
// those of TestRules are.
func TestMathAndShapeRules(t *testing.T) {
	for _, dir := range []string{"testdata/math", "testdata/shape"} {
		datadriven.Walk(t, dir, func(t *testing.T, path string) {
			datadriven.RunTest(t, path, inferText)
		})
	}
}
