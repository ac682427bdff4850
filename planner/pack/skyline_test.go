package pack

import (
	"context"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestRoof compares the tree with a plain list of heights.
func TestRoof(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "sections")
		r, plain := newRoof(n), make([]int64, n)
		for range rapid.IntRange(1, 30).Draw(t, "jobs") {
			lo := rapid.IntRange(0, n-1).Draw(t, "lo")
			hi := rapid.IntRange(lo+1, n).Draw(t, "hi")
			want := int64(0)
			for _, h := range plain[lo:hi] {
				want = max(want, h)
			}
			require.Equal(t, want, r.height(int32(lo), int32(hi)))
			to := rapid.Int64Range(0, 100).Draw(t, "to")
			r.raise(int32(lo), int32(hi), to)
			for k := lo; k < hi; k++ {
				plain[k] = max(plain[k], to)
			}
		}
	})
}

// restingLowest packs as skyline says it does: of all jobs that are open it places the one with the
// smallest sum of height and waiting; of several, the first in the order.
func restingLowest(p *problem, order []int32, wait []int64) []int64 {
	top, offsets := make([]int64, p.sections), make([]int64, len(p.jobs))
	placed := make([]bool, len(p.jobs))
	for range order {
		best, at := int32(-1), int64(0)
		for _, i := range order {
			level := slices.Max(top[p.jobs[i].lo:p.jobs[i].hi])
			if !placed[i] && (best < 0 || level+wait[i] < at+wait[best]) {
				best, at = i, level
			}
		}
		placed[best], offsets[best] = true, at
		for k := p.jobs[best].lo; k < p.jobs[best].hi; k++ {
			top[k] = at + p.jobs[best].size
		}
	}
	return offsets
}

// TestSkylineIsValid packs in any order with any waiting, and lets the search end at any time. The
// whole packing would have reached the height at which it gives up.
func TestSkylineIsValid(t *testing.T) {
	on := func(int64) bool { return false }
	rapid.Check(t, func(t *rapid.T) {
		buffers := drawBuffers(t, 60)
		problems := split(buffers)
		if len(problems) == 0 {
			t.Skip("rapid drew no instance of this kind; it draws another")
		}
		p := problems[0]
		s := newSkyline(p, p.bound)
		rng := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		order := make([]int32, len(p.jobs))
		for rank, i := range rng.Perm(len(order)) {
			order[rank] = int32(i)
			s.wait[i] = rng.Int63n(2*p.bound+1) - p.bound
		}
		whole, ok := s.pass(order, math.MaxInt64, on)
		require.True(t, ok)
		require.Equal(t, restingLowest(p, order, s.wait), whole.offsets)
		r := &Result{Offsets: make([]int64, len(buffers))}
		own := make([]Buffer, len(p.ids))
		for i, id := range p.ids {
			own[i], r.Offsets[i] = buffers[id], whole.offsets[i]*p.unit
		}
		require.NoError(t, Check(own, r.Offsets[:len(own)], 0))
		require.Equal(t, height(own, r.Offsets), whole.height*p.unit)
		require.Equal(t, whole.height > p.bound, len(s.over) > 0)

		limit := rapid.Int64Range(1, 2*whole.height).Draw(t, "limit")
		_, ok = s.pass(order, limit, on)
		require.Equal(t, whole.height < limit, ok)
		s.looks, s.pause = rapid.Int64Range(0, 200).Draw(t, "looks"), 0
		if a, ok := s.pass(order, math.MaxInt64, on); ok {
			require.Equal(t, whole, a)
		}
	})
}

// TestSkylineTooLarge: heights that could overflow int64 are not added up.
func TestSkylineTooLarge(t *testing.T) {
	buffers := []Buffer{{0, 3, math.MaxInt64/4 - 1, nil}, {2, 5, math.MaxInt64 / 4, nil},
		{4, 6, math.MaxInt64 / 4, nil}}
	require.Nil(t, newSkyline(split(buffers)[0], 1))
	r := Greedy(context.Background(), buffers)
	require.NoError(t, Check(buffers, r.Offsets, r.Height))
}

// TestNearTheBound packs the buffers of training steps, as `memopt plan` has them (testdata), and
// random ones that are hard to fit. The greedy orders alone end higher.
func TestNearTheBound(t *testing.T) {
	cases := map[string][]Buffer{"random, 200": tight(200), "random, 300": tight(300)}
	files, err := filepath.Glob("testdata/*.csv")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		f, err := os.Open(name)
		require.NoError(t, err)
		table, err := ReadCSV(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		cases[filepath.Base(name)] = table.Buffers
	}
	for name, buffers := range cases {
		t.Run(name, func(t *testing.T) {
			r := Greedy(context.Background(), buffers)
			require.NoError(t, Check(buffers, r.Offsets, r.Height))
			require.True(t, valid(buffers, r.Offsets, r.Height))
			require.LessOrEqual(t, r.Height, r.LowerBound+r.LowerBound/closeEnough)
			require.Equal(t, r, Greedy(context.Background(), buffers))
			alone := int64(0)
			for _, p := range split(buffers) {
				a := p.greedy(r.LowerBound/p.unit, math.MaxInt64, greedyWork, func(int64) bool { return false })
				alone = max(alone, a.height*p.unit)
			}
			require.Greater(t, alone, r.LowerBound+r.LowerBound/closeEnough)
		})
	}
}

// TestSkylineRules compares every rule with the plain loop on jobs that live through many sections.
func TestSkylineRules(t *testing.T) {
	p := split(tight(250))[0]
	s := newSkyline(p, p.bound)
	for _, rule := range skylineRules {
		s.waitFor(rule.eighths)
		order := p.byLetters(rule.order)
		s.looks, s.pause = math.MaxInt64, math.MaxInt64
		a, ok := s.pass(order, math.MaxInt64, func(int64) bool { return false })
		require.True(t, ok)
		require.Equal(t, restingLowest(p, order, s.wait), a.offsets)
	}
}
