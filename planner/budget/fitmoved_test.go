package budget

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/internal/test/graphtest"
	"memopt/planner/arena"
	"memopt/planner/offload"
	"memopt/planner/remat"
)

// TestFitMoved compares plans whose values move with plans that only recompute and with the bound of moves: they cost
// no less than that, and some cost less than plans that only recompute.
func TestFitMoved(t *testing.T) {
	found, cheaper, waited := 0, 0, 0
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		m := graphtest.Vectors(20+rng.IntN(12), rng.IntN)
		p := problemOf(t, m, nil, graph.FileOrder(m.Graph))
		total := 0.0
		for _, s := range p.Seconds {
			total += s
		}
		if total == 0 {
			continue
		}
		bytes := p.Base.Peak.Bytes * 17 / 20
		link := offload.Link{BytesPerSecond: float64(p.Base.Peak.Bytes) / total * 4}
		o := &Options{Bytes: bytes, Effort: 0.01}
		plain, err := Fit(context.Background(), p, o)
		var none *InfeasibleError
		if err != nil {
			require.ErrorAs(t, err, &none)
		}
		with := *o
		with.Lent = Lent{Link: link, Hold: math.MaxInt64 / 4}
		a, err := Fit(context.Background(), p, &with)
		if errors.As(err, &none) {
			continue
		}
		require.NoError(t, err)
		tk, over := newTasks(p.Evaluator, p.Seconds, arena.Align, p.Base.State), a.Waits
		over += float64(costOf(tk, p, a.Placements)) / tk.stepCost()
		bound := MovedBound(context.Background(), p, bytes, link.BytesPerSecond)
		require.LessOrEqual(t, bound.Overhead, over+1e-9, "seed %d", seed)
		found++
		if a.Waits > 0 {
			waited++
		}
		with.Lent.Hold = arena.Alignment // too little for most values
		held, err := Fit(context.Background(), p, &with)
		if err == nil {
			e, err := p.Evaluator.Simulate(held.Placements)
			require.NoError(t, err)
			require.LessOrEqual(t, e.Peak, bytes+arena.Alignment, "seed %d: no more moves than the host holds", seed)
		} else {
			require.ErrorAs(t, err, &none)
		}
		if plain == nil || over < float64(costOf(tk, p, plain.Placements))/tk.stepCost() {
			cheaper++
		}
	}
	t.Logf("%d plans, %d cheaper or where none is without moves", found, cheaper)
	require.Positive(t, cheaper)
	require.Positive(t, waited)
}

// TestFollow: of a list of extra runs, moves see the bytes of the simulation less those beside it, the cost of each
// run, and each value between two of its uses, but for kept ones and parts.
func TestFollow(t *testing.T) {
	parts, kept, lives := 0, 0, 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 5))
		m := graphtest.Training(rng, graphtest.Options{Nodes: 30, Parts: true, Rows: 8, Width: 64})
		_, err := op.Infer(m)
		require.NoError(t, err)
		if _, err := live.FindBoundary(m); err != nil {
			continue
		}
		p := problemOf(t, m, nil, nil)
		b := newBudgeter(t.Context(), p, &Options{Bytes: 1})
		f := &lentFit{budgeter: b, units: unitsPerSecond(p.Seconds)}
		g := b.tasks.graph
		for v := range g.Values {
			g.Values[v].Keep = g.Values[v].Keep || rng.IntN(8) == 0
		}
		out, err := g.Simulate(nil)
		require.NoError(t, err)
		tasks, at := g.CutExtras(t.Context(), out.Peak*9/10, 0)
		a := &remat.Answer{Extras: g.FromCut(tasks, at)}
		g.Beside = make([]int64, len(g.Tasks))
		for i := range g.Beside {
			g.Beside[i] = rng.Int64N(1000)
		}
		follows, err := f.follow(a)
		require.NoError(t, err)
		out, err = g.Simulate(a.Extras)
		require.NoError(t, err)
		runs, gaps := g.Runs(a.Extras), map[offload.Gap]bool{}
		uses := make([][]int32, len(g.Values)) // by value: the runs that make the newest output and read it
		close := func(v int32) {
			for i := 1; i < len(uses[v]); i++ {
				gap := offload.Gap{Size: g.Values[v].Size, Made: uses[v][0], After: uses[v][i-1], Before: uses[v][i]}
				switch {
				case gap.Before-gap.After < 2 || gap.Size == 0:
				case b.tasks.isPart[v]:
					parts++
				case g.Values[v].Keep:
					kept++
				default:
					gaps[gap] = true
				}
			}
			uses[v] = nil
		}
		place := int32(0)
		for i, r := range runs {
			require.InDelta(t, p.Seconds[p.Evaluator.Analysis.Order[r.Task]]*1e6, follows.line.Cost[i], 1e-6)
			if !r.Extra {
				place = r.Task
			}
			require.Equal(t, place, follows.places[i])
			require.Equal(t, out.Live[i]-g.Beside[place], follows.line.Bytes[i])
			if !r.Extra {
				place++
			}
			for _, u := range g.Tasks[r.Task].Uses {
				uses[u] = append(uses[u], int32(i))
			}
			for _, v := range g.Tasks[r.Task].Makes {
				close(v)
				uses[v] = []int32{int32(i)}
			}
		}
		for v := range uses {
			close(int32(v))
		}
		of := map[int32]offload.Gap{} // by life: a gap of it
		for _, gap := range follows.line.Gaps {
			same := gap
			same.Life = 0
			require.True(t, gaps[same], "seed %d: %+v", seed, gap)
			if first, ok := of[gap.Life]; ok {
				require.Equal(t, first.Made, gap.Made, "one life is of one output")
				lives++
			}
			of[gap.Life] = gap
		}
		for gap := range gaps {
			found := slices.ContainsFunc(follows.line.Gaps, func(x offload.Gap) bool { x.Life = 0; return x == gap })
			require.True(t, found, "seed %d: %+v", seed, gap)
		}
	}
	require.Positive(t, parts)
	require.Positive(t, kept)
	require.Positive(t, lives)
}

// TestInFlight: half of the bytes that move are of values up to the size.
func TestInFlight(t *testing.T) {
	m := &followed{}
	require.Zero(t, m.inFlight())
	for i, size := range []int64{40, 1, 3, 10, 2, 4, 10, 10} {
		m.line.Gaps = append(m.line.Gaps, offload.Gap{Size: size})
		m.moves = append(m.moves, offload.Move{Gap: int32(i)})
	}
	require.EqualValues(t, 10, m.inFlight())
	m.moves = m.moves[:2]
	require.EqualValues(t, 40, m.inFlight())
}
