package graph_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"memopt/graph"
)

func TestLayerOf(t *testing.T) {
	for name, want := range map[string]string{
		"/transformer/h.0/attn/Softmax":        "/transformer/h.0",
		"/transformer/h.11/mlp/c_fc/MatMul":    "/transformer/h.11",
		"/model/layers.3/self_attn/Add_2":      "/model/layers.3",
		"/blocks_7/Conv":                       "/blocks_7",
		"Softmax_12":                           "(other)",
		"/lm_head/MatMul":                      "/lm_head",
		"":                                     "(other)",
		"/Softmax":                             "(other)",
		"/transformer/h.0/attn/Softmax_Grad/x": "/transformer/h.0",
	} {
		assert.Equal(t, want, graph.LayerOf(name), name)
	}
}
