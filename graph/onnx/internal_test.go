package onnx

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
)

func TestStreamLimit(t *testing.T) {
	_, err := read(strings.NewReader(strings.Repeat("x", 101)), "-", newExternals("-"), 100)
	require.EqualError(t, err,
		"reading the model -: it has more than 100 bytes, which a stream cannot have; give the path of a file")
	_, err = read(strings.NewReader(strings.Repeat("x", 100)), "-", newExternals("-"), 100)
	require.ErrorContains(t, err, "it is text")
}

// TestRope builds random nested messages, with parts of every size around the one
// from which on they are referred to, and compares with building them plainly.
func TestRope(t *testing.T) {
	sizes := []int{0, 1, 100, largePart - 1, largePart, largePart + 1, 3 * largePart}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var r rope
		want := build(&r, rng, sizes, 4)
		var got bytes.Buffer
		n, err := r.WriteTo(&got)
		require.NoError(t, err)
		require.Equal(t, int64(len(want)), n, "seed %d", seed)
		require.True(t, bytes.Equal(want, got.Bytes()), "seed %d", seed)
		require.Equal(t, r.size, n, "seed %d", seed)
		require.True(t, bytes.Equal(want, r.contents()), "seed %d", seed)
	}
}

func build(r *rope, rng *rand.Rand, sizes []int, depth int) []byte {
	var plain []byte
	for range rng.IntN(4) {
		num := protowire.Number(1 + rng.IntN(30))
		plain = protowire.AppendTag(plain, num, protowire.BytesType)
		if depth > 0 && rng.IntN(2) == 0 {
			m := r.begin(num)
			plain = protowire.AppendBytes(plain, build(r, rng, sizes, depth-1))
			r.end(m)
			continue
		}
		body := bytes.Repeat([]byte{byte(rng.Uint32())}, sizes[rng.IntN(len(sizes))])
		plain = protowire.AppendBytes(plain, body)
		r.bytes(num, body)
	}
	return plain
}

func TestIsText(t *testing.T) {
	for text, want := range map[string]bool{
		"plain": true, "tab\tand\r\nlines": true, "größe": true, "gr\xc3": true, // cut inside ö
		"\x08\x07": false, "\xff\xfe": false, "a\x00b": false,
	} {
		assert.Equal(t, want, isText([]byte(text)), "%q", text)
	}
}
