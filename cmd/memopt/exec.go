package main

import (
	"errors"
	"time"

	"memopt"
	"memopt/configs"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/view/report"
)

// execution is the step, or the two steps, that run and verify execute.
type execution struct {
	*memopt.Execution
	// differentiated says that the baseline is the training step that memopt has made of a forward
	// model.
	differentiated bool
	file           *memopt.Model // as it was read
	step           *report.Step  // nil where no step was made or taken
}

// prepareExecution loads a model and its data, plans it and rewrites it. If two models are
// compared, the caller checks the symbols, since each may have some of its own.
func (a *app) prepareExecution(name string, sel *selectionFlags, ex *execFlags, traits verify.Traits,
	how planning) (*execution, error) {
	if err := sel.step.check(); err != nil {
		return nil, err
	}
	how.states, how.unchecked = sel.states, how.bare
	m, err := a.load(name, how.reading)
	if err != nil {
		return nil, err
	}
	data, err := a.loadData(m, ex.dataDir)
	if err != nil {
		return nil, err
	}
	x, forward := &execution{file: m}, m
	if ex.differentiate || !how.bare && sel.asks(a) {
		if m, x.step, err = a.step(m, &sel.step, sel.guarded()); err != nil {
			return nil, err
		}
		if x.differentiated = m != forward; x.differentiated && data != nil {
			data.Outputs = expectedOf(m.Graph, forward.Graph, data.Outputs)
		}
	}
	if x.Execution, err = a.planExecution(m, name, sel, traits, how); err != nil {
		return nil, err
	}
	if x.differentiated {
		a.noteOutputs(x.Plan, forward, &sel.step)
	}
	if data != nil {
		x.Give(data)
	}
	return x, nil
}

// expectedOf moves the expected outputs of a forward model in a data set, and those of the gradients
// behind them, to their places in the step that was made of it, which may lack outputs.
func expectedOf(step, forward *graph.Graph, expected map[int]dataset.Named) map[int]dataset.Named {
	moved := map[int]dataset.Named{}
	at := 0
	for i, d := range forward.Outputs {
		if at < len(step.Outputs) && step.ValueName(step.Outputs[at].Value) == forward.ValueName(d.Value) {
			if t, ok := expected[i]; ok {
				moved[at] = t
			}
			at++
		}
	}
	for i, t := range expected {
		if i >= len(forward.Outputs) {
			moved[i-len(forward.Outputs)+at] = t
		}
	}
	return moved
}

// planExecution plans a model, and rewrites it if there is anything to recompute.
func (a *app) planExecution(m *memopt.Model, name string, sel *selectionFlags, traits verify.Traits,
	how planning) (*memopt.Execution, error) {
	how.executes = onCPU(traits)
	c, err := sel.resolve(a, m, how)
	if err != nil {
		return nil, err
	}
	c.options.Device, c.options.Threads = traits.Device, a.global.threads
	if traits.Device == nil && sel.forCPU() {
		c.options.Device = cpu.Device{}
	}
	a.restartClock(time.Now()) // data that were read are no part of the search
	a.status.say("planning")
	p, err := m.Plan(a.searchFor(c.strategy), c.strategy, c.options)
	if errors.Is(err, live.ErrNoBoundary) && !sel.selects(c) {
		return m.Execution(), nil
	}
	if err != nil {
		return nil, a.classifyPlan(name, err)
	}
	for _, w := range p.Warnings {
		a.warn("%s", w)
	}
	if err := sel.held(p, c.configPath); err != nil {
		return nil, err
	}
	o := memopt.RewriteOptions{Stock: traits.Reorders, Seed: a.global.seed}
	if traits.Reorders && (p.Rewrites() || sel.budgetFlags.asks()) {
		if o.Anchors, err = a.anchor(p); err != nil {
			return nil, err
		}
	}
	if !p.Rewrites() && (o.Anchors == nil || len(o.Anchors.Anchors) == 0) {
		return p.Execution(), nil
	}
	r, err := p.Rewrite(o)
	if err != nil {
		return nil, classify(err)
	}
	if traits.Reorders { // which is given the file that apply writes
		if err := r.Annotate(); err != nil {
			return nil, classify(err)
		}
	}
	x, err := r.Execution()
	return x, classify(err)
}

// asks reports whether the flags or ORTModule's variables ask for a plan, before they are read.
func (s *selectionFlags) asks(a *app) bool {
	level, _ := a.env(configs.LevelVariable)
	config, _ := a.env(configs.ConfigVariable)
	return s.step.asks() || s.level != "" || s.config != "" || s.plan != "" || s.probe != "" ||
		s.budgetFlags.asks() || s.demands() || level != "" || config != ""
}

// selects reports whether the flags ask for a plan.
func (s *selectionFlags) selects(c *chosen) bool {
	return c.strategy != nil || s.probe != "" || s.demands()
}

// demands reports whether flags force or forbid recomputation of values.
func (s *selectionFlags) demands() bool { return len(s.keep)+len(s.recompute) > 0 }

// fill generates the inputs that have no data. An engine that only counts memory needs no data.
func (x *execution) fill(ex *execFlags, seed int64, traits verify.Traits) error {
	if traits.Virtual {
		return nil
	}
	start, random, err := parseInit(ex.init)
	if err != nil {
		return err
	}
	if random {
		return classify(x.Fill(uint64(start + seed)))
	}
	unfed, err := x.Unfed()
	if err != nil {
		return classify(err)
	}
	if len(unfed) > 0 {
		v := &x.Of.Graph.Values[unfed[0]]
		return usage("%s: input %q (%v) has no data: name a folder of input_N.pb with --data-dir, "+
			"or generate data with --init random:1", x.Of.Path, v.Name, v.Type)
	}
	return nil
}
