package cuda_test

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor"
	"memopt/executor/cuda"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/internal/test/kerneltest"
)

// gpu returns GPU 0 where MEMOPT_TEST_GPU is set, opened once; else nil. Then the tests that do not
// need the double's own answers run on the GPU.
var gpu = sync.OnceValues(func() (*cuda.Device, error) {
	if os.Getenv("MEMOPT_TEST_GPU") == "" {
		return nil, nil
	}
	return cuda.Open(0, cuda.Options{})
})

// device returns the GPU, or a device on a driver double.
func device(t testing.TB, o double.Options) *cuda.Device {
	d, err := gpu()
	require.NoError(t, err)
	if d == nil {
		d, _ = opened(t, o)
	}
	return d
}

// opened returns a device on a driver double; the test fails where its memory is not given back.
func opened(t testing.TB, o double.Options) (*cuda.Device, *double.Double) {
	if _, err := double.Compiler(); err != nil {
		t.Skip("the driver double compiles the kernels: " + err.Error())
	}
	dbl := double.New(o)
	d, err := cuda.New(dbl, cuda.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d, dbl
}

// cases are the conformance cases, made once.
var cases = sync.OnceValue(kerneltest.All)

// TestComplete: every operator has a kernel, or a reason why the host runs it.
func TestComplete(t *testing.T) {
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		row := cuda.Of(k)
		if executor.RunsItself(k) {
			require.Nil(t, row.New, op.Of(k).Name)
			continue
		}
		require.True(t, (row.New == nil) != (row.Why == ""),
			"op %s: no CUDA kernel: add a row to executor/cuda/table_*.go, with a kernel or with the reason why the "+
				"host runs it", op.Of(k).Name)
	}
}

// TestOnHost: what the operator table says of the device is what the rows say, and shapes and
// control flow are the host's.
func TestOnHost(t *testing.T) {
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		switch why, row := cuda.OnHost(k), cuda.Of(k); {
		case executor.AlwaysHost(k) != "":
			require.Equal(t, executor.AlwaysHost(k), why)
		case executor.RunsItself(k):
			require.Empty(t, why)
		default:
			require.Equal(t, row.New == nil, why != "", op.Of(k).Name)
		}
	}
	require.NotEmpty(t, cuda.OnHost(op.If))
	require.NotEmpty(t, cuda.OnHost(op.Shape))
	require.Empty(t, cuda.OnHost(op.MatMul))
}

// TestEveryKernelHasCases: a kernel without a conformance case is not held to its contract.
func TestEveryKernelHasCases(t *testing.T) {
	have := map[graph.Kind]bool{}
	for _, c := range cases() {
		have[c.Kind] = true
	}
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		require.True(t, cuda.Of(k).New == nil || have[k], op.Of(k).Name)
	}
}

// TestCases runs the conformance cases of the kernels that the device has, and compares them with
// the host's.
func TestCases(t *testing.T) {
	for _, c := range cases() {
		if cuda.Of(c.Kind).New == nil {
			continue
		}
		t.Run(c.Label(), func(t *testing.T) {
			kerneltest.Check(t, device(t, double.Options{}), c)
		})
	}
}

// TestSelfTest: the device's own test passes on the double.
func TestSelfTest(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		require.NoError(t, device(t, double.Options{Lazy: lazy}).SelfTest())
	}
}
