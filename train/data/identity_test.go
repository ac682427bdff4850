package data

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func identify(t *testing.T, inputs []Input, o Options, paths ...string) string {
	t.Helper()
	id, err := open(t, paths, inputs, o).Identity()
	require.NoError(t, err)
	require.Len(t, id, 64)
	return id
}

// TestIdentity: a copy elsewhere is the same data; other contents, names, sizes, orders and ways to
// cut it are not.
func TestIdentity(t *testing.T) {
	dir := t.TempDir()
	in := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	tokens := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	for _, folder := range []string{"a", "b", "c"} {
		require.NoError(t, os.Mkdir(in(folder), 0o777))
	}
	write16(t, in("a", "x.bin"), tokens)
	write16(t, in("b", "x.bin"), tokens)
	write16(t, in("b", "y.bin"), tokens)
	write16(t, in("c", "x.bin"), append([]int64{2}, tokens[1:]...))
	write16(t, in("c", "y.bin"), append(tokens, 1))
	first := identify(t, gpt(2, 10), Options{}, in("a", "x.bin"))
	require.Equal(t, first, identify(t, gpt(2, 10), Options{}, in("b", "x.bin")))
	require.Equal(t, first, identify(t, gpt(2, 10), Options{Seed: 5, TokenType: "uint16"}, in("b", "x.bin")))
	all := map[string]bool{first: true}
	for _, id := range []string{
		identify(t, gpt(2, 10), Options{}, in("b", "y.bin")),
		identify(t, gpt(2, 10), Options{}, in("c", "x.bin")),
		identify(t, gpt(2, 10), Options{}, in("c", "y.bin")),
		identify(t, gpt(2, 10), Options{}, in("b", "x.bin"), in("b", "y.bin")),
		identify(t, gpt(2, 10), Options{}, in("b", "y.bin"), in("b", "x.bin")),
		identify(t, gpt(3, 10), Options{}, in("a", "x.bin")),
		identify(t, gpt(2, 10), Options{TokenType: "uint8"}, in("a", "x.bin")),
		identify(t, gpt(2, 10), Options{Labels: labelsSame}, in("a", "x.bin")),
		identify(t, gpt(2, 10), Options{Blocks: blocksRandom}, in("a", "x.bin")),
		identify(t, gpt(2, 10), Options{Blocks: blocksRandom, Seed: 5}, in("a", "x.bin")),
		identify(t, pair(0, 2), Options{Record: "x:uint8[2],labels:uint8"}, in("a", "x.bin")),
		identify(t, pair(0, 2), Options{Record: "labels:uint8,x:uint8[2]"}, in("a", "x.bin")),
		identify(t, pair(0, 2), Options{Record: "labels:uint8,x:uint8[2]/2"}, in("a", "x.bin")),
	} {
		require.False(t, all[id])
		all[id] = true
	}
}

// TestIdentityOfLargeFiles: of those the ends and samples count, as Source says.
func TestIdentityOfLargeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.bin")
	const size = wholeBytes + 1000000
	poke := func(at int64, b byte) string {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
		require.NoError(t, err)
		require.NoError(t, f.Truncate(size))
		_, err = f.WriteAt([]byte{b}, at)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		return identify(t, gpt(2, 0), Options{TokenType: "uint16"}, path)
	}
	first := poke(0, 0)
	for _, at := range []int64{0, endBytes - 1, size - endBytes, size - 1, endBytes, endBytes + pageBytes - 1,
		endBytes + (size-2*endBytes-pageBytes)/samplePages*1023} {
		require.NotEqual(t, first, poke(at, 1), "at %d", at)
		require.Equal(t, first, poke(at, 0))
	}
	require.Equal(t, first, poke(endBytes+pageBytes, 1), "not seen, as documented")
}
