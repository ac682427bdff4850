package planner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/live"
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

// PeakRecord returns the peaks that the plan predicts; nil for a plan without sizes, or without a
// layout.
func (p *Plan) PeakRecord() *recompute.PeakRecord {
	if p.Base == nil || p.Arena == nil {
		return nil
	}
	return &recompute.PeakRecord{
		BaselineBytes:   p.Baseline().Base.Peak.Bytes,
		PlannedBytes:    p.Planned.Peak.Bytes,
		LowerBoundBytes: p.Baseline().Base.LowerBound,
		PartsBoundBytes: p.floor,
		ArenaBytes:      p.Arena.Bytes,
		PersistentBytes: p.Persistent,
		TotalBytes:      p.Persistent + p.Arena.Bytes,
		CloneBytes:      p.Planned.Hidden,
	}
}

// Record returns the plan as plan.json has it. sha is the model's structure hash.
func (p *Plan) Record(sha string, seed int64) *recompute.Record {
	a := p.Analysis
	r := &recompute.Record{Schema: recompute.Schema, StructureSHA256: sha, Dims: map[string]int64{},
		Order: make(recompute.NodeOrder, len(a.Order)), Predicted: p.PeakRecord(), Solver: p.Solver, Seed: seed,
		Placements: recompute.RecordPlacements(a.Graph, p.Placements)}
	if p.Bound != nil {
		r.Bound = p.Bound
	}
	for name, n := range p.Options.Dims {
		r.Dims[name] = n
	}
	for i, id := range a.Order {
		r.Order[i] = int32(id)
	}
	if p.Whole != nil {
		r.Fission = recordCuts(p.Fission)
		for _, id := range p.Whole.Analysis.Order {
			r.WholeOrder = append(r.WholeOrder, int32(id))
		}
	}
	return r
}

// FileRecord is Record with the metadata of plan files: the model's name, the release of memopt,
// the budget, the demands, and the cost.
func (p *Plan) FileRecord(sha string, seed int64, version string) *recompute.Record {
	r := p.Record(sha, seed)
	r.Model, r.ToolVersion = modelName(p.Model.Path), version
	if b := p.Options.Limit(); b != nil {
		r.Budget = b.Record()
	}
	if p.Span != nil {
		r.Ranges = map[string][2]int64{}
		for _, a := range p.Span.Box {
			r.Ranges[a.Symbol] = [2]int64{a.Lo, a.Hi}
		}
	}
	if o := &p.Options; len(o.Keep)+len(o.Recompute) > 0 {
		r.Demands = &recompute.DemandRecord{Keep: o.Keep, Recompute: o.Recompute}
	}
	if p.Base != nil {
		r.Recompute = &recompute.CostRecord{Nodes: p.Recompute.Nodes, Overhead: p.Overhead, Profile: p.ProfileName()}
	}
	return r
}

// modelName is the name of a model's file without folders, so that a plan is the same wherever its
// model lies. Names of built-in models stay whole.
func modelName(path string) string {
	return path[strings.LastIndexAny(path, `/\`)+1:]
}

// Record returns the budget as plan files have it.
func (b *Budget) Record() *recompute.BudgetRecord {
	r := &recompute.BudgetRecord{TotalBytes: b.Total, Share: b.Share, ArenaBytes: b.Arena, In: "memopt"}
	if b.ORTModule {
		r.In = "ortmodule"
	} else if b.Runtime {
		r.In = "ort"
	}
	for _, l := range b.StashLimits {
		r.Stash = append(r.Stash, recompute.StashLimitRecord{Glob: l.Glob, Bytes: l.Bytes})
	}
	return r
}

// ConfigEntries returns the enabled clusters as a configuration of ONNX Runtime, in the order of
// the rows. A plan without enabled clusters lists every strategy-1 cluster as off, ready to be edited: with count
// 0 or, in graphs with a YieldOp, where ORTModule takes count 0 for all occurrences but the last, with
// strategy 0. There, the count of an enabled cluster is -1 wherever all of its occurrences are recomputed.
func (p *Plan) ConfigEntries() []ConfigEntry {
	var on, off []ConfigEntry
	yield := p.Analysis.Boundary.Kind == live.YieldBoundary
	full := map[recompute.ClusterID]bool{} // a configuration has one entry per id
	for i := range p.Clusters {
		if r := &p.Clusters[i]; r.Enabled && r.Strategy == recompute.Full {
			full[r.ID] = true
		}
	}
	for i := range p.Clusters {
		r := &p.Clusters[i]
		if r.Enabled && r.Strategy == recompute.Compromise && full[r.ID] {
			continue
		}
		if r.Enabled {
			e := ConfigEntry{Cluster: r.ID, Strategy: r.Strategy, Count: r.Requested}
			if yield && e.Count > 0 {
				e.Count = -1
			}
			on = append(on, e)
		} else if r.Strategy == recompute.Full {
			e := ConfigEntry{Cluster: r.ID, Strategy: r.Strategy}
			if yield {
				e.Strategy, e.Count = recompute.Keep, -1
			}
			off = append(off, e)
		}
	}
	if on != nil {
		return on
	}
	return off
}
