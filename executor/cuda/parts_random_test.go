package cuda_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/graph/op"
	"memopt/internal/test/double"
	"memopt/internal/test/kerneltest"
)

// TestDrawsInParts: parts of a random node of any shape, cut anywhere, draw what the whole draws,
// in kernels of the device and in those of the host that a row names.
func TestDrawsInParts(t *testing.T) {
	d, _ := opened(t, double.Options{})
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		if !op.Of(k).Random {
			continue
		}
		t.Run(op.Of(k).Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				choose := func(what string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, what) }
				if err := kerneltest.CheckDrawsInParts(d, k, choose); err != nil {
					t.Fatal(err)
				}
				if err := kerneltest.CheckDrawsInColumns(d, k, choose); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestStepsInParts: parts and whole draw the same in every step, captured or not.
func TestStepsInParts(t *testing.T) {
	d, _ := opened(t, double.Options{})
	for _, o := range []executor.Options{{Seed: 5}, {Seed: 5, Capture: true}, {OnDemand: true}} {
		for _, seeded := range []bool{false, true} {
			require.NoError(t, kerneltest.CheckStepsInParts(d, seeded, o), fmt.Sprintf("%+v, seeds %v", o, seeded))
		}
	}
}
