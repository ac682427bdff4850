package main

import (
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/view/report"
)

// widthLines are command lines of all verbs that print tables or prose for people; those of which
// the output is made for programs to read, or for shells, are left out.
var widthLines = []string{
	"plan example:transformer",
	"plan example:transformer --details",
	"plan example:cnn --dim batch=8 --level 1 --details",
	"plan example:mlp --dim batch=64 --budget 97% --time-limit 0",
	"plan example:cnn --dim batch=4 --budget 1% --time-limit 0",
	"plan example:cnn --dim batch=4 --pareto 3 --time-limit 0.3",
	"plan forward.onnx",
	"plan odd.onnx",
	"inspect example:transformer",
	"inspect example:transformer --by node",
	"inspect example:transformer --by layer",
	"inspect example:transformer --by category",
	"inspect forward.onnx",
	"inspect odd.onnx --by node",
	"plan hostile.onnx",
	"inspect hostile.onnx --by node",
	"apply example:mlp --dim batch=64 --level 1 -o out.onnx",
	"grad forward.onnx -o train.onnx",
	"run forward.onnx --dim batch=4 --init random:1 --phases",
	"run odd.onnx --init random:1",
	"verify forward.onnx --dim batch=4 --level 1 --init random:1 -r 2",
	"verify forward.onnx other.onnx --dim batch=4 --init random:1",
	"pack buffers.csv -o offsets.csv --capacity 16",
	"solve chain.json -o schedule.json",
	"ops", "ops Softmax", "ops If", "ops GridSample", "examples", "devices", "version",
	"estimate example:transformer",
	"diff example:cnn example:mlp --dim batch=64 --level 1",
	"fit example:mlp --gpu 1GiB --vary batch",
	"optimize forward.onnx -o optimized.onnx",
	"quantize linear.onnx -o quantized.onnx",
	"doctor", "config show", "sweep grid.json -o swept",
}

// oddStep is a training step with names that are long, wide, and would steer a terminal.
const oddStep = `<ir_version: 8, opset_import: ["" : 17]> step (float[4, 4] '層のとても長い名前/入力の値/それからもっと長い名前') => (float loss, float[4, 4] g) {
	[n1] '層/とても/長い/活性化/の/名前/がここに/あります/そして/まだ/続き/ます' = Mul('層のとても長い名前/入力の値/それからもっと長い名前', '層のとても長い名前/入力の値/それからもっと長い名前')
	['a node with a very long name that has blanks in it, and no end that would be in sight at all'] loss = ReduceMean<keepdims = 0>('層/とても/長い/活性化/の/名前/がここに/あります/そして/まだ/続き/ます')
	[back] g = Mul('層/とても/長い/活性化/の/名前/がここに/あります/そして/まだ/続き/ます', '層のとても長い名前/入力の値/それからもっと長い名前') }`

// TestWidth: what verbs print for people where standard output is no terminal is at most 80 columns
// wide, whatever names a model has; -w does not cut.
func TestWidth(t *testing.T) {
	exitFolder(t)
	writeText(t, "odd.onnx", strings.ReplaceAll(oddStep, "'", `"`))
	writeHostile(t, "hostile.onnx")
	writeGrid(t, sweepGrid)
	writeText(t, "linear.onnx", `<ir_version: 8, opset_import: ["" : 17]>
		m (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { y = MatMul (x, w) }`)
	for _, line := range widthLines {
		got := inProcess(t.Context(), nil, line+" -q")
		require.Contains(t, []int{0, 3, 4}, got.code, "%s: %s", line, got.errors)
		require.NotEmpty(t, got.out, line)
		for text := range strings.Lines(got.out) {
			if line == "doctor" && strings.HasPrefix(strings.TrimSpace(text), "/") &&
				!strings.Contains(strings.TrimSpace(text), " ") {
				continue // the path of a library, to be copied
			}
			assert.LessOrEqual(t, uniseg.StringWidth(strings.TrimSuffix(text, "\n")), report.DefaultColumns,
				"memopt %s prints %q", line, text)
		}
	}
	for _, flag := range []string{"-w", "-v"} {
		require.Contains(t, inProcess(t.Context(), nil, "plan odd.onnx -q "+flag).out,
			"層/とても/長い/活性化/の/名前/がここに/あります/そして/まだ/続き/ます")
	}
}
