package doctor

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/view/report"
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
		{Name: openBLAS, Version: "OpenBLAS 0.3.21",
			Path: "/usr/lib/x86_64-linux-gnu/libopenblas.so.0"},
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
	sameBlock(t, "../../docs/doctor.md", "memopt doctor", b.String())
	first, _, found := strings.Cut(b.String(), "\nCosts memory")
	require.True(t, found)
	sameBlock(t, "../../docs/tour.md", "memopt doctor", first+"…\n")
}

// TestTrialDocs: the docs show what a trial prints.
func TestTrialDocs(t *testing.T) {
	tr := &Trial{Runs: 5, Command: []string{"python", "train.py"}}
	run := func(mebibytes, milliseconds int64) Run {
		return Run{Peak: mebibytes << 20, Tree: mebibytes << 20,
			Wall: time.Duration(milliseconds) * time.Millisecond}
	}
	o := &Outcome{Finished: true, Rows: []Row{
		{Runs: []Run{run(1530, 8100), run(1524, 8040), run(1531, 8190), run(1527, 8120), run(1529, 8070)}},
		{Setting: "MALLOC_ARENA_MAX=1",
			Runs: []Run{run(1212, 8150), run(1210, 8060), run(1215, 8170), run(1211, 8090), run(1213, 8130)}},
		{Setting: "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
			Runs: []Run{run(1320, 7420), run(1325, 7380), run(1319, 7510), run(1322, 7450), run(1324, 7470)}},
		{Setting: "OMP_NUM_THREADS=4",
			Runs: []Run{run(1528, 6900), run(1530, 6950), run(1525, 6870), run(1526, 6910), run(1529, 6980)}},
	}}
	o.summarize()
	var b bytes.Buffer
	require.NoError(t, tr.Report(&b, report.TableFormat, o))
	sameBlock(t, "../../docs/doctor.md", "memopt doctor --try -- python train.py", b.String())
	for _, format := range []report.Format{report.CSVFormat, report.MarkdownFormat, report.JSONFormat} {
		b.Reset()
		require.NoError(t, tr.Report(&b, format, o))
		require.Contains(t, b.String(), "OMP_NUM_THREADS=4")
	}
}

// sameBlock holds the block of a file that shows the verb to what is printed.
func sameBlock(t *testing.T, path, command, printed string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	begin := "```text\n$ " + command + "\n"
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
