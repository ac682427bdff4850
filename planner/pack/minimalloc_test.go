package pack

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// minimallocNames are google/minimalloc's challenging instances.
var minimallocNames = []string{"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K"}

// minimallocCapacity is the capacity of all of them.
const minimallocCapacity = 1048576

func minimalloc(t testing.TB, name string) []Buffer {
	f, err := os.Open(filepath.Join("../../../shared/bench/minimalloc", name+".1048576.csv"))
	if err != nil {
		t.Skip("google/minimalloc's instances are missing; they lie beside the project in ../shared/bench/minimalloc: ",
			err)
	}
	defer f.Close()
	table, err := ReadCSV(f)
	require.NoError(t, err)
	return table.Buffers
}

func TestMinimalloc(t *testing.T) {
	for _, name := range minimallocNames {
		t.Run(name, func(t *testing.T) {
			buffers := minimalloc(t, name)
			opts := Options{Capacity: minimallocCapacity, Nodes: 200_000}
			start := time.Now()
			r, err := Solve(context.Background(), buffers, opts)
			require.NoError(t, err)
			t.Logf("%d buffers, %d nodes, %s, %v", len(buffers), r.Nodes, r.Method,
				time.Since(start).Round(time.Millisecond))
			require.NoError(t, Check(buffers, r.Offsets, minimallocCapacity))
			again, err := Solve(context.Background(), buffers, opts)
			require.NoError(t, err)
			assert.Equal(t, r, again, "the same input and seed give the same answer")
		})
	}
}

// TestMinimallocSeeds rules out luck: other seeds and the buffers in reverse order of time work as
// well.
func TestMinimallocSeeds(t *testing.T) {
	for _, name := range minimallocNames {
		buffers := minimalloc(t, name)
		for i, b := range buffers {
			buffers[i] = Buffer{Lower: -b.Upper, Upper: -b.Lower, Size: b.Size}
		}
		r, err := Solve(context.Background(), buffers, Options{Capacity: minimallocCapacity, Nodes: 2_000_000, Seed: 7})
		require.NoError(t, err, name)
		require.NoError(t, Check(buffers, r.Offsets, minimallocCapacity), name)
	}
}

func BenchmarkMinimalloc(b *testing.B) {
	for _, name := range minimallocNames {
		b.Run(name, func(b *testing.B) {
			buffers := minimalloc(b, name)
			var r *Result
			for b.Loop() {
				var err error
				if r, err = Solve(context.Background(), buffers, Options{Capacity: minimallocCapacity}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(r.Nodes), "nodes")
		})
	}
}
