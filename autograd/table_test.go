package autograd

import (
	"testing"

	"memopt/graph/op"
)

// TestComplete: every operator has a rule, an expansion, or a reason why it has none.
func TestComplete(t *testing.T) {
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		row := Of(k)
		if row.Rule == nil && row.Expand == nil && row.None == "" && row.Why == "" {
			t.Errorf("op %s: no gradient rule: add a row to autograd/rules_*.go, or say why there is none",
				op.Of(k).Name)
		}
	}
}
