package pack

import "math/rand"

// shaker looks for a better placing order: in turn, one of the greedy orders with the jobs moved at
// random, and the order of the best packing's offsets with the jobs that reach its top moved
// forward.
type shaker struct {
	*problem
	best  answer
	keys  []float64
	ranks [][]int32 // of the greedy orders
	rng   *rand.Rand
	turn  int
}

func newShaker(p *problem, best answer, seed int64) *shaker {
	return &shaker{problem: p, best: best, keys: make([]float64, len(p.jobs)), rng: rand.New(rand.NewSource(seed))}
}

// step makes one attempt. halt ends it early.
func (s *shaker) step(work int64, halt halt) {
	if s.ranks == nil {
		for _, o := range greedyOrders {
			s.ranks = append(s.ranks, rankOf(s.byLetters(o.letters)))
		}
	}
	switch {
	case s.turn < len(s.ranks) && len(s.jobs) > shakeAgain:
		s.shuffle(s.ranks[s.turn], 0)
	case s.turn%2 == 0:
		s.shuffle(s.ranks[s.turn/2%len(s.ranks)], 0.2*s.rng.Float64()*s.rng.Float64())
	default:
		s.topForward()
	}
	s.turn++
	order := make([]int32, len(s.jobs))
	for i := range order {
		order[i] = int32(i)
	}
	byKeys(order, s.keys)
	a := s.inOrder(order, work, "greedy order shaken", halt)
	if a.offsets != nil && a.height <= s.best.height {
		s.best = a
	}
}

// shuffle sets the keys to the ranks, each moved by up to a share of all.
func (s *shaker) shuffle(rank []int32, share float64) {
	noise := float64(len(rank)) * share
	for i, r := range rank {
		s.keys[i] = float64(r) + noise*s.rng.Float64()
	}
}

// topForward sets the keys to the offsets, moved a little, or a lot for the topmost jobs.
func (s *shaker) topForward() {
	noise := float64(s.best.height) * 0.2 * s.rng.Float64() * s.rng.Float64()
	for i, j := range s.jobs {
		offset := float64(s.best.offsets[i])
		s.keys[i] = offset + noise*s.rng.Float64()
		if s.best.offsets[i]+j.size == s.best.height {
			s.keys[i] = offset * s.rng.Float64()
		}
	}
}

// From shakeAgain jobs on, the greedy orders may have run out of work, so that they are repeated
// with shakeWork before any shaking.
const (
	shakeAgain = 1 << 14
	shakeWork  = 1 << 31
)

// shakeSteps is the number of attempts in a round.
const shakeSteps = 16

// shakeUp makes some attempts at a group.
func (s *solver) shakeUp(g *group) {
	s.method = "greedy order shaken"
	if g.best.height < g.shake.best.height {
		g.shake.best = g.best
	}
	for range shakeSteps {
		g.shake.step(shakeWork, s.halt)
		s.nodes += int64(len(g.jobs))
		if g.shake.best.height < g.best.height {
			g.best = g.shake.best
		}
		s.report()
		if s.done() {
			return
		}
	}
}
