package live

import "memopt/graph"

// Decisions are the questions about sizes on whose answers a simulation depends. For all sizes that
// give the same answers, values share memory and live as they do at the sizes that were simulated;
// only the bytes differ. Where each part of another value begins must be the same, too
// (Step.Slices), where Placed, else which operands are parts of others; and which nodes may fail
// (Step.Fails).
type Decisions struct {
	Same     []Pair          // whether two values are of equal size
	Positive []graph.ValueID // whether a value has bytes
	// Rounds are the simulations of a program with parts: first with all parts copied, then with fewer
	// and fewer of them copied. The sequence of their peaks decides which round counts, and the step
	// of one round's peak decides which parts the next round copies.
	Rounds []*Timeline
	// Copying is how many questions of each kind the first of these rounds asked.
	Copying struct{ Same, Positive int }
	// Placed says that it was asked whether two values overlap in a buffer.
	Placed bool
}

// Pair is two values whose sizes are compared.
type Pair struct{ A, B graph.ValueID }

// Trace is Run that also notes the decisions that the result depends on.
func (r *Simulator) Trace(p *Program) (*Timeline, *Decisions, error) {
	r.s.log = &Decisions{}
	defer func() { r.s.log = nil }()
	t, err := r.Run(p)
	return t, r.s.log, err
}

// SimulateApart simulates a program without parts in which two values are of equal size only if same
// says so. If same never errs in saying so, no step has fewer live bytes than in any simulation of
// the program at sizes that same covers: values that share memory there and not here save bytes.
func (r *Simulator) SimulateApart(p *Program, same func(a, b graph.ValueID) bool) (*Timeline, error) {
	r.s.proved = same
	defer func() { r.s.proved = nil }()
	r.s.share.on = false
	r.s.begin(p)
	return r.s.steps()
}

// same reports whether two values are of equal size.
func (s *simulation) same(a, b graph.ValueID) bool {
	if s.proved != nil {
		return a == b || s.proved(a, b)
	}
	if s.log != nil && a != b {
		s.log.Same = append(s.log.Same, Pair{a, b})
	}
	return s.p.Bytes[a] == s.p.Bytes[b]
}

// positive reports whether a value has bytes.
func (s *simulation) positive(v graph.ValueID) bool {
	if s.proved != nil {
		return true // of a value without bytes it does not matter where it lies
	}
	if s.log != nil {
		s.log.Positive = append(s.log.Positive, v)
	}
	return s.p.Bytes[v] > 0
}

// noteRound notes one of the executions of a program with parts.
func (s *simulation) noteRound(t *Timeline) {
	if s.log != nil {
		if len(s.log.Rounds) == 0 {
			s.log.Copying.Same, s.log.Copying.Positive = len(s.log.Same), len(s.log.Positive)
		}
		s.log.Rounds = append(s.log.Rounds, t.Clone())
	}
}
