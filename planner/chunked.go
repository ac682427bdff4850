package planner

import (
	"context"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/planner/chunk"
	"memopt/recompute"
	"memopt/symbolic"
)

// Cuts are the chunked regions of a graph, and the order of its nodes when it was cut: both together
// determine the numbers of the chunked graph's nodes.
type Cuts struct {
	List  []chunk.Cut
	Order graph.Order // of the original graph
}

// Cut returns the chunked model of plans with these cuts. The error is chunk.Apply's.
func (c *Cuts) Cut(ctx context.Context, m *graph.Model, dims symbolic.Env) (*chunk.Applied, error) {
	b, err := live.FindBoundary(m)
	if err != nil {
		return nil, err
	}
	return chunk.Apply(ctx, m, c.Order, b, dims, c.List)
}

// Cuts returns the plan's chunked regions; nil if it has no such regions.
func (p *Plan) Cuts() *Cuts {
	if p.Whole == nil {
		return nil
	}
	return &Cuts{List: p.Fission, Order: p.Whole.Analysis.Order}
}

// Rewrites reports whether the plan changes the graph.
func (p *Plan) Rewrites() bool { return p.Whole != nil || len(p.Placements) > 0 }

// asGiven makes the plan of the request's graph that changes no node, in an order; a nil order means
// the one that the options ask for.
func (r *request) asGiven(ctx context.Context, o graph.Order) (*Plan, error) {
	w := *r
	w.opts.Strategy, w.opts.Within, w.opts.Chunk = nil, nil, ""
	w.opts.Keep, w.opts.Recompute = nil, nil
	w.opts.RowPeaks, w.opts.Alternatives = false, false
	if o != nil {
		return w.in(ctx, o)
	}
	return w.plan(ctx)
}

// cut returns the request for the chunked graph. Its order is that of the chunked file. The error is
// chunk.Apply's, or that of Options.WorkspaceOf.
func (r *request) cut(ctx context.Context, whole *Plan, cuts []chunk.Cut) (*request, error) {
	out := *r
	f, err := chunk.Apply(ctx, r.model, whole.Analysis.Order, r.boundary, r.opts.Dims, cuts)
	if err != nil {
		return nil, err
	}
	out.model, out.types, out.boundary = f.Model, f.Types, f.Boundary
	out.cuts, out.whole, out.applied = f.Cuts, whole, f
	o := &out.opts
	o.Chunk, o.Order = "", OrderFile
	o.Keep, o.Recompute = inParts(r.model.Graph, f, o.Keep), inParts(r.model.Graph, f, o.Recompute)
	if o.Aliased != nil {
		o.Aliased = byPart(f, o.Aliased, false)
	}
	switch {
	case o.WorkspaceOf != nil:
		if o.Workspace, err = o.WorkspaceOf(ctx, f.Model, f.Types); err != nil {
			return nil, err
		}
	case o.Workspace != nil:
		o.Workspace = byPart(f, o.Workspace, 0)
	}
	out.share = newShares(whole, f)
	if out.floor == 0 {
		out.floor, err = chunk.Floor(r.model, whole.Analysis.Order, r.opts.Dims, modeOf(cuts))
	}
	return &out, err
}

// modeOf is the mode that allows cuts.
func modeOf(cuts []chunk.Cut) chunk.Mode {
	for _, c := range cuts {
		if !c.Exact {
			return chunk.Fast
		}
	}
	return chunk.Exact
}

// byPart gives every node the entry of its origin; nodes without an origin get the given default.
func byPart[T any](f *chunk.Applied, of []T, nothing T) []T {
	out := make([]T, len(f.Origin))
	for i, old := range f.Origin {
		if out[i] = nothing; old != graph.NoNode {
			out[i] = of[old]
		}
	}
	return out
}

// inParts rewrites names and globs for a chunked graph: a name that is gone becomes the names of the
// outputs of its nodes' parts.
func inParts(g *graph.Graph, f *chunk.Applied, texts []string) []string {
	var out []string
	for _, text := range texts {
		for _, one := range split(g, text) {
			if whole, _ := g.Find(one); len(whole) > 0 && !stillMade(f.Model.Graph, one) {
				out = append(out, madeByParts(g, f, one)...)
			} else {
				out = append(out, one)
			}
		}
	}
	return out
}

// stillMade reports whether a text finds a value that a node makes.
func stillMade(g *graph.Graph, text string) bool {
	found, _ := g.Find(text)
	return slices.ContainsFunc(found, func(v graph.ValueID) bool { return g.Values[v].Def != graph.NoNode })
}

// madeByParts names the outputs of the parts of the nodes whose values a text matches in the original
// graph, or the text itself if there are no parts.
func madeByParts(g *graph.Graph, f *chunk.Applied, text string) (names []string) {
	found, _ := g.Find(text)
	for i, old := range f.Origin {
		if old == graph.NoNode {
			continue
		}
		for slot, v := range g.Nodes[old].Outputs {
			if v == graph.NoValue || !slices.Contains(found, v) {
				continue
			}
			if w := f.Model.Graph.Nodes[i].Output(slot); w != graph.NoValue {
				names = append(names, f.Model.Graph.ValueName(w))
			}
		}
	}
	if names == nil {
		return []string{text}
	}
	return names
}

// ofFile makes the plan of a plan file with chunked regions.
func (r *request) ofFile(ctx context.Context, file *PlanFile) (*Plan, error) {
	whole, err := r.asGiven(ctx, file.Cuts.Order)
	if err != nil {
		return nil, err
	}
	cut, err := r.cut(ctx, whole, file.Cuts.List)
	if err != nil {
		return nil, fmt.Errorf("the plan file's regions in parts: %w", err)
	}
	placed := *file
	placed.Cuts = nil // the graph is chunked now
	cut.opts.Strategy = &placed
	return cut.plan(ctx)
}

// FissionText says how many regions are computed in how many parts; "" without such regions.
func (p *Plan) FissionText() string { return (&Cuts{List: p.Fission}).Text() }

// ExactBits reports whether all outputs keep their bits on memopt's CPU.
func (p *Plan) ExactBits() bool { return (&Cuts{List: p.Fission}).Exact() }

// Text says how many regions are computed in how many parts; "" without such regions.
func (c *Cuts) Text() string {
	if c == nil || len(c.List) == 0 {
		return ""
	}
	parts := 0
	for _, one := range c.List {
		parts += one.Parts
	}
	regions := "regions"
	if len(c.List) == 1 {
		regions = "region"
	}
	text := fmt.Sprintf("%d %s in %d parts", len(c.List), regions, parts)
	if !c.Exact() {
		text += ", not bit-equal"
	}
	return text
}

// Exact reports whether all outputs keep their bits on memopt's CPU.
func (c *Cuts) Exact() bool {
	return c == nil || !slices.ContainsFunc(c.List, func(one chunk.Cut) bool { return !one.Exact })
}

// RegionBytes returns the bytes of the value that names a chunked region, and of the largest of its
// parts; 0 if sizes are unknown.
func (p *Plan) RegionBytes(cut int) (whole, part int64) {
	g := p.Whole.Analysis.Graph
	v, ok := g.Lookup(p.Fission[cut].Region)
	if !ok || p.Sizes == nil || p.Whole.Sizes == nil || g.Values[v].Def == graph.NoNode {
		return 0, 0
	}
	def := g.Values[v].Def
	slot := slices.Index(g.Nodes[def].Outputs, v)
	for i, old := range p.applied.Origin {
		if w := p.Model.Graph.Nodes[i].Output(slot); old == def && w != graph.NoValue {
			part = max(part, p.Sizes.Bytes[w])
		}
	}
	return max(p.Whole.Sizes.Bytes[v], 0), part
}

// PartOf returns the chunked region of a node of Model, as an index into Fission, and the part of it
// that the node computes; -1 and -1 for a node outside of them.
func (p *Plan) PartOf(id graph.NodeID) (region, part int32) {
	if p.applied == nil || p.applied.Parts[id].Cut < 0 {
		return -1, -1
	}
	at := p.applied.Parts[id]
	return at.Cut, at.Index
}

// recordCuts returns the plan's regions as records have them.
func recordCuts(list []chunk.Cut) []recompute.CutRecord {
	var out []recompute.CutRecord
	for _, c := range list {
		out = append(out, recompute.CutRecord(c))
	}
	return out
}

// CutsOf returns the regions of a record; nil if it has no regions.
func CutsOf(r *recompute.Record) *Cuts {
	if len(r.Fission) == 0 {
		return nil
	}
	c := &Cuts{Order: make(graph.Order, len(r.WholeOrder))}
	c.List = ReadCuts(r.Fission)
	for i, id := range r.WholeOrder {
		c.Order[i] = graph.NodeID(id)
	}
	return c
}

// ReadCuts returns regions of a record.
func ReadCuts(list []recompute.CutRecord) (cuts []chunk.Cut) {
	for _, x := range list {
		cuts = append(cuts, chunk.Cut(x))
	}
	return cuts
}
