package planner

// Simulated returns how many steps have been simulated for a plan.
func Simulated(p *Plan) int { return p.bench.Steps() }
