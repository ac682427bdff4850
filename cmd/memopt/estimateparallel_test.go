package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
)

// annotatedText has two stages; the first node's annotation stands for %s.
const annotatedText = `<ir_version: 11, opset_import: ["": 17], configuration: ["grid" : 4 []]>
annotated (float[8, 16] x, int64[8] labels, float[16, 32] w1, float[32, 4] w2) => (float loss) {
  <device_configurations: [%s]> [one] h = MatMul (x, w1)
  <device_configurations: ["grid" @ 0 []]> [act] a = Relu (h)
  <device_configurations: ["grid" @ 1 []]> [two] y = MatMul (a, w2)
  <device_configurations: ["grid" @ 1 []]> [loss] loss = SoftmaxCrossEntropyLoss (y, labels)
}`

// TestAnnotatedModels: the file's stages and shardings count; those that contradict the format end
// with 6, those that contradict the flags as well, and other verbs do not mind.
func TestAnnotatedModels(t *testing.T) {
	t.Chdir(t.TempDir())
	columns := `"grid" @ 0 ["w1" [0, 1] {} [1: [? : 2]], "h" [0, 1] {} [1: [? : 2]]]`
	for _, c := range []struct {
		devices, flags string
		code           int
		says           string
	}{
		{columns, "--pp 2", 0, "the file's pipeline stages (IR version 11)"},
		{columns, "--tp 2", 0, "sharded by the file"},
		{columns, "--tp 2 --pp 2 -v", 0, "no annotation shards it"},
		{columns, "--tp 4", 6, `node "one" (MatMul): sharding of "w1": 2 shards, and --tp is 4`},
		{columns, "--pp 3", 2, "2 pipeline stages"},
		{`"grod" @ 0 []`, "--tp 2", 6, `configuration_id is "grod"`},
		{`"grid" @ 0 ["w9" [0] {} []]`, "--tp 2", 6, `sharding of "w9": the node has no operand of that name`},
		{`"grid" @ 0 ["w1" [0, 1] {} [3: [? : 2]]]`, "--tp 2", 6, "axis 3; the tensor has rank 2"},
		{`"grid" @ 0 ["w1" [9] {} [1: [? : 2]]]`, "--tp 2", 6, "device 9"},
		{`"grid" @ 0 ["w1" [0, 1] {} [1: [? : 99]]]`, "--tp 2", 6, "99 shards of a dim of 32"},
		{`"grid" @ -1 []`, "--pp 2", 6, "pipeline_stage is -1"},
	} {
		m, err := graph.Parse(fmt.Sprintf(annotatedText, c.devices), "annotated")
		require.NoError(t, err)
		require.NoError(t, onnx.WriteFile("annotated.onnx", m, onnx.Options{}))
		got := inProcess(t.Context(), nil, "estimate annotated.onnx "+c.flags)
		assert.Equal(t, c.code, got.code, "%s %s: %s", c.devices, c.flags, got.errors)
		text := strings.Join(strings.Fields(got.out+got.errors), " ")
		assert.Contains(t, text, c.says, "%s %s", c.devices, c.flags)
		assert.Zero(t, inProcess(t.Context(), nil, "grad annotated.onnx -o step.onnx").code)
		assert.Zero(t, inProcess(t.Context(), nil, "plan step.onnx --level 1").code)
		require.NoError(t, os.Remove("step.onnx"))
	}
}
