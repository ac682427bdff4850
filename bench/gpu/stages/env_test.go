package stages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/internal/test/double"
)

// TestOwnLibraries: libraries that are there are distinguished from those that are not.
func TestOwnLibraries(t *testing.T) {
	for missing, want := range map[bool]Result{false: Pass, true: NotAvailable} {
		d := double.New(double.Options{NoLibrary: missing, NoConvolutions: missing})
		r := &runner{rec: &Record{}, ctx: t.Context(), options: options{out: t.TempDir()}}
		r.ownLibraries(d)
		require.Len(t, r.rec.Rows, 2)
		for i, name := range []string{"libcublas", "libcudnn"} {
			require.Equal(t, name, r.rec.Rows[i].Check)
			require.Equal(t, want, r.rec.Rows[i].Result, r.rec.Rows[i].Note)
		}
		require.NoError(t, d.Close())
	}
}
