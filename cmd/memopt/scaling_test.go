package main

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"memopt/cmd/memopt/internal/cli"
	"memopt/graph/onnx"
	"memopt/internal/test/graphtest"
	"memopt/internal/test/rapidflags"
)

// scalingVerbs are the command lines whose work should grow as the model does, up to a logarithm.
var scalingVerbs = map[string]string{
	"inspect":      "inspect MODEL",
	"plan":         "plan MODEL",
	"level1":       "plan MODEL --level 1",
	"level2":       "plan MODEL --level 2",
	"order-memory": "plan MODEL --level 1 --order memory",
	"budget":       "plan MODEL --budget 80% --time-limit 0",
	"dim":          "plan MODEL --level 1 --dim N=4",
	"apply":        "apply MODEL --level 1 -o out.onnx",
	"grad":         "grad MODEL -o out.onnx",
	"null":         "run MODEL -e null -r 1",
}

// member writes the member of size n of a family, and returns its file.
func member(t testing.TB, f graphtest.Family, n int) string {
	t.Helper()
	file := fmt.Sprintf("%s_%d.onnx", f.Name, n)
	m := f.Make(n)
	m.Path = ""
	require.NoError(t, onnx.WriteFile(file, m, onnx.Options{}))
	return file
}

// allocated runs a command line and returns the bytes that it allocated.
func allocated(t *testing.T, line string) (bytes uint64, out ended) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out = inProcess(t.Context(), nil, line)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, out
}

// TestAllocationsAreLinear: four times the graph takes no more than about four times the memory,
// allocated in all, whatever it is that there is more of and whatever is done with it.
func TestAllocationsAreLinear(t *testing.T) {
	const small, times, slack = 100, 4, 1.5
	const started = 4 << 20 // bytes that a run takes whatever it is given
	t.Chdir(t.TempDir())
	for i, f := range graphtest.Families() {
		if f.Bounded {
			continue
		}
		files := [2]string{member(t, f, small), member(t, f, times*small)}
		for j, verb := range slices.Sorted(maps.Keys(scalingVerbs)) {
			if (i+j)%2 != 0 && !rapidflags.All() { // every verb with half of the families
				continue
			}
			line := scalingVerbs[verb]
			var bytes [2]uint64
			var codes [2]int
			for i, file := range files {
				var out ended
				bytes[i], out = allocated(t, strings.Replace(line, "MODEL", file, 1))
				codes[i] = out.code
				require.NotEqual(t, cli.ExitInternal, out.code, "%s of %s: %s", verb, file, out.errors)
			}
			require.Equal(t, codes[0], codes[1], "%s of %s", verb, f.Name)
			require.LessOrEqual(t, float64(bytes[1]), slack*times*float64(bytes[0]+started),
				"%s of %s: %d bytes, then %d", verb, f.Name, bytes[0], bytes[1])
		}
	}
}

// TestBoundedFamilies: what cannot be linear ends early: functions that call functions twice each
// are refused before they are copied, and subgraphs nest so deep and no deeper.
func TestBoundedFamilies(t *testing.T) {
	const most = 256 << 20 // bytes that a refusal may allocate
	t.Chdir(t.TempDir())
	for name, c := range map[string]struct {
		n    int
		says string
	}{
		"doubling": {40, "inlining the model's functions makes more than 2000000 nodes"},
		"nested":   {65, "graphs are nested more than 64 deep"},
	} {
		f := graphtest.Select(t, name)[0]
		require.True(t, f.Bounded)
		file := member(t, f, c.n)
		for _, line := range scalingVerbs {
			bytes, out := allocated(t, strings.Replace(line, "MODEL", file, 1))
			require.Equal(t, cli.ExitInvalid, out.code, "%s: %s", line, out.errors)
			require.Contains(t, out.errors, c.says)
			require.Less(t, bytes, uint64(most), line)
		}
	}
	nested := member(t, graphtest.Select(t, "nested")[0], 60)
	for verb, line := range map[string]string{"level1": scalingVerbs["level1"], "grad": scalingVerbs["grad"]} {
		bytes, out := allocated(t, strings.Replace(line, "MODEL", nested, 1))
		require.Zero(t, out.code, "%s: %s", verb, out.errors)
		require.Less(t, bytes, uint64(most), verb)
	}
}

// BenchmarkScaling runs every verb on every family at sizes n, 2n, 4n and 8n, and reports the
// seconds of the largest and the exponent with which time grows from n to 8n: 1 is linear.
// MEMOPT_SCALING sets n, 2,000 unless it is given.
func BenchmarkScaling(b *testing.B) {
	n := 2000
	if text, ok := os.LookupEnv("MEMOPT_SCALING"); ok {
		_, err := fmt.Sscan(text, &n)
		require.NoError(b, err)
	}
	b.Chdir(b.TempDir())
	for _, f := range graphtest.Families() {
		if f.Bounded {
			continue
		}
		for verb, line := range scalingVerbs {
			b.Run(f.Name+"/"+verb, func(b *testing.B) {
				var seconds [4]float64
				for range b.N {
					for i := range seconds {
						file := filepath.Join(".", fmt.Sprintf("%s_%d.onnx", f.Name, n<<i))
						if _, err := os.Stat(file); err != nil {
							member(b, f, n<<i)
						}
						start := time.Now()
						inProcess(b.Context(), nil, strings.Replace(line, "MODEL", file, 1))
						seconds[i] = time.Since(start).Seconds()
					}
				}
				b.ReportMetric(seconds[3], "s-at-8n")
				b.ReportMetric(math.Log(seconds[3]/seconds[0])/math.Log(8), "exponent")
			})
		}
	}
}
