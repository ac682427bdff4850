package chunk

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
	"memopt/symbolic"
)

// Part is a part of a cut: the one that a node computes.
type Part struct {
	Cut   int32 // -1 for a node outside all cuts
	Index int32
}

// Applied is a graph with chunked regions. Its nodes stand in order of execution.
type Applied struct {
	Model    *graph.Model
	Types    *op.Result
	Boundary live.Boundary
	// Origin is by node the one of the whole graph that it is, or is a part of; NoNode for slices,
	// joins and sums.
	Origin []graph.NodeID
	// Parts is by node.
	Parts []Part
	// Cuts are the applied cuts; Exact is true if the parts of all of them keep the bits of the whole.
	Cuts []Cut
}

// ErrCut means that a cut does not fit the graph that it is for.
var ErrCut = errors.New("the cut does not fit this graph")

// Apply returns a copy of a model with chunked regions, for the sizes that bind its symbols: the copy has
// numbers in their place. The model itself is not changed. Regions must have no node in common. Parts of
// exact cuts begin where that keeps their bits, so that there may be fewer than a cut asks for: Applied.Cuts
// has the actual numbers. The order is that of the nodes outside of regions and of the parts; b is the
// boundary between the halves. The error wraps ErrCut, is a *symbolic.UnboundError, or that of a context that
// is done.
func Apply(ctx context.Context, m *graph.Model, order graph.Order, b live.Boundary, dims symbolic.Env,
	cuts []Cut) (*Applied, error) {
	bound, err := Bind(m, dims)
	if err != nil {
		return nil, err
	}
	if _, err := live.EvalSizes(bound.Graph, nil); err != nil {
		return nil, err
	}
	f := newFinder(bound, order, Fast)
	regions, err := f.resolveAll(cuts)
	if err != nil {
		return nil, err
	}
	out := &Applied{Model: bound, Cuts: slices.Clone(cuts)}
	w := newWriter(f, bound, order, b)
	for i, r := range regions {
		out.Cuts[i].Exact = r.grain > 0
		out.Cuts[i].Parts = max(len(r.starts(cuts[i].Parts))-1, 1)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := w.cut(r, int32(i), cuts[i].Parts); err != nil {
			return nil, fmt.Errorf("%w: region %q: %w", ErrCut, cuts[i].Region, err)
		}
	}
	return w.finish(out, b)
}

// Around returns the cut of the region around a value along dims of it, "1" or "0-1", into at most so many
// parts: the nodes that make and read the value and, from these, all that are connected by values of at least
// a share of its elements. Sizes must be numbers (Bind). The error is the reason why the value cannot be cut
// so in the mode.
func Around(m *graph.Model, order graph.Order, value, dim string, parts int, share float64, mode Mode) (*Cut, error) {
	s, err := parseSpan(dim)
	if err != nil {
		return nil, err
	}
	if parts < 2 {
		return nil, fmt.Errorf("%d parts: wanted 2 or more", parts)
	}
	seed, ok := m.Graph.Lookup(value)
	if !ok {
		return nil, fmt.Errorf("the graph has no value %q", value)
	}
	r, err := newFinder(m, order, mode).grow(seed, s, share, nil)
	if err != nil {
		return nil, err
	}
	return r.record(m.Graph, recompute.Labels(m.Graph), parts), nil
}

// record is the region as a cut.
func (r *region) record(g *graph.Graph, labels []string, parts int) *Cut {
	if n := len(r.starts(parts)) - 1; n > 1 {
		parts = n
	}
	c := &Cut{Region: g.Values[r.seed].Name, Dim: r.span.String(), Parts: parts, Exact: r.grain > 0}
	for _, id := range slices.Sorted(slices.Values(r.nodes)) {
		c.Nodes = append(c.Nodes, labels[id])
	}
	return c
}

// mostNodes bounds the nodes of a graph's parts, since a plan file may ask for any number.
const mostNodes = 1 << 20

// resolveAll finds the regions of cuts, which have no node in common.
func (f *finder) resolveAll(cuts []Cut) ([]*region, error) {
	regions := make([]*region, len(cuts))
	of := slices.Repeat([]int{-1}, len(f.g.Nodes))
	nodes := 0
	for i := range cuts {
		r, err := f.resolve(&cuts[i])
		if err != nil {
			return nil, fmt.Errorf("%w: region %q: %w", ErrCut, cuts[i].Region, err)
		}
		for _, id := range r.nodes {
			if of[id] >= 0 {
				return nil, fmt.Errorf("%w: region %q: has node %q, which region %q has, too; wanted each node in one",
					ErrCut, cuts[i].Region, f.g.NodeLabel(id), cuts[of[id]].Region)
			}
			of[id] = i
		}
		if nodes += len(r.nodes) * cuts[i].Parts; nodes > mostNodes {
			return nil, fmt.Errorf("%w: region %q: %d nodes in %d parts: wanted at most %d nodes in parts",
				ErrCut, cuts[i].Region, len(r.nodes), cuts[i].Parts, mostNodes)
		}
		regions[i] = r
	}
	return regions, nil
}

// resolve finds the region of a cut.
func (f *finder) resolve(c *Cut) (*region, error) {
	seed, ok := f.g.Lookup(c.Region)
	if !ok {
		return nil, errors.New("the graph has no such value")
	}
	s, err := parseSpan(c.Dim)
	if err != nil {
		return nil, err
	}
	allowed := make([]bool, len(f.g.Nodes))
	for _, l := range c.Nodes {
		id, ok := f.labelled(l)
		if !ok {
			return nil, fmt.Errorf("the graph has no node %q", l)
		}
		if allowed[id] {
			return nil, fmt.Errorf("has node %q twice", l)
		}
		allowed[id] = true
	}
	r, err := f.grow(seed, s, 0, allowed)
	switch {
	case err != nil:
		return nil, err
	case len(r.nodes) != len(c.Nodes):
		return nil, fmt.Errorf("it has %d nodes, but only %d can be cut together", len(c.Nodes), len(r.nodes))
	case c.Parts < 2 || int64(c.Parts) > r.rows:
		return nil, fmt.Errorf("%d parts of %d places along dim %s: wanted 2 to %d parts", c.Parts, r.rows, s, r.rows)
	case c.Exact && r.grain == 0:
		return nil, errors.New("its parts give other bits, and it says exact: wanted false")
	case !c.Exact:
		r.grain = 0 // parts begin anywhere
	}
	return r, nil
}

// labelled finds the node with a label.
func (f *finder) labelled(label string) (graph.NodeID, bool) {
	if f.byLabel == nil {
		f.byLabel = make(map[string]graph.NodeID, len(f.g.Nodes))
		for id, l := range recompute.Labels(f.g) {
			f.byLabel[l] = graph.NodeID(id)
		}
	}
	id, ok := f.byLabel[label]
	return id, ok
}

// Bind returns a copy of a model whose symbols are replaced by their sizes, with types inferred anew.
func Bind(m *graph.Model, dims symbolic.Env) (*graph.Model, error) {
	out := m.Clone()
	g := out.Graph
	for v := range g.Values {
		g.Values[v].Type = bindType(g.Values[v].Type, dims)
	}
	for _, list := range [][]graph.Decl{g.Inputs, g.Outputs, g.ValueInfo} {
		for i := range list {
			t := bindType(list[i].Type, dims)
			if !sameDims(t, list[i].Type) {
				list[i].Type, list[i].Wire = t, nil
			}
		}
	}
	if _, err := op.InferAsIs(out); err != nil {
		return nil, fmt.Errorf("with numbers for symbols: %w", err)
	}
	return out, nil
}

// bindType returns a type whose symbols are replaced by their sizes.
func bindType(t graph.Type, dims symbolic.Env) graph.Type {
	if t.Form != graph.FormTensor || !t.Shape.Ranked {
		return t
	}
	list := make([]symbolic.Expr, len(t.Shape.Dims))
	for i, e := range t.Shape.Dims {
		list[i] = e.Bind(dims)
	}
	t.Shape.Dims = list
	return t
}

func sameDims(a, b graph.Type) bool {
	return slices.EqualFunc(a.Shape.Dims, b.Shape.Dims, func(x, y symbolic.Expr) bool { return x.Equal(y) })
}
