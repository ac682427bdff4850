package check_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestValid: no alarm over valid plans, and the numbers of the plain reading.
func TestValid(t *testing.T) {
	moved := 0
	for _, p := range plans(t, 1, 200) {
		r := p.check()
		require.Empty(t, r.Faults, "%s: %s\n%s", p.name, text(p.instance), text(p.answer))
		require.True(t, r.Valid)
		require.Equal(t, []string{"steps", "copies", "numbers"}, r.Proved)
		require.InDelta(t, p.answer["overhead"], r.Overhead, 1e-9)
		require.Equal(t, p.answer["peak"], r.Peak)
		if p.answer["link"] != nil {
			moved++
			require.Equal(t, p.answer["host_peak"], r.HostPeak)
			require.InDelta(t, p.answer["makespan"], r.Makespan, 1e-6)
		}
	}
	require.Greater(t, moved, 50)
}

// TestInstances: no alarm over answers for the instances that the repository has.
func TestInstances(t *testing.T) {
	files, err := filepath.Glob("../planner/remat/testdata/joint/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, share := range []float64{0.9, 0.5} {
			p := solved(t, file, read(t, b), share)
			require.NotNil(t, p)
			r := p.check()
			require.Empty(t, r.Faults, "%s at %g", file, share)
		}
	}
}
