package allocator

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
)

// TestSet: a set of many pieces is a sorted list of them, from both ends of every piece.
func TestSet(t *testing.T) { rapid.Check(t, sameSet) }

func sameSet(t *rapid.T) {
	s := set{order: bySize}
	var list []*piece
	many := rapid.IntRange(0, 4*mostInRun).Draw(t, "many")
	step := int64(rapid.SampledFrom([]int{1, 7, 7919}).Draw(t, "step"))
	for i := range int64(many) {
		x := &piece{stream: i % 3, size: i * step % 1009, addr: i}
		s.add(x)
		list = append(list, x)
	}
	for i := range list {
		if j := i * 31 % len(list); i%3 > 0 && list[j] != nil {
			s.remove(list[j])
			list[j] = nil
		}
	}
	list = slices.DeleteFunc(list, func(x *piece) bool { return x == nil })
	slices.SortFunc(list, bySize)
	same(t, list, s.all())
	for range 5 {
		key := &piece{stream: int64(rapid.IntRange(0, 3).Draw(t, "stream")),
			size: int64(rapid.IntRange(0, 1010).Draw(t, "size"))}
		at, _ := slices.BinarySearchFunc(list, key, bySize)
		same(t, list[at:], slices.Collect(s.from(key)))
		before := slices.Collect(s.before(key))
		slices.Reverse(before)
		same(t, list[:at], before)
	}
}

// same: equal pieces in equal order.
func same(t *rapid.T, want, got []*piece) {
	require.Equal(t, len(want), len(got))
	for i := range want {
		require.Same(t, want[i], got[i])
	}
}
