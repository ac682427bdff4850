package pack

import (
	"cmp"
	"math/rand"
	"slices"
)

// shaker improves a packing that is too large for the exact search: it places the jobs again in
// the order of their offsets, with the jobs that reached the top, and some others
// by chance, moved forward.
type shaker struct {
	*problem
	best answer
	keys []float64
	rng  *rand.Rand
}

func newShaker(p *problem, best answer, seed int64) *shaker {
	return &shaker{problem: p, best: best, rng: rand.New(rand.NewSource(seed))}
}

// step makes one attempt. halt ends it early.
func (s *shaker) step(work int64, halt func() bool) {
	n := len(s.jobs)
	if s.keys == nil {
		s.keys = make([]float64, n)
	}
	top := float64(s.best.height)
	strength := 0.02 + 0.2*s.rng.Float64()*s.rng.Float64()
	for i, j := range s.jobs {
		offset := float64(s.best.offsets[i])
		s.keys[i] = offset + top*strength*s.rng.Float64()
		if s.best.offsets[i]+j.size == s.best.height {
			s.keys[i] = offset * s.rng.Float64()
		}
	}
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.keys[a], s.keys[b]), cmp.Compare(a, b))
	})
	a := s.inOrder(order, work, "greedy order shaken", halt)
	if a.offsets != nil && a.height <= s.best.height {
		s.best = a
	}
}

// shakeSteps is the number of attempts in a round.
const shakeSteps = 8

// shakeUp makes some attempts at a group.
func (s *solver) shakeUp(g *group, round int) bool {
	s.method = "greedy order shaken"
	for range shakeSteps {
		g.shake.step(greedyWork, s.ended)
		s.nodes += int64(len(g.jobs))
		if g.shake.best.height < g.best.height {
			g.best = g.shake.best
		}
		s.report()
		if s.done() {
			break
		}
	}
	return true
}
