package ortfiles

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBufferBounds: reads up to the last byte are right; one further, with a negative length or at a
// place before the first byte is an error that stays, and gives zeros.
func TestBufferBounds(t *testing.T) {
	data := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	for _, c := range []struct {
		at, n int
		want  []byte // nil: an error
	}{
		{0, 8, data}, {0, 0, []byte{}}, {8, 0, []byte{}}, {7, 1, []byte{8}}, {0, 1, []byte{1}},
		{8, 1, nil}, {1, 8, nil}, {9, 0, nil}, {-1, 1, nil}, {0, -1, nil}, {math.MaxInt, 1, nil}, {1, math.MaxInt, nil},
	} {
		b := &buffer{data: data}
		got := b.bytes(c.at, c.n)
		if c.want != nil {
			require.NoError(t, b.err, c)
			require.Equal(t, c.want, got, c)
			continue
		}
		require.ErrorIs(t, b.err, errCut, c)
		require.Zero(t, b.int64(0), "after an error all is zero")
		b.fail("another")
		require.ErrorIs(t, b.err, errCut, c)
	}
	b := &buffer{data: data}
	require.Equal(t, []any{0x0201, 0x05040302, int32(0x06050403), int64(0x0807060504030201)},
		[]any{b.uint16(0), b.uint32(1), b.int32(2), b.int64(0)})
}
