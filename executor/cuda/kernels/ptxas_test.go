package kernels_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/executor/cuda/kernels"
)

// architectures are the oldest that the kernels are for, and that of an H200.
var architectures = []string{"sm_70", "sm_90"}

// registersText is what ptxas -v says of a kernel.
var registersText = regexp.MustCompile(
	`Compiling entry function '(\w+)'(?s:.*?)(\d+) bytes spill stores(?s:.*?)Used (\d+) registers`)

// TestAssembled: NVIDIA's assembler takes all modules, and every kernel has registers for as many
// threads as it may be launched with.
func TestAssembled(t *testing.T) {
	ptxas := cmp.Or(os.Getenv("MEMOPT_PTXAS"), "ptxas")
	if _, err := exec.LookPath(ptxas); err != nil {
		t.Skip("ptxas is missing, which assembles PTX: it is in NVIDIA's toolkit (apt-get install " +
			"nvidia-cuda-toolkit, section non-free); MEMOPT_PTXAS may name the file")
	}
	for _, module := range kernels.Modules() {
		for _, arch := range architectures {
			t.Run(module+"/"+arch, func(t *testing.T) { assemble(t, ptxas, module, arch) })
		}
	}
}

func assemble(t *testing.T, ptxas, module, arch string) {
	entries, err := kernels.Entries(module)
	require.NoError(t, err)
	image, err := kernels.PTX(module)
	require.NoError(t, err)
	in, object := filepath.Join(t.TempDir(), module+".ptx"), filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.WriteFile(in, image, 0o666))
	out, err := exec.Command(ptxas, "-v", "-arch="+arch, in, "-o", object).CombinedOutput()
	require.NoError(t, err, string(out))
	found := registersText.FindAllSubmatch(out, -1)
	require.Len(t, found, len(entries), string(out))
	for _, m := range found {
		name := string(m[1])
		registers, err := strconv.Atoi(string(m[3]))
		require.NoError(t, err)
		// A warp gets registers 8 for each thread at a time, and a block 65536 in all.
		threads := entries[name].Threads
		require.LessOrEqual(t, (registers+7)/8*8*threads, 65536, "%s: %d threads of %d registers",
			name, threads, registers)
		if string(m[2]) != "0" {
			t.Logf("%s keeps %s bytes of its registers in memory", name, m[2])
		}
	}
}
