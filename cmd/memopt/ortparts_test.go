package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/graph"
	"memopt/graph/onnx"
)

// ortParts are forward models whose budgets need regions in several parts: two run side by side at no
// cost in the runtime, so that anchors between them save nothing.
var ortParts = []struct {
	name, dims, mode, budget string
	nodes                    func(b *modelText)
	inputs                   string
}{
	{"head", "batch=1024", "fast", "40%", headText, "float[batch, 64] x, int64[batch] labels"},
	{"attention", "batch=1,seq=512", "fast", "22%", attentionText, "float[batch, seq, 64] x, int64[rows] labels"},
	{"queries", "batch=1,seq=1536", "exact", "27%", attentionText, "float[batch, seq, 64] x, int64[rows] labels"},
}

func headText(b *modelText) {
	b.weight("float[64, 64] w, float[64, 8192] head")
	b.node("h = MatMul(x, w)  r = Tanh(h)  l = MatMul(r, head)  loss = SoftmaxCrossEntropyLoss(l, labels)")
}

// TestORTParts holds graphs with regions in parts to the runtime's own figures: the simulated peaks
// as TestORTPeaks does, at least 85 % of what memopt's own arena saves, and less than without
// anchors, with which parts would run side by side.
func TestORTParts(t *testing.T) {
	needORT(t)
	for _, f := range ortParts {
		t.Run(f.name, func(t *testing.T) {
			args := familyArgs(t, f.name, f.inputs, f.dims, f.nodes, nil)
			args = append(args, "--plan", savedPlan(t, args, "--chunk", f.mode, "--budget", f.budget, "--effort", "1",
				"--time-limit", "2m"))
			exact, chunks := ortPeaks(t, append(args, "--ort-arena", "exact")), ortPeaks(t, args)
			for i, side := range []string{"baseline", "planned"} {
				require.InEpsilon(t, exact[i].Predicted, exact[i].Measured, 0.03, "%s, live", side)
				require.LessOrEqual(t, chunks[i].Measured, 1.15*chunks[i].Arena, "%s, arena", side)
			}
			require.GreaterOrEqual(t, chunks[0].Measured-chunks[1].Measured,
				0.85*(chunks[0].Arena-chunks[1].Arena), "of the predicted saving")
			bare := filepath.Join(t.TempDir(), "bare.onnx")
			saved := applyWithoutAnchors(t, args, bare)
			requireParts(t, bare)
			require.GreaterOrEqual(t, exact[0].Measured-exact[1].Measured, 0.85*saved, "of memopt's own saving")
			without := ortPeaks(t, append(withFile(args, bare), "--ort-arena", "exact"))
			require.Greater(t, without[1].Measured, 1.05*exact[1].Measured, "without anchors")
		})
	}
}

// savedPlan makes one plan for all runs of a test: the time limit only ends what would hang, so that a loaded machine
// finds the same plan. It returns the plan's file.
func savedPlan(t *testing.T, args []string, selection ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plan.json")
	plan := append(unexecuted(args, "plan", args[1], "--save-plan", path), selection...)
	require.Zero(t, run(plan, cli.Stdio{In: nil, Out: &bytes.Buffer{}, Err: os.Stderr}, os.Environ()), "%v", plan)
	return path
}

// unexecuted appends the flags of verify that do not execute to those of another verb.
func unexecuted(args []string, verb ...string) []string {
	for i := 2; i < len(args); i++ {
		switch args[i] {
		case "--init", "-e", "--threads":
			i++
		default:
			verb = append(verb, args[i])
		}
	}
	return verb
}

// withFile has verify hold a file to a model, in place of a selection.
func withFile(args []string, file string) []string {
	out := []string{args[0], args[1], file}
	for i := 2; i < len(args); i++ {
		switch args[i] {
		case "--plan":
			i++
		default:
			out = append(out, args[i])
		}
	}
	return out
}

// applyWithoutAnchors writes what verify verifies, without anchors, and returns by how much memopt's
// own peak falls.
func applyWithoutAnchors(t *testing.T, args []string, out string) (saved float64) {
	t.Helper()
	apply := unexecuted(args, "apply", args[1], "--anchor", "off", "-o", out)
	var text bytes.Buffer
	require.Zero(t, run(apply, cli.Stdio{In: nil, Out: &text, Err: os.Stderr}, os.Environ()), "%v", apply)
	var report struct {
		Peak struct {
			Baseline float64 `json:"baseline_bytes"`
			Planned  float64 `json:"planned_bytes"`
		}
	}
	require.NoError(t, json.Unmarshal(text.Bytes(), &report))
	t.Logf("memopt: baseline %.0f, planned %.0f", report.Peak.Baseline, report.Peak.Planned)
	return report.Peak.Baseline - report.Peak.Planned
}

// requireParts checks that nodes of a file compute parts of what others did.
func requireParts(t *testing.T, path string) {
	t.Helper()
	m, file, err := onnx.Open(path)
	require.NoError(t, err)
	defer file.Close()
	require.True(t, slices.ContainsFunc(m.Graph.Nodes, func(n *graph.Node) bool {
		return strings.HasSuffix(n.Name, "_part1")
	}), "no region is in parts")
}
