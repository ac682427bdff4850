package remat

// tapeOf is a tape's form of the folded problem: its nodes are those that are no views, in an order,
// and each makes as many values as it does there.
func (f *folded) tapeOf(order []int32, budget int64) *single {
	n := len(order)
	p := &single{n: n, budget: budget, cost: make([]int64, n), work: make([]int64, n), uses: make([][]int32, n),
		sharers: make([][]int32, n), makes: make([][]int32, n), once: make([]bool, n), copies: make([]int64, n)}
	number := make([]int32, len(f.maker))
	for i, v := range order {
		node := &f.p.Nodes[v]
		p.cost[i], p.work[i], p.once[i] = f.cost[v], node.Workspace, f.once[v]
		p.base += f.cost[v]
		for _, u := range f.seen[v] {
			p.uses[i] = append(p.uses[i], number[u])
		}
		for u := f.first[v]; u < f.first[v+1]; u++ {
			number[u] = int32(len(p.size))
			p.makes[i] = append(p.makes[i], number[u])
			p.maker = append(p.maker, int32(i))
			p.size, p.keep = append(p.size, f.bytes(u)), append(p.keep, f.keeps[u])
			if f.keeps[u] {
				p.copies[i] += f.bytes(u)
			}
		}
	}
	return p
}

// annealArm improves the schedule of an arm for about so much work, by changes of a tape.
func (s *problemSolver) annealArm(a *arm, work int64) {
	best := a.search.within(s.budget)
	if best == nil || len(a.order) > tapeNodes {
		return
	}
	if a.tape == nil {
		a.tape = newAnnealer(s.tapeOf(a.order, s.budget), a.search.rng, func(seq []int32, _ int64) { a.found = seq })
	}
	place := make([]int32, len(s.p.Nodes))
	for i, v := range a.order {
		place[v] = int32(i)
	}
	seq := a.folded.sequence(best.Extras)
	for i, v := range seq {
		seq[i] = place[v]
	}
	t := a.tape
	a.found = nil
	t.load(seq)
	t.best = s.base + best.Cost
	start, end := t.walked, t.walked+work
	t.anneal(t.movesFor(work), warm, cold, func() bool { return t.walked >= end || s.ctx.Err() != nil })
	s.work += t.walked - start
	if a.found == nil {
		return
	}
	for i, v := range a.found {
		a.found[i] = a.order[v]
	}
	_ = a.search.Add(a.folded.extras(a.found, a.order), "lns")
	s.settle(a)
}
