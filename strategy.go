package memopt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/configs"
	"memopt/planner"
	"memopt/planner/chunk"
	"memopt/recompute"
	"memopt/symbolic"
)

// Strategies choose the recomputed values of a plan. They are values, which planning does not change.
type (
	// Strategy is a Level, a Config, a Budget, a Policy, a plan file's ([Model.PlanFile]), or a program's own. Nil
	// recomputes no value: the plan lists the possible recomputations.
	Strategy = planner.Strategy
	// Policy decides for each stashed activation by itself whether it is kept.
	Policy = planner.Policy
	// Activation is a stashed activation, as policies see it.
	Activation = planner.Activation
	// Level recomputes every cluster of subgraphs that ONNX Runtime's memory optimizer finds: 1 layer by layer, 2
	// with compromises. 0 recomputes no cluster.
	Level = planner.Level
	// Config recomputes the clusters of a configuration of ONNX Runtime; package configs reads
	// files of them.
	Config = planner.Config
	// Budget makes a step fit at the least cost: into a Share of the baseline's peak, or into Total
	// bytes of weights, inputs and arena together. Without Effort, the work of the search in
	// seconds, the result is the first plan that fits.
	Budget = planner.Budget
)

// PlanFile returns the strategy that takes the placements of a plan file, which must have been made
// for a model of the same structure. The error is the file's.
func (m *Model) PlanFile(path string) (Strategy, error) {
	r, err := configs.LoadPlan(path)
	if err != nil {
		return nil, err
	}
	s, err := m.PlanOf(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// PlanOf is PlanFile for a plan file that was read. One whose values move to the host is for MovingOf.
func (m *Model) PlanOf(r *recompute.Record) (Strategy, error) {
	if r.MovedRecord != nil {
		return nil, errors.New("values move to the host in this plan, which this verb does not follow: write its " +
			"graph with memopt apply, and use that")
	}
	return m.planOf(r)
}

func (m *Model) planOf(r *recompute.Record) (Strategy, error) {
	if r.StructureSHA256 != m.StructureSHA256 {
		return nil, fmt.Errorf("was made for a model with structure_sha256 %.12s…%s, this one has %.12s…; plan anew",
			r.StructureSHA256, named(r.Model), m.StructureSHA256)
	}
	p := &planner.PlanFile{Record: r, Cuts: planner.CutsOf(r)}
	g := m.Graph
	if p.Cuts != nil {
		if _, err := recompute.ResolveOrder(g, r.WholeOrder); err != nil {
			return nil, fmt.Errorf("whole_order: %w", err)
		}
		f, err := p.Cuts.Cut(context.Background(), m.Model, m.Dims)
		if err != nil {
			return nil, partsError(r, m.Dims, err)
		}
		g = f.Model.Graph
	}
	var err error
	if p.Placements, err = recompute.ResolvePlacements(g, r.Placements); err != nil {
		return nil, err
	}
	if p.Order, err = recompute.ResolveOrder(g, r.Order); err != nil {
		return nil, err
	}
	return p, nil
}

// partsError is the error of a plan file whose chunked regions do not fit a model.
func partsError(r *recompute.Record, dims symbolic.Env, err error) error {
	if !errors.Is(err, chunk.ErrCut) {
		return fmt.Errorf("its regions in parts: %w", err)
	}
	return fmt.Errorf("its regions in parts%s: %w; plan anew", otherDims(r, dims), err)
}

// otherDims names the sizes of a plan file that is used at other ones.
func otherDims(r *recompute.Record, dims symbolic.Env) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(r.Dims)) {
		if n, ok := dims[name]; ok && n != r.Dims[name] {
			list = append(list, fmt.Sprintf("%s=%d", name, r.Dims[name]))
		}
	}
	if list == nil {
		return ""
	}
	return fmt.Sprintf(", which are for %.200s", strings.Join(list, ", "))
}

// named puts the name of a plan's model in a message.
func named(model string) string {
	if model == "" {
		return ""
	}
	return fmt.Sprintf(" (%.80q)", model)
}
