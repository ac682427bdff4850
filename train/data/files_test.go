package data

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestResident: of a large file that is read from end to end, and then here and there, little counts
// as this process's memory.
func TestResident(t *testing.T) {
	resident := func() (kib int) {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Skip("/proc/self/status is missing, which says what is resident: run the test on Linux")
		}
		_, after, _ := bytes.Cut(status, []byte("RssFile:"))
		_, err = fmt.Sscan(string(after), &kib)
		require.NoError(t, err)
		return kib
	}
	path := filepath.Join(t.TempDir(), "large.bin")
	require.NoError(t, os.WriteFile(path, nil, 0o666))
	const size = 6 * residentBytes
	require.NoError(t, os.Truncate(path, size))
	before := resident()
	s := open(t, []string{path}, gpt(512, 10), Options{Blocks: blocksRandom, TokenType: "uint16"})
	most := before + (2*residentBytes)/1024
	require.NoError(t, s.Check(context.Background()))
	require.Less(t, resident(), most)
	b, err := newBatch(s.Inputs(), 1)
	require.NoError(t, err)
	for i := range int64(8000) {
		require.NoError(t, s.Fill(i, 0, b.Tensors))
	}
	require.Less(t, resident(), most)
}
