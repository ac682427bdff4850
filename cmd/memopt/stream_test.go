//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/onnx"
)

// residentPeak runs memopt in a process of its own and returns the most memory that was resident in
// it, in bytes.
func residentPeak(t *testing.T, args ...string) int64 {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(path)
	cmd.Args = append([]string{"memopt"}, args...) // which is what makes this program memopt
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "memopt %v: %s", args, out)
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// TestExternalDataIsStreamed: a model that is written into another folder takes its weights along
// from file to file: no more memory is resident than where they stay.
func TestExternalDataIsStreamed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test needs Linux, which counts a process's resident memory in KiB")
	}
	const size = 384 << 20 // of the weights: a sparse file, zeros but for the ends
	dir, elsewhere := t.TempDir(), t.TempDir()
	weights := filepath.Join(dir, "weights.bin")
	f, err := os.Create(weights)
	require.NoError(t, err)
	for _, at := range []int64{0, size - 4} {
		_, err := f.WriteAt([]byte{0, 0, 128, 63}, at) // 1.0
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	m, err := graph.Parse(
		fmt.Sprintf(`<ir_version: 8, opset_import: ["" : 17]> wide (float[1] x, float[%d] w) => (float loss) { y = Mul(x, w)  loss = ReduceSum<keepdims = 0>(y) }`,
			size/4), "wide")
	require.NoError(t, err)
	_, err = m.Graph.AddInitializer(&graph.TensorData{Name: "w", DType: graph.Float32, Dims: []int64{size / 4},
		External: &graph.External{Location: "weights.bin", Length: -1}})
	require.NoError(t, err)
	m.Path = filepath.Join(dir, "model.onnx")
	require.NoError(t, onnx.WriteFile(m.Path, m, onnx.Options{}))

	plain := residentPeak(t, "apply", m.Path, "--level", "0", "-o", filepath.Join(dir, "out.onnx"), "-q")
	moved := filepath.Join(elsewhere, "out.onnx")
	copied := residentPeak(t, "apply", m.Path, "--level", "0", "-o", moved, "-q")
	t.Logf("resident: %d MiB in the folder of the weights, %d MiB into another one", plain>>20, copied>>20)
	require.Less(t, copied, plain+size/12)
	info, err := os.Stat(moved + ".data")
	require.NoError(t, err)
	require.EqualValues(t, size, info.Size())
	data, err := os.Open(moved + ".data")
	require.NoError(t, err)
	defer data.Close()
	for _, at := range []int64{0, size - 4} {
		var b [4]byte
		_, err := data.ReadAt(b[:], at)
		require.NoError(t, err)
		require.Equal(t, [4]byte{0, 0, 128, 63}, b)
	}
}
