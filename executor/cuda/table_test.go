package cuda

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph/op"
)

// trainingOperators are names with their domains, "com.microsoft.GeluGrad" for example.
//
//go:embed testdata/training.txt
var trainingOperators string

// TestTrainingOperators: no row says that training graphs do not hold an operator that one holds.
func TestTrainingOperators(t *testing.T) {
	reasons := []string{notTrained, noGradient, ofIntegers, forInference}
	n := 0
	for line := range strings.Lines(trainingOperators) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, full := range strings.Fields(line) {
			domain, name := "", full
			if at := strings.LastIndexByte(full, '.'); at >= 0 {
				domain, name = full[:at], full[at+1:]
			}
			k := op.Lookup(domain, name)
			require.NotEqual(t, op.Unknown, k, full)
			require.False(t, slices.Contains(reasons, OnHost(k)), full)
			n++
		}
	}
	require.Greater(t, n, 100)
	for k := range op.NumKinds {
		if slices.Contains(reasons, OnHost(k)) {
			n = -1
		}
	}
	require.Negative(t, n, "no row has one of the reasons")
}
