package envelope

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCoarse cuts boxes at random, keeps some of the parts, and joins these: they are no more than were
// allowed wherever that is possible, overlap nowhere, and are together all that was kept.
func TestCoarse(t *testing.T) {
	whole := Box{{Symbol: "m", Lo: 1, Hi: 24}, {Symbol: "n", Lo: 1, Hi: 24}}
	joined := 0
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 5))
		leaves := []*task{{box: whole}}
		for range 40 {
			i := rng.IntN(len(leaves))
			cut, axis := leaves[i], rng.IntN(2)
			a := cut.box[axis]
			if a.Lo == a.Hi {
				continue
			}
			below, above := cut.box.cut(axis, a.Lo+rng.Int64N(a.Hi-a.Lo))
			cut.parts = [2]*task{{box: below, of: cut}, {box: above, of: cut}}
			leaves = append(append(leaves[:i], leaves[i+1:]...), cut.parts[:]...)
		}
		var left []*task
		settled := rng.IntN(4)
		for _, leaf := range leaves {
			if rng.IntN(30) >= settled {
				left = append(left, leaf)
			}
		}
		most := 1 + rng.IntN(12)
		list := coarse(left, most)
		require.LessOrEqual(t, len(list), len(left))
		if settled == 0 {
			require.Len(t, list, min(most, len(left)), "all is left, so that every cut can be taken back")
		}
		joined += len(left) - len(list)
		times := func(list []*task, m, n int64) (count int) {
			for _, x := range list {
				if x.box.Contains(map[string]int64{"m": m, "n": n}) {
					count++
				}
			}
			return count
		}
		for m := int64(1); m <= 24; m++ {
			for n := int64(1); n <= 24; n++ {
				require.Equal(t, times(left, m, n), times(list, m, n), "seed %d, m=%d n=%d", seed, m, n)
			}
		}
	}
	require.Positive(t, joined)
}
