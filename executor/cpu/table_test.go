package cpu

import (
	"testing"

	"memopt/executor"
	"memopt/graph/op"
)

// TestComplete: every operator has a kernel, or a reason why it has none.
func TestComplete(t *testing.T) {
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		info, row := op.Of(k), Of(k)
		if executor.RunsItself(k) {
			if row.New != nil || row.Why != "" {
				t.Errorf("op %s: has a row, and is run by the session", info.Name)
			}
			continue
		}
		if row.New == nil && row.Why == "" {
			t.Errorf("op %s: no CPU kernel: add a row to executor/cpu/table_*.go, or mark it unsupported with a reason",
				info.Name)
		}
	}
}
