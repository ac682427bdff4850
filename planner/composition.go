package planner

import (
	"memopt/graph/live"
	"memopt/planner/place"
)

// compose fills in the memory of a plan by kind, before and after.
func (m *maker) compose(p *Plan, trial *place.Trial) {
	a := m.analysis
	roles := live.FindRoles(a.Graph, m.sizes.States, a.Backward, a.Order)
	always := live.PersistentParts(a.Graph, m.sizes, roles)
	p.Before = live.Compose(a.Graph, m.evaluator.AsIs(), m.base, roles, a.Backward, always)
	p.After = live.Compose(a.Graph, trial.Program, trial.Timeline, roles, a.Backward, always)
}

// AtPeak returns the memory at the plan's peak by kind, and the unused bytes of the arena at that
// step (gaps), because values cannot always be packed without gaps. Their sum is inputs, weights and
// the arena, with the space for subgraphs. It returns nil for a plan without sizes or without a
// layout.
func (p *Plan) AtPeak() (parts *live.Parts, gaps int64) {
	if p.Arena == nil || p.After == nil {
		return nil, 0
	}
	at := p.After.Peak.Parts
	return &at, p.Persistent + p.Arena.Bytes - at.Sum()
}
