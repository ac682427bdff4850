package cpu

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
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

// TestATenComplete: every function of PyTorch whose types are inferred has a kernel, or a reason why it has none, and
// every kernel a case.
func TestATenComplete(t *testing.T) {
	cases := map[string]bool{}
	for _, c := range kerneltest.All() {
		if c.Kind == op.ATen && c.Fails == "" {
			cases[op.ATenFunction(&graph.Node{Attrs: c.Attrs})] = true
		}
	}
	names := op.ATenFunctions(true)
	require.Equal(t, names, slices.Sorted(maps.Keys(atenTable)))
	for _, name := range names {
		if why := atenTable[name].why; (why == "") != cases[name] {
			t.Errorf("%s: a case of a kernel: %v; there is no kernel for the reason %q", name, cases[name], why)
		}
	}
}
