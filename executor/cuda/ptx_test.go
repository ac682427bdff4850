package cuda_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor/cuda/kernels"
	"memopt/internal/test/rapidflags"
)

const someModules = 12

// TestPTX: the PTX that is checked in is the recorded compiler's output for the sources. That it was made
// of these sources is held by the manifest (kernels.TestManifest), so that one in someModules is compiled,
// or with MEMOPT_TESTS=all each.
func TestPTX(t *testing.T) {
	version, err := exec.Command("clang-14", "--version").Output()
	if err != nil {
		t.Skip("clang-14 is missing, which makes the PTX: apt-get install clang-14")
	}
	if line, _, _ := strings.Cut(string(version), "\n"); line != kernels.Compiler() {
		t.Skipf("the PTX is made by %q, here is %q: install that version, or make the PTX anew with go generate "+
			"./executor/cuda/kernels", kernels.Compiler(), line)
	}
	for i, module := range kernels.Modules() {
		if i%someModules != 0 && !rapidflags.All() {
			continue
		}
		t.Run(module, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.ptx")
			cmd := exec.Command("clang-14", append(append([]string{}, kernels.Flags...), module+".cu", "-o", out)...)
			cmd.Dir = "kernels"
			text, err := cmd.CombinedOutput()
			require.NoError(t, err, string(text))
			want, err := kernels.PTX(module)
			require.NoError(t, err)
			got, err := os.ReadFile(out)
			require.NoError(t, err)
			require.True(t, string(want) == string(got),
				"the PTX of %s is not what clang makes of the source: go generate ./executor/cuda/kernels", module)
		})
	}
}
