package cpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/executor"
	"memopt/executor/cpu"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/internal/test/kerneltest"
)

// TestDrawsInParts: parts of a random node of any shape, cut anywhere, draw what the whole draws.
func TestDrawsInParts(t *testing.T) {
	for k := op.Unknown + 1; k < op.NumKinds; k++ {
		if !op.Of(k).Random {
			continue
		}
		t.Run(op.Of(k).Name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				choose := func(what string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, what) }
				if err := kerneltest.CheckDrawsInParts(cpu.Device{}, k, choose); err != nil {
					t.Fatal(err)
				}
				if err := kerneltest.CheckDrawsInColumns(cpu.Device{}, k, choose); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestStepsInParts: parts and whole draw the same in every step.
func TestStepsInParts(t *testing.T) {
	for _, o := range []executor.Options{{Seed: 5}, {OnDemand: true}} {
		for _, seeded := range []bool{false, true} {
			require.NoError(t, kerneltest.CheckStepsInParts(cpu.Device{}, seeded, o))
		}
	}
}

// TestPartsDrawApart: masks of parts that draw from their own seeds, as a runtime does that does
// not know of parts, are as unlike as those of other seeds.
func TestPartsDrawApart(t *testing.T) {
	const n = 1 << 16
	var masks [][]byte
	for _, whole := range []int64{0, 1, 7} {
		for part := range int64(8) {
			node := &graph.Node{Kind: op.Dropout, Attrs: []graph.Attr{seedAttr(whole)}}
			require.NoError(t, op.SetDrawFrom(node, "y", part*n))
			masks = append(masks, dropout(n, graph.Float32, 0.5, node.Attrs...).run(t, 0)[1].Data)
		}
	}
	for i, a := range masks {
		within(t, ones(a), n, 0.5, "kept")
		for _, b := range masks[:i] {
			alike := 0
			for k := range a {
				alike += int(1 - a[k] ^ b[k])
			}
			within(t, alike, n, 0.5, "masks alike")
		}
	}
}
