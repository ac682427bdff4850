package remat

// runChain takes the instance as a chain of stages.
func (s *solver) runChain() {
	s.stage = "chain"
	g := s.graph()
	var seq []int32
	for _, r := range g.Runs(g.ChainExtras(s.ctx, s.budget)) {
		seq = append(seq, r.Task)
	}
	s.work += int64(s.n)
	s.offer(s.withAliases(seq))
}
