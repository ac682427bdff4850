package budget

// descents bounds how often a smaller arena than the smallest so far is looked for.
const descents = 4

// descend looks for the smallest arena of an infeasible budget. It starts with the arena of the lowest
// peak of live bytes that a search reaches; then, as long as there is one, it searches for a plan right
// below the smallest arena so far, as if that had been the budget. Without time it takes the smallest
// arena of the search for a first plan.
func (b *budgeter) descend() error {
	asked := b.budget
	defer func() { b.budget = asked }()
	b.share = lowestShare
	defer b.within(b.share)()
	s := b.tried
	if s == nil || b.ctx.Err() == nil {
		s = b.newSearch()
	}
	low, err := s.Lowest(b.ctx, b.work())
	if err != nil {
		return err
	}
	if err := b.add(low); err != nil {
		return err
	}
	for range descents {
		smallest := b.smallest()
		if smallest <= asked || b.ctx.Err() != nil {
			return nil
		}
		b.budget = smallest - 1
		if err := b.climb(); err != nil {
			return err
		}
		if b.smallest() == smallest {
			return nil
		}
	}
	return nil
}

// smallest is the smallest arena of all plans so far.
func (b *budgeter) smallest() int64 {
	least := b.points[0].arena
	for i := range b.points {
		least = min(least, b.points[i].arena)
	}
	return least
}
