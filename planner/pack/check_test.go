package pack

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
)

// valid compares all pairs.
func valid(buffers []Buffer, offsets []int64, capacity int64) bool {
	for i, b := range buffers {
		if offsets[i] < 0 || capacity > 0 && offsets[i]+b.Size > capacity {
			return false
		}
		for k := range i {
			o := buffers[k]
			if b.Size > 0 && o.Size > 0 && meet(buffers, i, k) && offsets[i] < offsets[k]+o.Size &&
				offsets[k] < offsets[i]+b.Size {
				return false
			}
		}
	}
	return true
}

func TestCheckAgainstAllPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		buffers := drawBuffers(t, 12)
		offsets := make([]int64, len(buffers))
		for i := range offsets {
			offsets[i] = rapid.Int64Range(-1, 40).Draw(t, "offset")
		}
		capacity := rapid.Int64Range(0, 40).Draw(t, "capacity")
		require.Equal(t, valid(buffers, offsets, capacity), Check(buffers, offsets, capacity) == nil)
	})
}

// TestCheckDisturbed moves one buffer of a valid packing, so that most pairs are right. There are
// enough buffers to make the sweep's list split and shrink.
func TestCheckDisturbed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 30, 1500}).Draw(t, "n")
		buffers := make([]Buffer, n)
		for i := range buffers {
			at := int64(i)
			buffers[i] = Buffer{Lower: at, Upper: at + 1 + at*7919%int64(n), Size: 1 + at*31%17}
		}
		offsets := Greedy(context.Background(), buffers).Offsets
		require.NoError(t, Check(buffers, offsets, 0))
		i := rapid.IntRange(0, n-1).Draw(t, "moved")
		offsets[i] = max(0, offsets[i]+rapid.Int64Range(-20, 20).Draw(t, "by"))
		require.Equal(t, valid(buffers, offsets, 0), Check(buffers, offsets, 0) == nil)
	})
}

func TestCheckErrors(t *testing.T) {
	two := []Buffer{{0, 2, 4, nil}, {1, 3, 4, nil}}
	for _, c := range []struct {
		buffers  []Buffer
		offsets  []int64
		capacity int64
		want     string
	}{
		{two, []int64{0, 3}, 0, "buffers 0 at [0, 4) and 1 at [3, 7) are live at once and overlap"},
		{two, []int64{0, 4}, 7, "buffer 1 of size 4 at offset 4 ends at 8, above the capacity 7"},
		{two, []int64{-1, 4}, 0, "buffer 0 lies at the negative offset -1"},
		{two, []int64{0}, 0, "1 offsets for 2 buffers"},
		{two, []int64{0, math.MaxInt64}, 0, "buffer 1 of size 4 at offset 9223372036854775807 ends beyond"},
		{[]Buffer{{1, 1, 4, nil}}, []int64{0}, 0, "buffer 0 is live from 1 to 1"},
		{[]Buffer{{0, 1, -4, nil}}, []int64{0}, 0, "buffer 0 has the size -4"},
		{[]Buffer{{0, 1, math.MaxInt64, nil}, {4, 5, 1, nil}}, []int64{0, 0}, 0, "buffers 0 to 1 add up"},
	} {
		assert.ErrorContains(t, Check(c.buffers, c.offsets, c.capacity), c.want)
	}
	assert.NoError(t, Check(two, []int64{0, 4}, 8))
	assert.NoError(t, Check(nil, nil, 0))
}

// TestSpanListEdges: a span that reaches into the next one is refused wherever it stands, at the
// end of a chunk, too; one that ends where the next begins is not.
func TestSpanListEdges(t *testing.T) {
	const n = 2 * spanChunk
	var l spanList
	for i := range int64(n) {
		_, ok := l.insert(span{offset: 10 * i, top: 10*i + 4, id: int(i)})
		require.True(t, ok)
	}
	require.Greater(t, len(l.chunks), 2)
	for i := range int64(n - 1) {
		other, ok := l.insert(span{offset: 10*i + 4, top: 10*i + 11})
		require.False(t, ok, i)
		require.Equal(t, int(i+1), other.id)
		other, ok = l.insert(span{offset: 10*i + 3, top: 10*i + 5})
		require.False(t, ok, i)
		require.Equal(t, int(i), other.id)
	}
	for i := range int64(n - 1) {
		_, ok := l.insert(span{offset: 10*i + 4, top: 10*i + 10})
		require.True(t, ok, i)
	}
}
