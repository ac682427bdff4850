package report

import (
	"bytes"
	"encoding/json"
	"io"

	"memopt/graph"
	"memopt/planner"
	"memopt/recompute"
)

// PlanSchema is the schema of the JSON that `memopt plan -O json` prints.
const PlanSchema = "memopt.plan/v1"

type planJSON struct {
	Schema         string              `json:"schema"`
	Model          modelJSON           `json:"model"`
	Step           *Step               `json:"step"`
	Boundary       boundaryJSON        `json:"boundary"`
	Dims           map[string]int64    `json:"dims"`
	UnboundSymbols []string            `json:"unbound_symbols"`
	Level          int                 `json:"level"`
	Probe          string              `json:"probe"`
	Rewritten      bool                `json:"rewritten"`
	Order          recompute.NodeOrder `json:"order"`
	Clusters       []clusterJSON       `json:"clusters"`
	Stashed        []stashJSON         `json:"stashed"`
	BoundaryNorms  []string            `json:"boundary_norms"`
	Total          *int64              `json:"total_bytes"`
	Peak           peakJSON            `json:"peak"`
	AtPeak         atPeakJSON          `json:"at_peak"`
	Phases         *phasesJSON         `json:"phases"`
	Recompute      recomputeJSON       `json:"recompute"`
	Bound          boundJSON           `json:"bound"`
	Solver         *string             `json:"solver"`
	Lower          *lowerJSON          `json:"next"`
	Fission        []cutJSON           `json:"fission"`
	Runtime        *runtimePeakJSON    `json:"runtime"`
	Fit            *fitJSON            `json:"fit"`
	Formulas       *formulasJSON       `json:"formulas"`
	Span           *spanJSON           `json:"span"`
	Again          []againJSON         `json:"again"`
	Alternatives   []otherJSON         `json:"alternatives"`
	Warnings       []string            `json:"warnings"`
}

// runtimePeakJSON has the predicted peaks in stock ONNX Runtime of the original graph and of the plan's file, both
// of the live bytes and of those in use in its arena. It is null unless the budget was for that runtime.
type runtimePeakJSON struct {
	Baseline      int64 `json:"baseline_bytes"`
	BaselineArena int64 `json:"baseline_arena_bytes"`
	Planned       int64 `json:"planned_bytes"`
	Arena         int64 `json:"arena_bytes"`
	Total         int64 `json:"total_bytes"` // inputs and weights included
}

// cutJSON is a region that is computed in chunks.
type cutJSON struct {
	Region string   `json:"region"`
	Dim    string   `json:"dim"`
	Parts  int      `json:"parts"`
	Exact  bool     `json:"exact"`
	Nodes  []string `json:"nodes"`
}

// newCutsJSON has the regions of a plan.
func newCutsJSON(p *planner.Plan) []cutJSON {
	list := []cutJSON{}
	for _, c := range p.Fission {
		list = append(list, cutJSON(c))
	}
	return list
}

type modelJSON struct {
	Path            string `json:"path"`
	StructureSHA256 string `json:"structure_sha256"`
	Nodes           int    `json:"nodes"`
}

type boundaryJSON struct {
	Kind string `json:"kind"`
	Node string `json:"node"`
}

type clusterJSON struct {
	ID            string   `json:"id"`
	Strategy      int      `json:"strategy"`
	Config        string   `json:"config"`
	Frequency     int      `json:"frequency"`
	SaveRatio     float64  `json:"save_ratio"`
	SavingExpr    *string  `json:"saving_expr"`
	SavingBytes   *int64   `json:"saving_bytes"`
	PeakDropBytes *int64   `json:"peak_drop_bytes"`
	Enabled       bool     `json:"enabled"`
	Requested     int      `json:"requested"`
	Applied       int      `json:"applied"`
	Excludes      []string `json:"excludes"`
}

type stashJSON struct {
	Value    string  `json:"value"`
	Producer string  `json:"producer"`
	Op       string  `json:"op"`
	Bytes    *int64  `json:"bytes"`
	Expr     *string `json:"expr"`
	WhyKept  *string `json:"why_kept"`
}

type peakJSON struct {
	BaselineBytes   *int64  `json:"baseline_bytes"`
	PlannedBytes    *int64  `json:"planned_bytes"`
	LowerBoundBytes *int64  `json:"lower_bound_bytes"`
	PartsBoundBytes *int64  `json:"parts_lower_bound_bytes,omitempty"`
	ArenaBytes      *int64  `json:"arena_bytes"`
	PersistentBytes *int64  `json:"persistent_bytes"`
	TotalBytes      *int64  `json:"total_bytes"`
	BaselineNode    *string `json:"baseline_node"`
	PlannedNode     *string `json:"planned_node"`
	// The memory of clones besides values, in planned, arena and total bytes.
	CloneBytes int64 `json:"clone_bytes,omitempty"`
	// Whose order and memory the bytes of the baseline and of the plan are those of: ortmodule's, else memopt's.
	In string `json:"in,omitempty"`
}

type recomputeJSON struct {
	Nodes    int      `json:"nodes"`
	FLOPs    *float64 `json:"flops"`
	Overhead *float64 `json:"overhead"`
	Profile  string   `json:"profile"`
}

type boundJSON struct {
	OverheadLowerBound *float64 `json:"overhead_lower_bound"`
	Gap                *float64 `json:"gap"`
	Optimal            bool     `json:"optimal"`
}

// lowerJSON is the lower plan: the cheapest found with a smaller arena.
type lowerJSON struct {
	LiveBytes  int64   `json:"live_bytes"`
	ArenaBytes int64   `json:"arena_bytes"`
	Overhead   float64 `json:"overhead"`
}

// againJSON is the recomputed nodes of an operator.
type againJSON struct {
	Op       string  `json:"op"`
	Nodes    int     `json:"nodes"`
	Bytes    int64   `json:"bytes"`
	Overhead float64 `json:"overhead"`
}

// otherJSON is a way to save memory that a plan for a budget is shown beside.
type otherJSON struct {
	Name      string  `json:"name"`
	LiveBytes int64   `json:"live_bytes"`
	Overhead  float64 `json:"overhead"`
	Fits      bool    `json:"fits"`
}

func ptr[T any](v T) *T { return &v }

// PlanJSON writes a plan as JSON. sha is the model's structure hash, step names the planned training step (nil if
// unspecified), reserved is the bytes of the device's memory that count beside the step.
func PlanJSON(w io.Writer, p *planner.Plan, sha string, step *Step, reserved int64) error {
	j := newPlanJSON(p, sha)
	j.Step = step
	if t := j.Peak.TotalBytes; t != nil {
		j.Total = ptr(*t + reserved)
	}
	return WriteJSON(w, j)
}

// WriteJSON writes a report as indented JSON without characters that steer a terminal.
func WriteJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(plainJSON(b.Bytes()))
	return err
}

func newPlanJSON(p *planner.Plan, sha string) *planJSON {
	a := p.Analysis
	j := &planJSON{Schema: PlanSchema, Formulas: newFormulasJSON(p), Span: newSpanJSON(p.Span),
		Model:    modelJSON{Path: p.Model.Path, StructureSHA256: sha, Nodes: len(p.Baseline().Analysis.Graph.Nodes)},
		Boundary: boundaryJSON{Kind: string(a.Boundary.Kind), Node: a.Graph.NodeLabel(a.Boundary.Node)},
		Dims:     map[string]int64(p.Options.Dims), UnboundSymbols: nonNil(p.Unbound), Level: int(p.Options.Level()),
		Probe: a.Probe.String(), Rewritten: p.Rewritten,
		Order: make(recompute.NodeOrder, len(a.Order)), Clusters: []clusterJSON{}, Stashed: []stashJSON{},
		BoundaryNorms: []string{},
		Recompute:     recomputeJSON{Nodes: p.Recompute.Nodes, Profile: p.ProfileName()}, Warnings: nonNil(p.Warnings)}
	if j.Dims == nil {
		j.Dims = map[string]int64{}
	}
	for i, id := range a.Order {
		j.Order[i] = int32(id)
	}
	for i := range p.Clusters {
		j.Clusters = append(j.Clusters, newClusterJSON(&p.Clusters[i]))
	}
	for i := range p.Stashed {
		j.Stashed = append(j.Stashed, newStashJSON(p, &p.Stashed[i]))
	}
	for _, id := range a.BoundaryNorms {
		j.BoundaryNorms = append(j.BoundaryNorms, a.Graph.NodeLabel(id))
	}
	if p.Base != nil {
		r, whole := p.PeakRecord(), p.Baseline()
		j.Peak = peakJSON{&r.BaselineBytes, &r.PlannedBytes, &r.LowerBoundBytes, nil, &r.ArenaBytes,
			&r.PersistentBytes, &r.TotalBytes,
			label(whole.Analysis.Graph, whole.Base.Peak.Node), label(a.Graph, p.Planned.Peak.Node), r.CloneBytes, ""}
		if s := p.Session; s != nil {
			j.Peak.BaselineBytes, j.Peak.PlannedBytes, j.Peak.In = &s.Base, &s.Planned, "ortmodule"
		}
		if r.PartsBoundBytes > 0 {
			j.Peak.PartsBoundBytes = &r.PartsBoundBytes
		}
		j.Recompute.FLOPs, j.Recompute.Overhead = &p.Recompute.FLOPs, &p.Overhead
	}
	j.Fission = newCutsJSON(p)
	j.AtPeak, j.Phases = newAtPeakJSON(p), newPhasesJSON(p)
	if p.Bound != nil {
		j.Bound = boundJSON{&p.Bound.Overhead, &p.Bound.Gap, p.Bound.Optimal}
		j.Solver = &p.Solver
	}
	j.Again = []againJSON{}
	for _, r := range again(p) {
		j.Again = append(j.Again, againJSON{r.op, r.nodes, r.bytes, r.time})
	}
	j.Alternatives = []otherJSON{}
	for _, alt := range p.Alternatives {
		j.Alternatives = append(j.Alternatives, otherJSON{alt.String(), alt.Live, alt.Overhead, alt.Fits})
	}
	if a := p.Runtime; a != nil {
		j.Runtime = &runtimePeakJSON{a.Base, a.BaseArena, a.Anchored, a.AnchoredArena, a.AnchoredArena + p.Persistent}
	}
	j.Fit = newFitJSON(p.Fit)
	if n := p.Lower; n != nil {
		j.Lower = &lowerJSON{n.Live, n.Arena, n.Overhead}
	}
	return j
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func label(g *graph.Graph, id graph.NodeID) *string {
	if id == graph.NoNode {
		return nil
	}
	return ptr(g.NodeLabel(id))
}

func newClusterJSON(r *planner.ClusterRow) clusterJSON {
	c := clusterJSON{ID: string(r.ID), Strategy: int(r.Strategy), Config: r.Config, Frequency: r.Frequency,
		SaveRatio: r.Ratio.Float(), Enabled: r.Enabled, Requested: r.Requested, Applied: r.Applied,
		Excludes: nonNil(r.Excludes)}
	if r.Saving.IsKnown() {
		c.SavingExpr = ptr(r.SavingExpr())
	}
	if r.Evaluated {
		c.SavingBytes = &r.SavingBytes
	}
	if r.Dropped {
		c.PeakDropBytes = &r.PeakDrop
	}
	return c
}

func newStashJSON(p *planner.Plan, r *planner.StashRow) stashJSON {
	g := p.Analysis.Graph
	v := &g.Values[r.Value]
	s := stashJSON{Value: v.Name, Producer: g.NodeLabel(r.Node), Op: g.Nodes[r.Node].Op}
	if e := v.Type.Bytes(); e.IsKnown() {
		s.Expr = ptr(e.String())
		if n, err := e.Eval(p.Options.Dims); err == nil {
			s.Bytes = &n
		}
	}
	if r.WhyKept != "" {
		s.WhyKept = &r.WhyKept
	}
	return s
}
