package onnx_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
)

// unreadable is a source of contents that cannot be read.
type unreadable struct{}

func (unreadable) Bytes() ([]byte, error) { return nil, io.EOF }

// contentsModel has tensors wherever a model can have some.
const contentsModel = `<ir_version: 8, opset_import: ["" : 17]>
contents (bool c, float[2] x) => (float[2] y)
<float[2] w = {1, 2}, float[2] frozen = {3, 4}>
{
   k = Constant <value = float[2] {5, 6}> ()
   z = If (c) <
      then_branch = then () => (float[2] a) <float[2] inner = {7, 8}> { a = Add (w, inner) },
      else_branch = else () => (float[2] b) { b = Add (frozen, k) }>
   y = Mul (z, x)
}`

// TestContents: the hash tells every tensor's contents apart but those of what is skipped, whatever
// the order of initializers, and knows nothing of names of nodes.
func TestContents(t *testing.T) {
	skip := func(name string) bool { return name == "w" }
	of := func(text string) string {
		m, err := graph.Parse(text, "contents")
		require.NoError(t, err)
		got, err := onnx.ContentsSHA256(m, skip)
		require.NoError(t, err)
		return got
	}
	base := of(contentsModel)
	require.Len(t, base, 64)
	for old, changed := range map[string]string{
		"{3, 4}": "{3, 4.5}", "{5, 6}": "{5.5, 6}", "{7, 8}": "{7, 9}", "frozen = ": "cold = ",
		"float[2] frozen = {3, 4}": "float[2,1] frozen = {3, 4}",
	} {
		text := strings.Replace(contentsModel, old, changed, 1)
		require.NotEqual(t, contentsModel, text)
		require.NotEqual(t, base, of(strings.Replace(text, "(frozen", "(k", 1)), old)
	}
	for old, changed := range map[string]string{
		"{1, 2}": "{0, 2}", "Mul (z, x)": "Sub (x, z)",
		"float[2] w = {1, 2}, float[2] frozen = {3, 4}": "float[2] frozen = {3, 4}, float[2] w = {1, 2}",
	} {
		text := strings.Replace(contentsModel, old, changed, 1)
		require.NotEqual(t, contentsModel, text)
		require.Equal(t, base, of(text), old)
	}
	m, err := graph.Parse(contentsModel, "contents")
	require.NoError(t, err)
	m.Graph.Values[m.Graph.Initializers[1]].Data.Source = unreadable{}
	_, err = onnx.ContentsSHA256(m, skip)
	require.ErrorContains(t, err, `tensor "frozen": EOF`)
}
