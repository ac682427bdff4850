package remat

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"memopt/internal/test/answers"
)

// TestAnswers holds the extra runs that searches find for graphs too large for an oracle, and the bounds
// that they prove, to testdata/answers.txt.
func TestAnswers(t *testing.T) {
	var have strings.Builder
	for seed := range uint64(6) {
		for _, solver := range []string{"greedy", "lns", "exact", "chain", "auto"} {
			for _, part := range []float64{0.95, 0.88, 0.8} {
				n := 14 + 6*int(seed)
				in := layered(n, 3*n, part, seed)
				r, err := Solve(context.Background(), in, Options{Solver: solver, Seed: int64(seed), Nodes: 60_000})
				fmt.Fprintf(&have, "%d nodes in %.0f %%, %s: ", n, 100*part, solver)
				if err != nil {
					fmt.Fprintln(&have, err)
					continue
				}
				fmt.Fprintf(&have, "cost %d, at least %d, peak at least %d, optimal %t, by %s, in order %t, %s\n",
					r.Cost, r.CostLowerBound, r.PeakLowerBound, r.Optimal, r.Solver, r.InOrder, answers.Sum(r.Schedule))
			}
		}
	}
	for name, g := range graphsToAnswer() {
		s := NewSearch(g, 5)
		plain := s.d.peak()
		for _, part := range []int64{85, 60, 35} {
			a, err := s.Fit(context.Background(), plain*part/100, 30_000)
			fmt.Fprintf(&have, "%s in %d %%: %s\n", name, part, textOf(a, err))
			extras := g.ChainExtras(context.Background(), plain*part/100)
			fmt.Fprintf(&have, "%s in %d %%, as a chain: %d extras, %s\n", name, part, len(extras), answers.Sum(extras))
		}
		for _, work := range []int64{300, 3000, 30_000} {
			tasks, at := g.CutExtras(context.Background(), plain*7/10, work)
			fmt.Fprintf(&have, "%s, bounds for work %d: peak %d, cost in 70 %% %d, a cut %v at %d\n", name, work,
				g.PeakBound(context.Background(), work), g.CostBound(context.Background(), plain*7/10, work), tasks, at)
		}
		a, err := s.Lowest(context.Background(), 50_000)
		fmt.Fprintf(&have, "%s, lowest: %s\n", name, textOf(a, err))
	}
	answers.Hold(t, "testdata/answers.txt", have.String())
}

// textOf is an answer in a line.
func textOf(a *Answer, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("cost %d, peak %d, %d extras by %s, %s", a.Cost, a.Peak, len(a.Extras), a.Method,
		answers.Sum(a.Extras))
}

// graphsToAnswer yields graphs of all kinds by their names.
func graphsToAnswer() func(yield func(string, *Graph) bool) {
	return func(yield func(string, *Graph) bool) {
		for seed := range uint64(5) {
			rng := rand.New(rand.NewPCG(seed, 33))
			if !yield(fmt.Sprintf("training %d", seed), randomTraining(rng, 6+3*int(seed))) ||
				!yield(fmt.Sprintf("any %d", seed), randomGraph(rng, 15+8*int(seed))) ||
				!yield(fmt.Sprintf("layered %d", seed), layeredGraph(30+10*int(seed), 4, seed)) {
				return
			}
		}
		_ = yield("blocks", blockGraph(4)) && yield("forth and back", forthAndBack(25))
	}
}
