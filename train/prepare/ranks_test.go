package prepare_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
	"memopt/train/collective"
	"memopt/train/prepare"
)

// onRanks runs a function on each of n ranks at once, and returns its results by rank.
func onRanks[T any](t *rapid.T, n int, run func(r prepare.Ranks) (T, error)) []T {
	groups := collective.Local(n)
	results, errs := make([]T, n), make([]error, n)
	var wait sync.WaitGroup
	for i, g := range groups {
		wait.Go(func() {
			results[i], errs[i] = run(prepare.Ranks{Group: g})
			errs[i] = errors.Join(errs[i], g.Close()) // which waits for the others
		})
	}
	wait.Wait()
	for i := range n {
		require.NoError(t, errs[i])
	}
	return results
}

// TestRanks compares the agreement of ranks with that of one process that knows all of them: the ranks that differ from
// rank 0 with the differing part, the smallest number, and the first rank that reports an error.
func TestRanks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "ranks")
		values := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 1), 2, 2), n, n).Draw(t, "values")
		names := []string{"plan", "seed"}
		want := &prepare.DifferError{}
		for r, v := range values {
			var parts []string
			for i, name := range names {
				if v[i] != values[0][i] {
					parts = append(parts, name)
				}
			}
			if len(parts) > 0 {
				want.Ranks, want.Parts = append(want.Ranks, r), append(want.Parts, parts)
			}
		}
		for _, err := range onRanks(t, n, func(r prepare.Ranks) (error, error) {
			v := values[r.Group.Rank()]
			return r.Same(prepare.Part{Name: names[0], Value: v[0]}, prepare.Part{Name: names[1], Value: v[1]}), nil
		}) {
			if len(want.Ranks) == 0 {
				require.NoError(t, err)
				continue
			}
			var differ *prepare.DifferError
			require.ErrorAs(t, err, &differ)
			require.Equal(t, want, differ)
		}

		sizes := rapid.SliceOfN(rapid.Int64Range(1, 100), n, n).Draw(t, "sizes")
		for _, least := range onRanks(t, n, func(r prepare.Ranks) (int64, error) {
			return r.Least(sizes[r.Group.Rank()])
		}) {
			require.Equal(t, slices.Min(sizes), least)
		}

		codes := rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 2, 3}), n, n).Draw(t, "codes")
		texts := make([]string, n) // ranks with the same code have the same message
		for r, code := range codes {
			texts[r] = []string{0: "", 2: "usage", 3: "memory"}[code]
		}
		for r, f := range onRanks(t, n, func(r prepare.Ranks) (*prepare.Failure, error) {
			return r.Agree(codes[r.Group.Rank()], texts[r.Group.Rank()])
		}) {
			first := slices.IndexFunc(codes, func(code int) bool {
				return code != 0 && (codes[r] == 0 || code == codes[r])
			})
			if first < 0 {
				require.Nil(t, f)
				continue
			}
			require.Equal(t, &prepare.Failure{Rank: first, Code: codes[first]}, f)
		}
	})
}
