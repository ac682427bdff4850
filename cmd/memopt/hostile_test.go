package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/symbolic"
)

// hostile is what a name may hold that a terminal acts on: a new line with a message of ours, an escape sequence, a
// change of the direction of reading, a byte of the C1 controls.
const hostile = "\nmemopt: fake\r\x1b[31m\u202e\u009b1m"

// writeHostile writes a forward model in which every name is hostile.
func writeHostile(t *testing.T, path string) {
	t.Helper()
	m, err := graph.Parse("<ir_version: 8, opset_import: [\"\" : 17]> "+strings.ReplaceAll(forwardModels["forward.onnx"], "'", `"`), "forward")
	require.NoError(t, err)
	rename := func(s graph.Shape) {
		for k, d := range s.Dims {
			if d.Identical(symbolic.Sym("batch")) {
				s.Dims[k] = symbolic.Sym("batch" + hostile)
			}
		}
	}
	for i := range m.Graph.Values {
		m.Graph.Values[i].Name += hostile
		rename(m.Graph.Values[i].Type.Shape)
	}
	for _, d := range slices.Concat(m.Graph.Inputs, m.Graph.Outputs) {
		rename(d.Type.Shape)
	}
	for i := range m.Graph.Nodes {
		m.Graph.Nodes[i].Name = "node" + strconv.Itoa(i) + hostile
	}
	m.Graph.Name, m.ProducerName = "graph"+hostile, "producer"+hostile
	require.NoError(t, onnx.WriteFile(path, m, onnx.Options{}))
}

// TestHostileNames: what comes from a model is shown and not acted on, in every report and message.
func TestHostileNames(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model.onnx")
	writeHostile(t, model)
	dim := "batch" + hostile + "=4"
	for _, args := range [][]string{
		{"inspect", model}, {"inspect", model, "--by", "node"}, {"inspect", model, "--dim", dim},
		{"plan", model}, {"plan", model, "--details", "--level", "1"}, {"plan", model, "--level", "1", "--dim", dim, "-v"}, {"plan", model, "--budget", "90%"},
		{"plan", model, "--budget", "1%", "--dim", dim}, {"plan", model, "--pareto", "3", "--dim", dim}, {"plan", model, "--dim", "batch\x1b=3"},
		{"grad", model, "-o", filepath.Join(dir, "step.onnx")}, {"grad", model, "-o", filepath.Join(dir, "step.onnx"), "--loss", "x" + hostile},
		{"apply", model, "--level", "1", "--dim", dim, "-o", filepath.Join(dir, "out.onnx")},
		{"run", model, "--init", "random:1", "--dim", dim, "--phases"}, {"run", model, "--init", "random:1"}, {"run", model, "--init", "random:1", "--dim", dim, "--mem-limit", "1"},
		{"verify", model, "--level", "1", "--init", "random:1", "--dim", dim},
		{"plan", filepath.Join(dir, "missing"+hostile)}, {"ops", "Op" + hostile}, {"verb" + hostile},
	} {
		for _, format := range []string{"table", "csv", "markdown"} {
			var out, messages bytes.Buffer
			run(append(args[:len(args):len(args)], "-O", format), stdio{nil, &out, &messages}, nil)
			require.NotEmpty(t, out.String()+messages.String(), "%q", args)
			for _, text := range []string{out.String(), messages.String()} {
				require.True(t, utf8.ValidString(text), "%q -O %s: %q", args, format, text)
				at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) })
				require.Equal(t, -1, at, "%q -O %s: %q", args, format, text[max(0, at-20):])
				require.NotContains(t, "\n"+text, "\nmemopt: fake", "%q -O %s", args, format)
			}
		}
	}
}
