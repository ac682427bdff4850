package remat

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shared is where the abstract instances lie, beside the checkout.
const shared = "../../../shared/bench/recompute"

// reference is a line of reference.json.
type reference struct {
	Name   string   `json:"name"`
	Best   *float64 `json:"best_overhead_pct"`
	Proven bool     `json:"proven_optimal_in_order"`
}

func references(t *testing.T) []reference {
	data, err := os.ReadFile(filepath.Join(shared, "reference.json"))
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the sample instances are missing; they lie beside the project in ../shared/bench/recompute")
	}
	require.NoError(t, err)
	var refs []reference
	require.NoError(t, json.Unmarshal(data, &refs))
	return refs
}

// TestReference compares the overheads with the best known ones. The work is counted, so that the
// speed of the machine plays no part; REMAT_SECONDS sets a time for each instance instead.
func TestReference(t *testing.T) {
	limit, opts := time.Hour, Options{Solver: os.Getenv("REMAT_SOLVER"), Nodes: 6_000_000}
	if s := os.Getenv("REMAT_SECONDS"); s != "" {
		var err error
		limit, err = time.ParseDuration(s + "s")
		require.NoError(t, err)
		opts.Nodes = 0
	}
	for _, ref := range references(t) {
		t.Run(ref.Name, func(t *testing.T) {
			f, err := os.Open(filepath.Join(shared, ref.Name+".json"))
			require.NoError(t, err)
			defer f.Close()
			in, err := Read(f)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			var last, hit time.Duration
			start := time.Now()
			opts.Progress = func(Progress) { last = time.Since(start) }
			r, err := Solve(ctx, in, opts)
			hit = time.Since(start)
			if ref.Best == nil && errors.Is(err, ErrInfeasible) {
				t.Logf("%-16s best    none  %v", ref.Name, err)
				return
			}
			require.NoError(t, err)
			base := 0.0
			for _, n := range in.Nodes {
				base += float64(n.Cost)
			}
			over := 100 * (float64(r.Cost) - base) / base
			low := 100 * (float64(r.CostLowerBound) - base) / base
			best := -1.0
			if ref.Best != nil {
				best = *ref.Best
			}
			t.Logf("%-16s best %8.4f got %8.4f r %.3f bound %8.4f optimal %v %s last %.2fs of %.2fs",
				ref.Name, best, over, (over+0.5)/(best+0.5), low, r.Optimal, r.Solver,
				last.Seconds(), hit.Seconds())
			require.LessOrEqual(t, low, over)
			require.True(t, r.InOrder)
			if ref.Best != nil && opts.Nodes > 0 {
				require.LessOrEqual(t, over, best+1e-3)
			}
			if ref.Proven {
				require.GreaterOrEqual(t, over, best-1e-3)
				require.LessOrEqual(t, low, best+1e-3)
			}
		})
	}
}
