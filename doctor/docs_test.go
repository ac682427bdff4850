package doctor

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/report"
)

// shown is the machine that the docs show.
func shown() *Machine {
	files := node()
	files["proc/loadavg"] = "2.00 2.00 2.00 1/100 5\n"
	files["proc/sys/vm/overcommit_memory"] = "0\n"
	files["sys/kernel/mm/transparent_hugepage/enabled"] = "always [madvise] never\n"
	files["usr/lib/x86_64-linux-gnu/libjemalloc.so.2"] = ""
	m := machine(files, map[string]string{"OPENBLAS_CORETYPE": "Haswell", "GOGC": "800"})
	m.Libraries = []Library{
		{Name: openBLAS, Version: "OpenBLAS 0.3.21", Path: "/usr/lib/x86_64-linux-gnu/libopenblas.so.0"},
		{Name: oneDNN, Missing: "it was not found"},
		{Name: cudaDriver, Missing: "no NVIDIA driver"},
	}
	return m
}

// TestDocs: the docs show what is printed for such a machine; UPDATE_README=1 writes it.
func TestDocs(t *testing.T) {
	m := shown()
	var b bytes.Buffer
	require.NoError(t, m.Report(&b, report.TableFormat, m.Examine()))
	sameBlock(t, "../docs/doctor.md", b.String())
	first, _, found := strings.Cut(b.String(), "\nWhat costs memory")
	require.True(t, found)
	sameBlock(t, "../README.md", first+"…\n")
}

// sameBlock holds the block of a file that shows the verb to what is printed.
func sameBlock(t *testing.T, path, printed string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	const begin = "```text\n$ memopt doctor\n"
	head, rest, found := strings.Cut(string(data), begin)
	require.True(t, found, path)
	have, tail, closed := strings.Cut(rest, "```\n")
	require.True(t, closed)
	if os.Getenv("UPDATE_README") != "" {
		require.NoError(t, os.WriteFile(path, []byte(head+begin+printed+"```\n"+tail), 0o644))
		return
	}
	require.Equal(t, printed, have, "UPDATE_README=1 go test ./doctor updates %s", path)
}
