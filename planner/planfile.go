package planner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/recompute"
	"memopt/symbolic"
)

// PlanFile is the strategy that takes over the placements of a plan file, which people may have
// edited.
type PlanFile struct {
	Placements []recompute.Placement
	// Order is the file's order, which overrides Options.Order; nil means no override.
	Order graph.Order
	// Cuts are the chunked regions; Placements and Order then refer to the chunked graph. Nil means
	// that no region is chunked.
	Cuts *Cuts
	// Record is the file's metadata; the plan warns if it is for other sizes, or promises less than
	// the plan needs. Nil means that there is no record.
	Record *recompute.Record
}

// Saved is the strategy that takes over the plan's cuts, placements and order.
func (p *Plan) Saved() *PlanFile {
	return &PlanFile{Placements: p.Placements, Order: p.Analysis.Order, Cuts: p.Cuts()}
}

func (*PlanFile) enables() bool             { return true }
func (*PlanFile) probe() recompute.Probe    { return UserSpecified.DefaultProbe() }
func (f *PlanFile) fixedOrder() graph.Order { return f.Order }

func (f *PlanFile) choose(_ context.Context, m *maker) (*choice, error) {
	a := m.analysis
	placements, err := recompute.Arrange(a.Graph, a.Order, a.Backward, f.Placements)
	if err != nil {
		return nil, err
	}
	if placements, err = m.demands.edit(m, placements); err != nil {
		return nil, err
	}
	c, err := m.place(placements)
	if err != nil {
		return nil, err
	}
	c.solver = "plan-file"
	c.warnings = f.otherSizes(m.opts.Dims)
	return c, nil
}

// otherSizes warns of symbols that had other values when the file was made.
func (f *PlanFile) otherSizes(dims symbolic.Env) []string {
	if f.Record == nil {
		return nil
	}
	var then, now []string
	for _, name := range slices.Sorted(maps.Keys(f.Record.Dims)) {
		if r, ranged := f.Record.Ranges[name]; ranged && r[0] <= dims[name] && dims[name] <= r[1] {
			continue // the plan is for this size, too
		}
		if n, bound := dims[name]; bound && n != f.Record.Dims[name] {
			then = append(then, fmt.Sprintf("%s=%d", name, f.Record.Dims[name]))
			now = append(now, fmt.Sprintf("%s=%d", name, n))
		}
	}
	if then == nil {
		return nil
	}
	return []string{fmt.Sprintf("the plan file was made for %s, and this is %s: its placements are kept, but "+
		"the peaks that it promises are for other sizes", strings.Join(then, ","), strings.Join(now, ","))}
}

// brokenPromise warns if the plan takes more than its file says, for the same sizes.
func (f *PlanFile) brokenPromise(p *Plan) {
	r := f.Record
	if r == nil || r.Predicted == nil || p.Arena == nil || len(f.otherSizes(p.Options.Dims)) > 0 {
		return
	}
	if promised := r.Predicted.ArenaBytes; p.Arena.Bytes > promised {
		p.warnf("the plan file promises an arena of %d bytes%s, and here it takes %d: plan anew, or name the "+
			"device and the memory options that it was made with", promised, f.maker(), p.Arena.Bytes)
	}
}

// maker names the release that made the file.
func (f *PlanFile) maker() string {
	if f.Record.ToolVersion == "" {
		return ""
	}
	return ", by memopt " + f.Record.ToolVersion
}
