package kerneltest_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor/cpu"
	"memopt/executor/cuda"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// cases are the conformance cases.
var cases = kerneltest.All

// TestOracles: whatever has a kernel says what holds its cases, and has a reason where that is
// nothing but this repository's own code; a reason is gone when something else holds them.
func TestOracles(t *testing.T) {
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		row, name := kerneltest.OracleOf(k), op.Of(k).Name
		switch kernel := cpu.Of(k).New != nil || cuda.Of(k).New != nil; {
		case !kernel && row != (kerneltest.OracleRow{}):
			t.Errorf("op %s: has no kernel, and a row in internal/test/kerneltest/oracle_table.go: remove it", name)
		case kernel && row.By == 0:
			t.Errorf("op %s: no oracle: say in internal/test/kerneltest/oracle_table.go what holds its cases", name)
		case kernel && row.By&kerneltest.Outside == 0 && row.Why == "":
			t.Errorf("op %s: only internal/test/kerneltest's own code holds its cases: find an oracle outside, "+
				"or say in oracle_table.go why there is none", name)
		case kernel && row.By&kerneltest.Outside != 0 && row.Why != "":
			t.Errorf("op %s: the reason %q is idle: something from outside holds its cases", name, row.Why)
		}
	}
}

// TestEveryOutputIsWanted: a case that succeeds wants all of its outputs, with their types.
func TestEveryOutputIsWanted(t *testing.T) {
	for _, c := range cases() {
		if c.Fails != "" {
			require.Empty(t, c.Want, "%s fails, and wants outputs", c.Label())
			continue
		}
		require.Len(t, c.Want, len(c.Out), c.Label())
		for i, d := range c.Out {
			require.Equal(t, d != graph.Undefined, c.Want[i] != nil, "%s: output %d", c.Label(), i)
			if c.Want[i] != nil {
				require.Equal(t, d, c.Want[i].DType, "%s: output %d", c.Label(), i)
			}
		}
	}
}

// TestEveryOperatorIsHeldBySuccess: cases that fail alone hold a kernel to no result.
func TestEveryOperatorIsHeldBySuccess(t *testing.T) {
	var wanted [op.NumKinds]bool
	for _, c := range cases() {
		wanted[c.Kind] = wanted[c.Kind] || c.Fails == ""
	}
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		require.Equal(t, kerneltest.OracleOf(k).By&^kerneltest.Groups != 0, wanted[k], op.Of(k).Name)
	}
}

// TestIndependent: what the cases want is computed by this package alone, by nothing that kernels
// are made of. The exceptions are tensors, the numbers of 16 bits and fewer, which internal/half and
// executor/small test for themselves, and the packages that the interpreter needs.
func TestIndependent(t *testing.T) {
	allowed := []string{"memopt/executor", "memopt/internal/half", "memopt/executor/small", "memopt/executor/dataset",
		"memopt/graph", "memopt/graph/op"}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			require.NoError(t, err)
			if strings.HasPrefix(path, "memopt/") {
				require.True(t, slices.Contains(allowed, path), "%s imports %s", name, path)
			}
		}
	}
}
