package planner

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"memopt/planner/arena"
)

// TestFindHeadroom: the largest size that fits, whatever was guessed, after a logarithmic number of
// plans.
func TestFindHeadroom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		below := rapid.Int64Range(1, 1<<40).Draw(t, "below")
		most := rapid.Int64Range(0, below-1).Draw(t, "most")
		guess := rapid.Int64Range(-1, below+1).Draw(t, "guess")
		tries := 0
		r, err := FindHeadroom(t.Context(), "n", below, guess, func(n int64) (*Plan, error) {
			require.True(t, 0 < n && n < below)
			if tries++; n > most {
				return nil, &InfeasibleError{}
			}
			return &Plan{Arena: &arena.Layout{Bytes: 3 * n}, Persistent: 5, Overhead: float64(n)}, nil
		})
		require.NoError(t, err)
		want := &Headroom{Symbol: "n", Below: below, Complete: true}
		if most > 0 {
			want.Size, want.Arena, want.Total, want.Overhead = most, 3*most, 3*most+5, float64(most)
		}
		require.Equal(t, want, r)
		require.LessOrEqual(t, tries, 42)
	})
}

// TestFindHeadroomEnds: an error ends the search; a context that is done, too, with the sizes found so far.
func TestFindHeadroomEnds(t *testing.T) {
	broken := errors.New("broken")
	_, err := FindHeadroom(t.Context(), "n", 8, 4, func(int64) (*Plan, error) { return nil, broken })
	require.ErrorIs(t, err, broken)
	ended, end := context.WithCancel(t.Context())
	end()
	none, err := FindHeadroom(ended, "n", 8, 4, func(int64) (*Plan, error) { return nil, broken })
	require.NoError(t, err, "nothing is tried when there is no time")
	require.Equal(t, &Headroom{Symbol: "n", Below: 8}, none)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := FindHeadroom(ctx, "n", 8, 2, func(n int64) (*Plan, error) {
		if n > 2 {
			cancel()
			return nil, &InfeasibleError{}
		}
		return &Plan{Arena: &arena.Layout{Bytes: 7}}, nil
	})
	require.NoError(t, err)
	require.Equal(t, &Headroom{Symbol: "n", Size: 2, Below: 8, Arena: 7, Total: 7}, r)
}
