//go:build linux && (amd64 || arm64) && !nodl

package ort_test

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/ort"
	"memopt/graph"
	"memopt/graph/onnx"
)

// open opens the library in this process, or skips where there is none.
func open(t testing.TB) *ort.Library {
	t.Helper()
	library, err := ort.Open(ort.Candidates(os.Getenv))
	var missing *ort.MissingError
	if errors.As(err, &missing) {
		t.Skip("ONNX Runtime is missing, which the test runs: npm install --ignore-scripts onnxruntime-node@1.30.0, " +
			"ORT_NODE_DIR names the folder: " + err.Error())
	}
	require.NoError(t, err)
	return library
}

// TestSession uses the library in this process: a model from memory, many runs with one feed, while
// Go's collector moves what it may move.
func TestSession(t *testing.T) {
	library := open(t)
	m, _ := parse(t, `g (float[3] x, float s) => (float[3] y, float z) { y = Mul(x, s)  z = ReduceSum<keepdims = 0>(y) }`)
	var model bytes.Buffer
	require.NoError(t, onnx.Write(&model, m))
	s, err := library.NewSessionBytes(model.Bytes(), ort.Options{Threads: 1})
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, []string{"x", "s"}, s.Inputs())
	require.Equal(t, []string{"y", "z"}, s.Outputs())
	x := executor.NewTensor[float32](graph.Float32, []int{3}, 1, 2, 3)
	scale := executor.NewTensor[float32](graph.Float32, nil, 1)
	feed, err := s.Feed([]ort.Named{{Name: "x", Tensor: x}, {Name: "s", Tensor: scale}})
	require.NoError(t, err)
	defer feed.Close()
	for i := range 50 {
		executor.Of[float32](scale)[0] = float32(i)
		deeper(i, func() {
			r, err := s.Run(feed)
			require.NoError(t, err)
			defer r.Close()
			y, err := r.Copy(0)
			require.NoError(t, err)
			z, err := r.Tensor(1)
			require.NoError(t, err)
			k := float32(i)
			require.Equal(t, []float32{k, 2 * k, 3 * k}, executor.Of[float32](y))
			require.Equal(t, []float32{6 * k}, executor.Of[float32](z))
		})
		runtime.GC()
	}
	st, err := s.Stats()
	require.NoError(t, err)
	require.True(t, st.Known)
	require.Positive(t, st.MaxInUse)
	for _, empty := range [][]byte{nil, []byte("no model")} {
		_, err = library.NewSessionBytes(empty, ort.Options{})
		var e *ort.RuntimeError
		require.ErrorAs(t, err, &e)
	}
	_, err = s.Feed([]ort.Named{{Name: "x", Tensor: &executor.Tensor{DType: graph.String, Shape: []int{1}}}})
	require.ErrorContains(t, err, `input "x": elements of type string`)
	_, err = s.Feed([]ort.Named{{Name: "x", Tensor: &executor.Tensor{DType: graph.Float32, Shape: []int{4}}}})
	require.ErrorContains(t, err, "0 bytes of data")
}

// deeper calls f with n more frames on the stack, each of its own size, so that the stack grows at
// another place every time.
func deeper(n int, f func()) string {
	if n == 0 {
		f()
		return ""
	}
	var frame [512]byte
	return string(strconv.AppendInt(frame[:0], int64(n), 10)) + deeper(n-1, f)
}

// BenchmarkRun times what a run costs beside the model's own work.
func BenchmarkRun(b *testing.B) {
	library := open(b)
	m, err := graph.Parse(`<ir_version: 8, opset_import: ["" : 17]> g (float[1] x) => (float[1] y) { y = Neg(x) }`,
		"bench")
	require.NoError(b, err)
	var model bytes.Buffer
	require.NoError(b, onnx.Write(&model, m))
	s, err := library.NewSessionBytes(model.Bytes(), ort.Options{Threads: 1})
	require.NoError(b, err)
	defer s.Close()
	feed, err := s.Feed([]ort.Named{{Name: "x", Tensor: executor.NewTensor[float32](graph.Float32, []int{1}, 1)}})
	require.NoError(b, err)
	defer feed.Close()
	for b.Loop() {
		r, err := s.Run(feed)
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}
