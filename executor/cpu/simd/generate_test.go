package simd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGenerated runs the generator and compares its files with those here, but for their
// first lines, which have the command.
func TestGenerated(t *testing.T) {
	if out, err := exec.Command("go", "-C", "asm", "mod", "download").CombinedOutput(); err != nil {
		t.Skipf("the generator's module avo cannot be had (go -C executor/cpu/simd/asm mod download): %s", out)
	}
	dir := t.TempDir()
	files := map[string]string{"-out": "kernels_amd64.s", "-stubs": "kernels_amd64.go", "-other": "kernels_other.go"}
	args := []string{"run", "-C", "asm", ".", "-pkg", "simd"}
	for option, name := range files {
		args = append(args, option, filepath.Join(dir, name))
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, name := range files {
		want, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		_, want, _ = bytes.Cut(want, []byte("\n"))
		_, got, _ = bytes.Cut(got, []byte("\n"))
		if !bytes.Equal(want, got) {
			t.Errorf("%s is not what the generator writes: run go generate", name)
		}
	}
}
