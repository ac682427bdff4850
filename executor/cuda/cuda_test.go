package cuda_test

import (
	"maps"
	"os"
	"slices"
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

// cases are the conformance cases.
var cases = kerneltest.All

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
	eachKind(t, cases(), func(t *testing.T, list []kerneltest.Case) {
		if cuda.Of(list[0].Kind).New == nil {
			return
		}
		d := device(t, double.Options{})
		for _, c := range list {
			t.Run(c.Name, func(t *testing.T) { kerneltest.Check(t, d, c) })
		}
	})
}

// eachKind runs the cases of each operator as a test of its own.
func eachKind(t *testing.T, all []kerneltest.Case, run func(t *testing.T, list []kerneltest.Case)) {
	byKind := map[graph.Kind][]kerneltest.Case{}
	for _, c := range all {
		byKind[c.Kind] = append(byKind[c.Kind], c)
	}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		t.Run(op.Of(kind).Name, func(t *testing.T) { run(t, byKind[kind]) })
	}
}

// TestSelfTest: the device's own test passes on the double.
func TestSelfTest(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		require.NoError(t, device(t, double.Options{Lazy: lazy}).SelfTest())
	}
}
