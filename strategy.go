package memopt

import (
	"fmt"

	"memopt/configs"
	"memopt/graph"
	"memopt/planner"
	"memopt/recompute"
)

// Strategy says what a plan recomputes: a Level, a Config, a Budget, or what a plan file has
// ([Model.PlanFile]). Nil recomputes nothing: the plan lists what could be.
type Strategy interface{ choose(o *planner.Options) }

// Level recomputes every cluster of subgraphs that ONNX Runtime's memory optimizer finds: 1 layer
// by layer, 2 with compromises. 0 recomputes nothing.
type Level planner.Level

func (l Level) choose(o *planner.Options) { o.Level = planner.Level(l) }

// Config recomputes the clusters of a configuration of ONNX Runtime; package configs reads files of
// them.
type Config []planner.ConfigEntry

func (c Config) choose(o *planner.Options) { o.Config = c }

// Budget recomputes what makes a step fit at the least cost: into a Share of the baseline's peak,
// or into Total bytes of weights, inputs and arena together. Where Effort, the seconds that the
// search may count on, is left out, it is the first plan that fits.
type Budget planner.Budget

func (b Budget) choose(o *planner.Options) { o.Budget = (*planner.Budget)(&b) }

// placed recomputes what a plan file places, in the order that it was made for.
type placed struct {
	placements []recompute.Placement
	order      graph.Order
}

func (p placed) choose(o *planner.Options) { o.Placements, o.FixedOrder = p.placements, p.order }

// PlanFile returns the strategy that takes the placements of a plan file, which must have been made
// for a model of the same structure. The error is the file's.
func (m *Model) PlanFile(path string) (Strategy, error) {
	r, err := configs.LoadPlan(path)
	if err != nil {
		return nil, err
	}
	if r.StructureSHA256 != m.StructureSHA256 {
		return nil, fmt.Errorf("%s: was made for a model with structure_sha256 %.12s…, this one has "+
			"%.12s…; plan anew", path, r.StructureSHA256, m.StructureSHA256)
	}
	var p placed
	if p.placements, err = recompute.ResolvePlacements(m.Graph, r.Placements); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if p.placements == nil {
		p.placements = []recompute.Placement{}
	}
	if p.order, err = recompute.ResolveOrder(m.Graph, r.Order); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}
