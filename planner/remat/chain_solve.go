package remat

// runChain takes the instance as a chain of stages. Sources of aliases are not made anew, because
// an alias of them may be live.
func (s *solver) runChain() {
	s.stage = "chain"
	g := s.graph()
	for v := range g.Tasks {
		g.Tasks[v].Once = len(s.sharers[v]) > 0
	}
	var seq []int32
	for _, r := range g.Runs(g.ChainExtras(s.ctx, s.budget)) {
		seq = append(seq, r.Task)
	}
	s.work += int64(s.n)
	s.offer(seq)
}
