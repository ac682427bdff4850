package main

import (
	"errors"
	"fmt"
	"slices"

	"memopt"
	"memopt/configs"
	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/planner"
	"memopt/planner/anchor"
	"memopt/recompute"
)

// execution is what run and verify execute.
type execution struct {
	l        *memopt.Model
	plan     *memopt.Plan // nil where the graph has no boundary
	baseline verify.Side
	planned  verify.Side // the baseline where nothing is selected
	changed  bool        // whether planned is another graph
	// differentiated says that the baseline is the training step that memopt has made of a forward
	// model.
	differentiated bool
	// anchoring is what holds the planned graph's order in ONNX Runtime; nil elsewhere.
	anchoring *anchor.Anchoring
	origins   []string // by node of the planned graph: what a clone is a clone of, else ""; nil where nothing is changed
	set       *dataset.Set
	inputs    map[string]*executor.Tensor
}

// side returns what run executes: the planned graph.
func (x *execution) side() verify.Side { return x.planned }

// prepareExecution loads a model and its data, plans it and rewrites it. Of two models that are
// compared the caller checks the symbols: each may have some of its own.
func (a *app) prepareExecution(name string, sel *selectionFlags, ex *execFlags) (*execution, error) {
	load := a.load
	if sel.bare {
		load = a.read
	}
	l, err := load(name)
	if err != nil {
		return nil, err
	}
	x := &execution{l: l, inputs: map[string]*executor.Tensor{}}
	if err := x.loadData(a, ex.dataDir); err != nil {
		return nil, err
	}
	if ex.differentiate || sel.asks(a) {
		if x.l, err = a.training(l); err != nil {
			return nil, err
		}
		x.differentiated = x.l != l
	}
	if err := a.planExecution(x, name, sel, ex); err != nil {
		return nil, err
	}
	return x, nil
}

// planExecution makes both sides.
func (a *app) planExecution(x *execution, name string, sel *selectionFlags, ex *execFlags) error {
	c, err := sel.resolve(a, x.l)
	if err != nil {
		return err
	}
	if ex.backend != ortName || sel.forCPU() {
		if c.options.Device, err = backend(planBackend(ex.backend)); err != nil {
			return err
		}
		c.options.Threads = a.global.threads
	}
	p, err := x.l.Plan(a.ctx, c.options)
	if errors.Is(err, live.ErrNoBoundary) && !sel.selects(c) {
		x.baseline = verify.Side{Model: x.l.Model, Types: x.l.Types, Dims: x.l.Dims}
		x.planned = x.baseline
		return nil
	}
	if err != nil {
		return a.classifyPlan(name, err)
	}
	for _, w := range p.Warnings {
		a.warn("%s", w)
	}
	x.plan = p
	x.baseline = verify.Side{Model: x.l.Model, Types: x.l.Types, Order: p.Analysis.Order, Dims: x.l.Dims}
	x.planned = x.baseline
	var anchoring *anchor.Anchoring
	if ex.backend == ortName && (len(p.Placements) > 0 || c.options.Budget != nil) { // which orders nodes by itself, as memopt's own executor does not
		if anchoring, err = a.anchor(p); err != nil {
			return err
		}
	}
	if len(p.Placements) == 0 && (anchoring == nil || len(anchoring.Anchors) == 0) {
		return nil
	}
	x.anchoring = anchoring
	r, err := p.Rewrite(memopt.RewriteOptions{Anchors: anchoring, Stock: ex.backend == ortName, Seed: a.global.seed})
	if err != nil {
		return classify(err)
	}
	types, err := op.InferAsIs(r.Model)
	if err == nil && types.Opaque(r.Model.Graph) > x.l.Types.Opaque(x.l.Graph) {
		err = fmt.Errorf("%w", types.Deviations[len(types.Deviations)-1].Why)
	}
	if err != nil {
		return &exitError{exitInternal, fmt.Errorf("%s: the rewritten graph: %w", name, err)}
	}
	x.changed = true
	x.planned = verify.Side{Model: r.Model, Types: types, Order: graph.FileOrder(r.Model.Graph), Dims: x.l.Dims}
	x.seedAlike(r.Rewritten)
	x.origins = cloneOrigins(x.l.Graph, r.Rewritten)
	return nil
}

// seedAlike gives the baseline's random nodes the seeds that the rewrite fixed, so that both sides
// draw the same numbers.
func (x *execution) seedAlike(r *recompute.Rewritten) {
	if len(r.Seeded) == 0 {
		return
	}
	m := x.baseline.Model.Clone()
	for i, origin := range r.Origin {
		if slices.Contains(r.Seeded, origin) {
			m.Graph.Nodes[origin].Attrs = slices.Clone(r.Model.Graph.Nodes[i].Attrs)
		}
	}
	x.baseline.Model = m
}

// asks reports whether the flags or ORTModule's variables ask for a plan, before they are read.
func (s *selectionFlags) asks(a *app) bool {
	if s.bare {
		return false
	}
	level, _ := a.env(configs.LevelVariable)
	config, _ := a.env(configs.ConfigVariable)
	return s.level != "" || s.config != "" || s.plan != "" || s.probe != "" || s.budgetFlags.asks() || level != "" || config != ""
}

// selects reports whether the flags ask for a plan.
func (s *selectionFlags) selects(c *chosen) bool {
	return c.options.Level != planner.UserSpecified || c.options.Config != nil || c.options.Placements != nil || c.options.Budget != nil || s.probe != ""
}

// classifyRun gives an error of an execution its code.
func classifyRun(name string, err error) error {
	return classify(wrap(name, err))
}
