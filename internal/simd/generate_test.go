package simd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGenerated runs the generator and compares its files with those here, except for their first
// lines, which have the command.
func TestGenerated(t *testing.T) {
	if out, err := exec.Command("go", "-C", "asm", "mod", "download").CombinedOutput(); err != nil {
		t.Skipf("the generator's module avo cannot be had (go -C internal/simd/asm mod download): %s", out)
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

// TestAVX2Registers looks for registers that only AVX-512 has: the generator hands them out
// when sixteen do not suffice, and the assembler takes them.
func TestAVX2Registers(t *testing.T) {
	text, err := os.ReadFile("kernels_amd64.s")
	require.NoError(t, err)
	beyond := regexp.MustCompile(`\b([XY](1[6-9]|2\d|3[01])|[ZK]\d+)\b`)
	name := ""
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "TEXT ·"); ok {
			name, _, _ = strings.Cut(rest, "(")
		}
		if strings.HasSuffix(name, "AVX2") && beyond.MatchString(line) {
			t.Errorf("%s: %s", name, strings.TrimSpace(line))
		}
	}
}
