package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/internal/test/graphtest"
)

// oneTotalModels are the samples that are always tried: norms with statistics, control flow, and no loss.
var oneTotalModels = []string{"cnn_bn_tiny", "gru_tiny", "mlp_tiny_logits"}

// stepFlagsOfAll are flags with which every verb is about the same step.
const stepFlagsOfAll = "--outputs loss --optimizer adamw --reserve 0 -q -O json"

// TestOneTotal: plan, estimate and explain say the same number of bytes of a step, to the byte, and fit says that
// exactly this size fits into them, and not into a byte less (docs/step.md).
func TestOneTotal(t *testing.T) {
	type step struct{ model, dims string }
	steps := []step{{"forward.onnx", ""}}
	for _, s := range graphtest.Tiny.Files(t) {
		if !slices.Contains(oneTotalModels, s.Name) && os.Getenv("MEMOPT_TESTS") != "all" {
			continue
		}
		file, err := filepath.Abs(s.File)
		require.NoError(t, err)
		steps = append(steps, step{file, map[bool]string{true: ",seq=8"}[hasSymbol(t, file, "seq")]})
	}
	exitFolder(t)
	for _, s := range steps {
		if !hasSymbol(t, s.model, "batch") {
			continue
		}
		for i, device := range []string{"", " --device cpu"} {
			if i > 0 && s.model != "forward.onnx" && os.Getenv("MEMOPT_TESTS") != "all" {
				continue
			}
			flags := fmt.Sprintf(" %s --dim batch=2%s %s%s", s.model, s.dims, stepFlagsOfAll, device)
			total := totalOf(t, "plan"+flags)
			require.Equal(t, total, totalOf(t, "estimate"+flags), flags)
			require.Equal(t, total, totalOf(t, "explain"+flags+" --top 1"), flags)
			fit := fmt.Sprintf("fit %s --dim batch=1..2%s --vary batch --effort 0 %s%s --gpu ", s.model, s.dims,
				stepFlagsOfAll, device)
			require.Equal(t, int64(2), largestOf(t, fit+fmt.Sprint(total)), fit)
			require.Less(t, largestOf(t, fit+fmt.Sprint(total-1)), int64(2), fit)
		}
	}
}

// hasSymbol reports whether a model has a symbol.
func hasSymbol(t *testing.T, model, symbol string) bool {
	t.Helper()
	m, err := load.Open(model, nil, memopt.Options{})
	require.NoError(t, err)
	defer m.Close()
	return slices.Contains(m.Symbols(), symbol)
}

// totalOf is the total_bytes that a line prints.
func totalOf(t *testing.T, line string) int64 {
	t.Helper()
	got := inProcess(t.Context(), nil, line)
	require.Zero(t, got.code, "%s\n%s", line, got.errors)
	var r struct {
		Total int64            `json:"total_bytes"`
		Parts map[string]int64 `json:"parts"`
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &r), line)
	if sum := int64(0); r.Parts != nil {
		for _, n := range r.Parts {
			sum += n
		}
		require.Equal(t, r.Total, sum, "the parts add up")
	}
	return r.Total
}

// largestOf is the largest size without a plan that a line prints; 0: none fits.
func largestOf(t *testing.T, line string) int64 {
	t.Helper()
	got := inProcess(t.Context(), nil, line)
	require.Contains(t, []int{0, cli.ExitInfeasible}, got.code, "%s\n%s", line, got.errors)
	var r struct {
		Largest struct {
			Plain int64 `json:"plain"`
		} `json:"largest"`
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &r), line)
	return r.Largest.Plain
}
