package planner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/planner/budget"
	"memopt/recompute"
	"memopt/symbolic"
)

// ClusterRow is a cluster with its possible savings and its use by the plan.
type ClusterRow struct {
	Index     int // in Analysis.Clusters
	ID        recompute.ClusterID
	Strategy  recompute.Strategy
	Config    string // "Gelu+:1:-1"
	Frequency int
	Ratio     recompute.Ratio // of its first member
	// Saving is SavingDen times the bytes that all members free, as a formula; unknown where a
	// shape is.
	Saving    symbolic.Expr
	SavingDen int64
	// SavingBytes is the saving at the plan's bindings; Evaluated is set if it is known.
	SavingBytes int64
	Evaluated   bool
	// PeakDrop is the drop of the peak by the cluster alone; Dropped is set if it was simulated.
	PeakDrop int64
	Dropped  bool

	Enabled   bool
	Requested int // requested count; 0 if it is off, and for all occurrences but the last (ConfigEntry.Count)
	Applied   int // members that the plan recomputes
	// Excludes has the configurations of other rows that describe stashes of this row:
	// only one of them can save these bytes.
	Excludes []string
}

// SavingExpr returns the saving as ONNX Runtime's table prints it, or "unknown".
func (r *ClusterRow) SavingExpr() string {
	if !r.Saving.IsKnown() {
		return "unknown"
	}
	return r.Saving.FloatString(1, r.SavingDen)
}

// StashRow is a stashed activation and why it is kept.
type StashRow struct {
	Value graph.ValueID
	Node  graph.NodeID
	// WhyKept is "" for a value that the plan recomputes.
	WhyKept string
}

// maxRowWork bounds the steps that are simulated for PeakDrop. Rows beyond it, the
// least saving ones, are left out.
const maxRowWork = 10_000_000

// fillRows fills in the plan's use of clusters and stashes.
func (m *maker) fillRows(ctx context.Context, p *Plan, c *choice) error {
	p.fillClusters(c.sel)
	p.fillStashes(c)
	if m.base == nil || !m.opts.RowPeaks {
		return nil
	}
	without, limit := m.base.Peak.Bytes, m.evaluator.Steps()+maxRowWork
	if len(m.evaluator.Forced) > 0 {
		t, err := m.evaluator.Candidates(nil)
		if err != nil {
			return err
		}
		without = t.Peak
	}
	for i := range p.Clusters {
		if m.evaluator.Steps() >= limit || ctx.Err() != nil {
			break
		}
		drop, err := m.dropAlone(p.Clusters[i].Index, without)
		if err != nil {
			return err
		}
		p.Clusters[i].PeakDrop, p.Clusters[i].Dropped = drop, true
	}
	return nil
}

// dropAlone returns by how much a cluster lowers a peak if it is enabled alone, with the forced
// nodes.
func (m *maker) dropAlone(cluster int, without int64) (int64, error) {
	sel := newSelection()
	for _, i := range m.analysis.Clusters[cluster].Members {
		if m.demands.mayRun(&m.analysis.Candidates[i]) {
			sel.add(m.analysis, i)
		}
	}
	t, err := m.evaluator.Candidates(sel.chosen)
	if err != nil {
		return 0, err
	}
	return without - t.Peak, nil
}

func (p *Plan) fillClusters(sel *selection) {
	a := p.Analysis
	for i := range a.Clusters {
		c := &a.Clusters[i]
		row := ClusterRow{Index: i, ID: c.ID, Strategy: c.Strategy, Config: c.Config(),
			Frequency: len(c.Members), Ratio: a.Candidates[c.Members[0]].Ratio,
			Requested: sel.requested[i], Applied: sel.applied[i]}
		row.Enabled = row.Requested != 0 || row.Applied > 0
		row.Saving, row.SavingDen = p.saving(c)
		if n, err := row.Saving.Eval(p.Options.Dims); err == nil {
			row.SavingBytes, row.Evaluated = n/row.SavingDen, true
		}
		row.Excludes = p.excludes(i)
		p.Clusters = append(p.Clusters, row)
	}
	slices.SortStableFunc(p.Clusters, func(x, y ClusterRow) int {
		return cmp.Or(cmp.Compare(y.SavingBytes, x.SavingBytes), cmp.Compare(x.Config, y.Config))
	})
}

// saving sums the freed bytes of all members over a common denominator.
func (p *Plan) saving(c *recompute.Cluster) (symbolic.Expr, int64) {
	a := p.Analysis
	common := int64(1) // of ratios of element sizes: a few bits each
	for _, i := range c.Members {
		den := a.Candidates[i].Ratio.Den
		common *= den / symbolic.GCD(common, den)
	}
	total := symbolic.Const(0)
	for _, i := range c.Members {
		cand := &a.Candidates[i]
		scale := symbolic.Const(cand.Ratio.Num * (common / cand.Ratio.Den))
		for _, v := range cand.Stashed {
			total = total.Add(a.Graph.Values[v].Type.Bytes().Mul(scale))
		}
	}
	return total, common
}

// excludes lists the other clusters that have a candidate of an entry of this one.
func (p *Plan) excludes(cluster int) []string {
	a := p.Analysis
	seen := map[int]bool{cluster: true}
	var out []string
	for _, m := range a.Clusters[cluster].Members {
		for _, i := range a.OfEntry(a.Candidates[m].Entry) {
			if c := a.Candidates[i].Cluster; !seen[c] {
				seen[c] = true
				out = append(out, a.Clusters[c].Config())
			}
		}
	}
	slices.Sort(out)
	return out
}

func (p *Plan) fillStashes(c *choice) {
	again := make([]bool, len(p.Analysis.Graph.Nodes))
	for _, pl := range p.Placements {
		again[pl.Nodes[len(pl.Nodes)-1]] = true
	}
	var held *budget.Explainer
	if c.answer != nil {
		held = c.answer.Explainer(p.Planned)
	}
	p.Stashed = make([]StashRow, 0, len(p.Analysis.Stashed))
	for _, st := range p.Analysis.Stashed {
		row := StashRow{Value: st.Value, Node: st.Node}
		switch {
		case again[st.Node]:
		case p.demands != nil && p.demands.why[st.Node] != "":
			row.WhyKept = p.demands.why[st.Node]
		case held != nil && again[held.Maker(st.Value, st.Node)]: // it shows a recomputed value
		case held != nil:
			row.WhyKept = held.WhyKept(st.Value, st.Node)
		default:
			row.WhyKept = p.whyKept(st.Node, c.sel)
		}
		p.Stashed = append(p.Stashed, row)
	}
}

// whyKept returns why an entry is not recomputed.
func (p *Plan) whyKept(entry graph.NodeID, sel *selection) string {
	a := p.Analysis
	if r, ok := a.Rejected(entry); ok {
		return r.Reason
	}
	if sel.kept != nil && sel.kept[entry] {
		return "it is a checkpoint: recomputation of other values starts from it"
	}
	cands := a.OfEntry(entry)
	if len(cands) == 0 {
		return "no subgraph to recompute it was found"
	}
	if why := a.Uncloneable(cands[0]); why != "" {
		return why
	}
	c := &a.Clusters[a.Candidates[cands[0]].Cluster]
	want, asked := sel.requested[a.Candidates[cands[0]].Cluster]
	switch {
	case asked && want == 0 && sel.applied[a.Candidates[cands[0]].Cluster] > 0:
		return fmt.Sprintf("ORTModule leaves out the last occurrence of cluster %s for count 0", c.ID)
	case want > 0:
		return fmt.Sprintf("cluster %s is recomputed for its first %d occurrences only", c.ID, want)
	}
	return fmt.Sprintf("cluster %s is not enabled; %q enables it", c.ID, c.Config())
}
