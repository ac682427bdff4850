package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/graph"
	"memopt/graph/onnx"
)

// onText is a stream that does something when a text is first written to it.
type onText struct {
	bytes.Buffer
	text string
	do   func() error
	err  error
}

func (w *onText) Write(p []byte) (int, error) {
	if w.do != nil && strings.Contains(string(p), w.text) {
		w.err, w.do = w.do(), nil
	}
	return w.Buffer.Write(p)
}

// TestFilesShrinkMeanwhile: where the model's file, or one of its external data, becomes shorter
// between reading the model and running it, the verb ends with one line, and nothing is written.
func TestFilesShrinkMeanwhile(t *testing.T) {
	const rows = 512
	t.Chdir(t.TempDir())
	m, err := graph.Parse(fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17]>
m (float[n, %d] x) => (float[n, %d] y) <float[%d, %d] w = {0%s}> { y = MatMul(x, w) }`, rows, rows, rows, rows, strings.Repeat(", 0", rows*rows-1)), "m")
	require.NoError(t, err)
	for _, c := range []struct {
		external int64
		file     string
		code     int
		want     string
	}{
		{0, "model.onnx", cli.ExitUsage, "model.onnx changed while it was read: it has 8192 bytes, but had"},
		// It is mapped when roles of values are told, before the note.
		{1, "model.onnx.data", cli.ExitUsage, "model.onnx.data changed while it was read: it has 8192 bytes, but had"},
	} {
		for _, flags := range []string{"", " --threads 1 -r 3", " --mem-pattern off"} {
			require.NoError(t, onnx.WriteFile("model.onnx", m, onnx.Options{ExternalDataThreshold: c.external}))
			errs := &onText{text: "only its forward half is run", do: func() error { return os.Truncate(c.file, 8192) }}
			line := "run model.onnx --dim n=4 --init random:1 --save-outputs out" + flags
			code := runUntil(t.Context(), &cli.Keeper{}, strings.Fields(line),
				cli.Stdio{In: nil, Out: io.Discard, Err: errs}, nil)
			require.NoError(t, errs.err)
			require.Equal(t, c.code, code, "%s: %s", line, errs.String())
			require.Contains(t, errs.String(), c.want)
			require.Equal(t, 2, strings.Count(errs.String(), "\n"), "the note and one line of error: %s", errs.String())
			require.NoDirExists(t, "out")
		}
	}
}
