package cpu_test

import (
	"testing"

	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// TestEveryKernelHasCases: a kernel without a conformance case is not held to its contract.
func TestEveryKernelHasCases(t *testing.T) {
	have := map[graph.Kind]bool{}
	for _, c := range kerneltest.All() {
		have[c.Kind] = true
	}
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		if cpu.Of(k).New != nil && !have[k] {
			t.Errorf("op %s: no conformance case: add one to internal/test/kerneltest", op.Of(k).Name)
		}
	}
}

// TestCases runs the conformance cases of all kernels.
func TestCases(t *testing.T) {
	for _, c := range kerneltest.All() {
		t.Run(c.Label(), func(t *testing.T) { kerneltest.Check(t, cpu.Device{}, c) })
	}
}
