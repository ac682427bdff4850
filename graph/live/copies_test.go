package live

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/op"
)

// withCopies lets values of a program go to the host's memory and back: later steps read the returned copies.
// Some of the waits hold the source of the copy, as they should, and the others leave it to the simulator.
func withCopies(rng *rand.Rand, p *Program) {
	value := func(like graph.ValueID) graph.ValueID {
		p.Bytes, p.Persistent = append(p.Bytes, p.Bytes[like]), append(p.Persistent, false)
		return graph.ValueID(len(p.Bytes) - 1)
	}
	hold := func(in ...graph.ValueID) []graph.ValueID { return in[:1+rng.IntN(2)] }
	for range 1 + rng.IntN(4) {
		made := rng.IntN(len(p.Steps))
		v := p.Steps[made].Out[0]
		if op.Of(p.Steps[made].Kind).Transfer != op.NoTransfer {
			continue
		}
		h, g, y, z := value(v), value(v), value(v), value(v)
		at := made + 1
		for _, s := range []Step{
			{Kind: op.Offload, In: []graph.ValueID{v}, Out: []graph.ValueID{h}},
			{Kind: op.Wait, In: hold(h, v), Out: []graph.ValueID{g}},
			{Kind: op.Reload, In: []graph.ValueID{g}, Out: []graph.ValueID{y}},
			{Kind: op.Wait, In: hold(y, g), Out: []graph.ValueID{z}},
		} {
			at += rng.IntN(len(p.Steps) - at + 1)
			p.Steps = slices.Insert(p.Steps, at, s)
			at++
		}
		for i := at; i < len(p.Steps); i++ {
			in := slices.Clone(p.Steps[i].In)
			for k := range in {
				if own := op.Of(p.Steps[i].Kind).Transfer; in[k] == v && own == op.NoTransfer {
					in[k] = z
				}
			}
			p.Steps[i].In = in
		}
	}
}

// TestCopiesAgainstReference compares the live bytes of device and host with those of the second simulator.
func TestCopiesAgainstReference(t *testing.T) {
	moved := 0
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 5))
		p := randomProgram(rng, 1+rng.IntN(20))
		withCopies(rng, p)
		got, err := p.Simulate()
		require.NoError(t, err)
		want, host := refLive(p)
		require.Equal(t, want, got.Live, "seed %d: %+v", seed, p.Steps)
		require.LessOrEqual(t, got.LowerBound, got.Peak.Bytes, "seed %d", seed)
		if got.Host == nil {
			continue
		}
		require.Equal(t, host, got.Host.Live, "seed %d: %+v", seed, p.Steps)
		require.Equal(t, slices.Max(host), got.Host.Peak.Bytes)
		for v, root := range got.Host.Root {
			require.True(t, root == graph.NoValue || got.Root[v] == graph.NoValue, "a value is in one memory")
		}
		if got.Host.Peak.Bytes > 0 {
			moved++
		}
	}
	require.Greater(t, moved, 500)
}
