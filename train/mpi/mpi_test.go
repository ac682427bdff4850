//go:build linux && amd64 && !nodl

package mpi_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// launchers are the mpiruns that tests start ranks by, with the package of Debian that has each.
var launchers = []struct {
	name, packages string
	args           []string
	library        string // of its MPI
}{
	{"mpirun.openmpi", "openmpi-bin libopenmpi3", []string{"--oversubscribe"}, "libmpi.so.40"},
	{"mpirun.mpich", "mpich libmpich12", nil, "libmpich.so.12"},
}

// eachLauncher runs a test with every mpirun that there is.
func eachLauncher(t *testing.T, test func(t *testing.T, start starter)) {
	for i, l := range launchers {
		t.Run(l.name, func(t *testing.T) {
			if _, err := exec.LookPath(l.name); err != nil {
				t.Skipf("no %s: apt-get install %s", l.name, l.packages)
			}
			test(t, func(ranks int, role string, env ...string) result { return launch(t, i, ranks, role, env) })
		})
	}
}

// starter starts ranks that play a role.
type starter func(ranks int, role string, env ...string) result

// result is what ranks have left.
type result struct {
	code           int
	stdout, stderr string
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
}

// launch starts ranks by a launcher.
func launch(t *testing.T, which, ranks int, role string, env []string) result {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	l := launchers[which]
	cmd := exec.CommandContext(t.Context(), l.name, append(l.args, "-n", strconv.Itoa(ranks), self)...)
	cmd.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		roleVariable+"="+role, "MEMOPT_MPI_TIMEOUT=60s", "MEMOPT_MPI_EXACT=true")
	cmd.Env = append(cmd.Env, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// TestDraws: what ranks in processes compute is what ranks in one process compute, to the bit where
// sums are exact. Nothing is said on standard error.
func TestDraws(t *testing.T) {
	eachLauncher(t, func(t *testing.T, start starter) {
		for _, ranks := range []int{2, 4} {
			for _, exact := range []bool{true, false} {
				t.Run(fmt.Sprintf("%d ranks, exact=%v", ranks, exact), func(t *testing.T) {
					r := start(ranks, "draws", "MEMOPT_MPI_DRAWS=12", fmt.Sprintf("MEMOPT_MPI_EXACT=%v", exact))
					require.Equal(t, result{}, r, r.String())
				})
			}
		}
	})
}

// TestAllocates nothing for operations that have been done before.
func TestAllocates(t *testing.T) {
	eachLauncher(t, func(t *testing.T, start starter) {
		r := start(2, "allocs")
		require.Zero(t, r.code, r.String())
		require.Equal(t, 2, strings.Count(r.stdout, ": 0 allocations, "), r.String())
	})
}

// TestSignals: MPI takes no signal away from Go.
func TestSignals(t *testing.T) {
	eachLauncher(t, func(t *testing.T, start starter) {
		r := start(2, "signals")
		require.Zero(t, r.code, r.String())
		require.Equal(t, 2, strings.Count(r.stdout, "signals are Go's"), r.String())
	})
}

// TestAbort: a rank that fails ends all others with its exit code, whatever they do.
func TestAbort(t *testing.T) {
	eachLauncher(t, func(t *testing.T, start starter) {
		r := start(3, "abort")
		require.Equal(t, 42, r.code, r.String())
		require.Empty(t, r.stdout, "no rank goes on: %v", r)
	})
}

// TestVanish: a rank that ends without a word ends the others: the launcher sees it.
func TestVanish(t *testing.T) {
	eachLauncher(t, func(t *testing.T, start starter) {
		r := start(2, "vanish")
		require.NotZero(t, r.code, r.String()) // 5 or, of MPICH, how the others were ended
	})
}

// TestTimeout: those who wait too long say for what and for whom.
func TestTimeout(t *testing.T) {
	eachLauncher(t, func(t *testing.T, start starter) {
		for _, c := range []struct{ name, role, env, op, want string }{
			{"stopped before", "stopped", "", "operation 2, all-reduce of 4000 bytes of type float",
				"rank 2 does not answer"},
			{"stopped in the midst", "stopped", "MEMOPT_MPI_MIDST=1",
				"operation 2, all-reduce of 251658240 bytes of type float", "rank 2 does not answer"},
			{"late", "late", "", "operation 1, all-reduce of 4000 bytes of type float",
				"rank 2 answers, but has not come to it"},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := start(3, c.role, c.env, "MEMOPT_MPI_TIMEOUT=2s")
				require.Equal(t, 8, r.code, r.String())
				for rank := range 2 {
					require.Regexp(t, fmt.Sprintf(`rank %d has waited 2\S*s for %s: %s\n`, rank, c.op, c.want), r.stdout,
						r.String())
				}
			})
		}
	})
}

// TestMismatch: ranks that call different things, or sum in different ways, learn of it.
func TestMismatch(t *testing.T) {
	eachLauncher(t, func(t *testing.T, start starter) {
		r := start(2, "differ")
		require.Contains(t, r.stdout, "operation 1: rank 0 calls all-reduce of 400 bytes of type float, rank 1 "+
			"all-reduce of 404 bytes of type float; all ranks must do the same in the same order")
		r = start(2, "differ", "MEMOPT_MPI_EXACT=rank 1")
		require.Contains(t, r.stdout, "rank 0 sums as MPI does, rank 1 in the order of the ranks: Options.Exact must "+
			"be the same on all ranks")
	})
}

// TestWrongLibrary: with a library that is not the launcher's, every process is alone.
func TestWrongLibrary(t *testing.T) {
	eachLauncher(t, func(t *testing.T, start starter) {
		for _, c := range []struct{ library, want string }{
			{"libc.so.6", "libc.so.6 is no MPI library: it has no function MPI_Get_library_version"},
			{"/nowhere/libmpi.so", "/nowhere/libmpi.so: cannot open shared object file"},
		} {
			r := start(2, "close", "MEMOPT_MPI_LIBRARY="+c.library)
			require.Equal(t, 3, r.code, r.String())
			require.Contains(t, r.stderr, c.want)
		}
		for _, l := range launchers {
			if _, err := exec.LookPath(l.name); err != nil || strings.HasSuffix(t.Name(), l.name) {
				continue
			}
			r := start(2, "close", "MEMOPT_MPI_LIBRARY="+l.library)
			require.Equal(t, 3, r.code, r.String())
			require.Regexp(t, `has started 2 ranks, of which this is [01], but for .* it is 0 of 1: the library must be `+
				`that of the launcher`, r.stderr)
		}
	})
}
