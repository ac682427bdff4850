package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/answers/doctor"
	"memopt/cmd/memopt/internal/answercmd"
)

// TestTrustedSettings: a library that anybody could have put in its place is not tried unasked.
func TestTrustedSettings(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	own, open := filepath.Join(dir, "libown.so"), filepath.Join(dir, "libopen.so")
	for _, file := range []string{own, open} {
		require.NoError(t, os.WriteFile(file, nil, 0o600))
	}
	require.NoError(t, os.Chmod(open, 0o666))
	kept := []doctor.Setting{{Name: "LD_PRELOAD", Value: own}, {Name: "LD_PRELOAD"}, {Name: "OTHER", Value: open}}
	got := answercmd.Trusted(append([]doctor.Setting{{Name: "LD_PRELOAD", Value: open}}, kept...))
	require.Equal(t, kept, got)
}
