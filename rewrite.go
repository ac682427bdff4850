package memopt

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/planner/anchor"
	"memopt/recompute"
)

// RewriteOptions describe the runtime of a rewritten graph. The zero value is for a runtime that
// executes the nodes in the order of the file, for example memopt's own executor.
type RewriteOptions struct {
	// Anchors, from Plan.Anchor, preserve the order, and with it the saving, in a runtime that
	// reorders nodes, as ONNX Runtime does. nil means no anchors.
	Anchors *anchor.Anchoring
	// Stock guards the graph against changes of its numbers by stock ONNX Runtime.
	Stock bool
	// Seed determines the seeds of random nodes without seeds of their own.
	Seed int64
}

// Rewritten is a graph with the recomputations of a plan, in the plan's order.
type Rewritten struct {
	*recompute.Rewritten
	By        *Plan
	Anchoring *anchor.Anchoring // nil: no anchors
	// whole is the original graph of a chunked plan, with the seeds of its random nodes fixed; else
	// nil.
	whole *graph.Model
}

// Anchor decides which anchors the rewritten graph needs to keep its peak in stock ONNX Runtime.
func (p *Plan) Anchor() (*anchor.Anchoring, error) {
	a, err := p.Plan.Anchor(context.Background())
	if err != nil {
		return nil, &Error{OfMemopt, err}
	}
	return a, nil
}

// Rewrite applies the plan to a copy of the model, and records it and the boundary between the
// halves in the copy's metadata. Where ORTModule's own optimizer makes the plan's graph, the copy is that graph,
// without records.
func (p *Plan) Rewrite(o RewriteOptions) (*Rewritten, error) {
	opts := recompute.Options{Seed: o.Seed, Guard: o.Stock, Release: p.Session != nil}
	if o.Anchors != nil {
		opts.Anchors = o.Anchors.Anchors
	}
	if r, err := p.ByORTModule(o.Seed); r != nil || err != nil {
		return &Rewritten{Rewritten: r, By: p}, err
	}
	a := p.Analysis
	model, whole, err := p.seeded(o.Seed)
	if err != nil {
		return nil, err
	}
	r, err := recompute.Apply(model, a.Boundary, a.Order, p.Placements, opts)
	if err != nil {
		return nil, &Error{OfModel, fmt.Errorf("%s: %w", p.Of.Path, err)}
	}
	if whole != nil {
		r.Seeded = append(r.Seeded, seededParts(p.Model.Graph, model.Graph)...)
	}
	written := p.Record(o.Seed)
	written.Anchors = len(opts.Anchors)
	written.Inherit(p.Of.Model)
	record, err := json.Marshal(written)
	if err != nil {
		return nil, &Error{OfMemopt, err}
	}
	r.Model.SetMeta(recompute.Key, string(record))
	r.Model.SetMeta(live.BoundaryKey, r.Boundary.Record(r.Model.Graph))
	return &Rewritten{r, p, o.Anchors, whole}, nil
}

// seeded returns the graph to rewrite. For a plan with chunked regions it is the chunked graph, where
// every part of a random node has the seed of the whole node, and the second result is the original
// graph with these seeds; for another plan that graph, and nil.
func (p *Plan) seeded(seed int64) (model, whole *graph.Model, err error) {
	if p.Whole == nil {
		return p.Of.Model, nil, nil
	}
	if whole = recompute.Seed(p.Of.Model, seed); whole == p.Of.Model {
		return p.Model, whole, nil
	}
	f, err := p.Cuts().Cut(context.Background(), whole, p.Of.Dims)
	if err != nil {
		return nil, nil, &Error{OfMemopt, fmt.Errorf("%s: %w", p.Of.Path, err)}
	}
	return f.Model, whole, nil
}

// seededParts lists the nodes of a chunked graph that have seeds once those of the whole are fixed,
// and had no seeds before.
func seededParts(before, after *graph.Graph) (list []graph.NodeID) {
	for id, n := range before.Nodes {
		if seed := op.Of(n.Kind).SeedAttr; seed != "" && n.Attr(seed) == nil && after.Nodes[id].Attr(seed) != nil {
			list = append(list, graph.NodeID(id))
		}
	}
	return list
}

// WriteOptions are the options of writing a model. The zero value leaves tensors in place.
type WriteOptions = onnx.Options

// WriteFile writes the rewritten model, whole or not at all.
func (r *Rewritten) WriteFile(path string, o WriteOptions) error {
	return onnx.WriteFile(path, r.Model, o)
}

// Write writes the rewritten model to a stream.
func (r *Rewritten) Write(w io.Writer) error { return onnx.Write(w, r.Model) }
