package cpu_test

import (
	"testing"

	"memopt/executor/cpu"
	"memopt/executor/kerneltest"
)

// TestCases runs the conformance cases of all kernels.
func TestCases(t *testing.T) {
	for _, c := range kerneltest.All() {
		t.Run(c.Label(), func(t *testing.T) { kerneltest.Check(t, cpu.Device{}, c) })
	}
}
