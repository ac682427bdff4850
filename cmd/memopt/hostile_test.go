package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/graph"
	"memopt/graph/onnx"
	"memopt/symbolic"
)

// hostile is what a name may hold that a terminal acts on: a new line with a message of ours, an
// escape sequence, a change of the direction of reading, a byte of the C1 controls.
const hostile = "\nmemopt: fake\r\x1b[31m\u202e\u009b1m"

// writeHostile writes a forward model in which every name is hostile.
func writeHostile(t *testing.T, path string) {
	t.Helper()
	m, err := graph.Parse("<ir_version: 8, opset_import: [\"\" : 17]> "+
		strings.ReplaceAll(forwardModels["forward.onnx"], "'", `"`), "forward")
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
	data, saved, buffers, instance, config := filepath.Join(dir, "data"+hostile), filepath.Join(dir, "saved"+hostile),
		filepath.Join(dir, "b.csv"), filepath.Join(dir, "i.json"), filepath.Join(dir, "config"+hostile+".json")
	require.NoError(t, os.Mkdir(data, 0o755))
	for file, text := range map[string]string{config: `{"` + "a\u001b\u202e\u009b" + `": "` + hostile + `"}`,
		filepath.Join(data, "input_0.pb"): "x" + hostile, buffers: "id,lower,upper,size\n\"a" + hostile + "\",0,2,8\n",
		instance: `{"name": "i\u001b\u202e\u009b\n", "budget": 1, "nodes": [{"id": 0, "cost": 1, "size": 2, "inputs": []}]}`} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	for _, args := range [][]string{
		{"inspect", model}, {"inspect", model, "--text"}, {"inspect", model, "--by", "layer", "-v"},
		{"inspect", model, "--by", "category"}, {"inspect", model, "--by", "node"}, {"inspect", model, "--dim", dim},
		{"plan", model}, {"plan", model, "--details", "--level", "1"},
		{"plan", model, "--level", "1", "--dim", dim, "-v"}, {"plan", model, "--budget", "90%"},
		{"plan", model, "--budget", "1%", "--dim", dim}, {"plan", model, "--pareto", "3", "--dim", dim},
		{"plan", model, "--dim", "batch\x1b=3"},
		{"grad", model, "-o", filepath.Join(dir, "step.onnx")},
		{"grad", model, "-o", filepath.Join(dir, "step.onnx"), "--loss", "x" + hostile},
		{"apply", model, "--level", "1", "--dim", dim, "-o", filepath.Join(dir, "out.onnx")},
		{"run", model, "--init", "random:1", "--dim", dim, "--phases"}, {"run", model, "--init", "random:1"},
		{"run", model, "--init", "random:1", "--dim", dim, "--mem-limit", "1"},
		{"verify", model, "--level", "1", "--init", "random:1", "--dim", dim},
		{"verify", model, model, "--init", "random:1", "--dim", dim}, {"verify", model, model, "--init", "random:1"},
		{"run", model, "--data-dir", data}, {"run", model, "-e", "null", "--dim", dim, "-v"},
		{"plan", model, "--config", config}, {"plan", model, "--plan", config}, {"plan", model, "--cost", config},
		{"plan", model, "--device", config}, {"plan", model, "--aliases", config},
		{"plan", model, "--config", "Op" + hostile + "+:1:-1"}, {"plan", model, "--device", hostile},
		{"plan", model, "--level", hostile}, {"plan", model, "--order", hostile},
		{"plan", model, "--budget", hostile}, {"plan", model, "--budget-for", hostile + "=1"},
		{"plan", model, "-O" + hostile}, {"plan", model, "--no" + hostile}, {"plan", model, hostile},
		{"plan", model, "--save-plan", filepath.Join(dir, "no"+hostile, "such")}, {"run", model, "--init", hostile},
		{"run", model, "--mem-limit", hostile}, {"run", model, "-e", "dev" + hostile},
		{"run", model, "--init", "random:1", "--dim", dim, "--save-outputs", saved}, {"solve", config, "-o", "-"},
		{"pack", config, "-o", "-"}, {"pack", buffers, "-o", saved + ".csv", "--capacity", "1"},
		{"solve", instance, "-o", saved + ".json"}, {"help", "topic" + hostile}, {"help", "plan" + hostile},
		{"completion", hostile}, {"examples", hostile}, {"version", hostile},
		{"plan", filepath.Join(dir, "missing"+hostile)}, {"ops", "Op" + hostile}, {"verb" + hostile},
	} {
		for _, format := range []string{"table", "csv", "markdown", "json"} {
			var out, messages bytes.Buffer
			code := run(append(args[:len(args):len(args)], "-O", format), cli.Stdio{In: nil, Out: &out, Err: &messages},
				nil)
			require.NotEmpty(t, out.String()+messages.String(), "%q", args)
			for _, text := range []string{out.String(), messages.String()} {
				require.True(t, utf8.ValidString(text), "%q -O %s: %q", args, format, text)
				at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) })
				require.Equal(t, -1, at, "%q -O %s: %q", args, format, text[max(0, at-20):])
				require.NotContains(t, "\n"+text, "\nmemopt: fake", "%q -O %s", args, format)
			}
			if code == 0 && format == "json" && !slices.Contains(args, "--text") && args[0] != "help" &&
				args[0] != "completion" {
				require.True(t, json.Valid(out.Bytes()), "%q: %s", args, &out)
			}
		}
	}
}
