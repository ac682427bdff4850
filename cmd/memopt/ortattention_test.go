//go:build linux && (amd64 || arm64) && !nodl

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/executor/ort"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/internal/test/graphtest"
)

// attentionVariable says how many nets of attention that a plan changes TestORTAttention runs.
const attentionVariable = "MEMOPT_ORT_NETS"

// attentionSelections are the plans of one net after the other.
var attentionSelections = [][]string{
	{"--level", "1"},
	{"--level", "2"},
	{"--chunk", "off", "--budget", "90%", "--time-limit", "1s"},
	{"--optimizer", "sgd", "--level", "1"},
	{"--budget", "85%", "--time-limit", "1s"},
	{"--config", "clusters.json"},
}

// TestORTAttention holds the files that apply writes for nets of attention of fixed shapes, where
// stock ONNX Runtime fuses most, to the graphs as they are, at every level of optimization.
func TestORTAttention(t *testing.T) {
	needORT(t)
	library, err := ort.Open(ort.Candidates(os.Getenv))
	require.NoError(t, err)
	nets := 4
	if n, err := strconv.Atoi(os.Getenv(attentionVariable)); err == nil {
		nets = n
	}
	changed := 0
	for seed := 0; changed < nets && seed < 2*nets; seed++ {
		selection := slices.Clone(attentionSelections[seed%len(attentionSelections)])
		t.Run(fmt.Sprintf("%d %v", seed, selection), func(t *testing.T) {
			text := graphtest.Attention(rand.New(rand.NewPCG(uint64(seed), 4)))
			m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> `+text, "attention")
			require.NoError(t, err)
			model := filepath.Join(t.TempDir(), "model.onnx")
			require.NoError(t, onnx.WriteFile(model, m, onnx.Options{}))
			if selection[0] == "--config" {
				selection[1] = filepath.Join(filepath.Dir(model), selection[1])
				require.Zero(t, run([]string{"plan", "-q", model, "--level", "2", "--save-config", selection[1]},
					cli.Stdio{In: nil, Out: io.Discard, Err: os.Stderr}, os.Environ()))
			}
			if ortPlanned(t, library, model, "", selection) {
				changed++
			}
		})
	}
	require.Equal(t, nets, changed, "nets that a plan changes")
}
