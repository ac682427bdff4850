package planner

// AnchorWork decides about the anchors of a plan and returns how many steps it looked at, and how
// many there are.
func AnchorWork(p *Plan) (looked, steps int, err error) {
	e, err := p.bench.Simulate(p.Placements)
	if err != nil {
		return 0, 0, err
	}
	a, err := newAnchorSearch(p, e)
	if err != nil {
		return 0, 0, err
	}
	_, err = a.choose()
	return a.work.looked, len(a.program.Steps), err
}

// Simulated returns how many steps have been simulated for a plan.
func Simulated(p *Plan) int { return p.bench.Steps() }
