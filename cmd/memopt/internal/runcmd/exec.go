// Package runcmd has the verbs that execute a step: run, verify.
package runcmd

import (
	"errors"
	"time"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/cmd/memopt/internal/plancmd"
	"memopt/configs"
	"memopt/executor/cpu"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/view/report"
)

// Execution is the step, or the two steps, that run and verify execute.
type Execution struct {
	*memopt.Execution
	// differentiated says that the baseline is the training step that memopt has made of a forward
	// model.
	differentiated bool
	file           *memopt.Model // as it was read
	step           *report.Step  // nil where no step was made or taken
}

// PrepareExecution loads a model and its data, plans it and rewrites it. If two models are
// compared, the caller checks the symbols, since each may have some of its own.
func PrepareExecution(a *cli.App, name string, sel *option.SelectionFlags, ex *option.ExecFlags, traits verify.Traits,
	how option.Planning) (*Execution, error) {
	if err := sel.Step.Check(); err != nil {
		return nil, err
	}
	how.States, how.Unchecked = sel.States, how.Bare
	if r := sel.MovedPlan(); r != nil {
		if traits.Reorders {
			return nil, cli.Usage("--plan %s: its values move to the host, and ONNX Runtime moves no values", sel.Plan)
		}
		how.Record, how.Dims, how.Moves = r, r.Dims, true
	}
	m, err := load.Model(a, name, how.Reading)
	if err != nil {
		return nil, err
	}
	data, err := option.LoadData(a, m, ex.DataDir)
	if err != nil {
		return nil, err
	}
	x, forward := &Execution{file: m}, m
	if ex.Differentiate || !how.Bare && asks(sel, a) {
		if m, x.step, err = gradcmd.MakeStep(a, m, &sel.Step, sel.Guarded()); err != nil {
			return nil, err
		}
		if x.differentiated = m != forward; x.differentiated && data != nil {
			data.Outputs = expectedOf(m.Graph, forward.Graph, data.Outputs)
		}
	}
	if x.Execution, err = planExecution(a, m, name, sel, traits, how); err != nil {
		return nil, err
	}
	if x.differentiated {
		gradcmd.NoteOutputs(a, x.Plan, forward, &sel.Step)
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
func planExecution(a *cli.App, m *memopt.Model, name string, sel *option.SelectionFlags, traits verify.Traits,
	how option.Planning) (*memopt.Execution, error) {
	how.Executes, how.Steps = option.OnCPU(traits), !traits.Reorders
	c, err := sel.Resolve(a, m, how)
	if err != nil {
		return nil, err
	}
	c.Options.Device, c.Options.Threads = traits.Device, a.Global.Threads
	if traits.Device == nil && sel.ForCPU() {
		c.Options.Device = cpu.Device{}
	}
	a.RestartClock(time.Now()) // data that were read are no part of the search
	a.Status.Say("planning")
	if c.Moved != nil {
		p, err := plancmd.FollowMoves(a, name, m, sel, c)
		if err != nil {
			return nil, err
		}
		x, err := p.Execution()
		return x, cli.Classify(err)
	}
	p, err := m.Plan(a.SearchFor(c.Strategy), c.Strategy, c.Options)
	if errors.Is(err, live.ErrNoBoundary) && !selects(sel, c) {
		return m.Execution(), nil
	}
	if err != nil {
		return nil, a.ClassifyPlan(name, err)
	}
	for _, w := range p.Warnings {
		a.Warn("%s", w)
	}
	if err := sel.Held(p, c.ConfigPath); err != nil {
		return nil, err
	}
	o := memopt.RewriteOptions{Stock: traits.Reorders, Seed: a.Global.Seed}
	if traits.Reorders && (p.Rewrites() || sel.BudgetFlags.Asks()) {
		if o.Anchors, err = plancmd.Anchor(a, p); err != nil {
			return nil, err
		}
	}
	ordered := p.Session != nil && p.Runtime != nil // the plan has an order of its own, even if it recomputes no value
	if !p.Rewrites() && !ordered && (o.Anchors == nil || len(o.Anchors.Anchors) == 0) {
		return p.Execution(), nil
	}
	r, err := p.Rewrite(o)
	if err != nil {
		return nil, cli.Classify(err)
	}
	if traits.Reorders { // which is given the file that apply writes
		if err := r.Annotate(); err != nil {
			return nil, cli.Classify(err)
		}
	}
	x, err := r.Execution()
	return x, cli.Classify(err)
}

// asks reports whether the flags or ORTModule's variables ask for a plan, before they are read.
func asks(s *option.SelectionFlags, a *cli.App) bool {
	level, _ := a.Env(configs.LevelVariable)
	config, _ := a.Env(configs.ConfigVariable)
	return s.Step.Asks() || s.Level != "" || s.Config != "" || s.Plan != "" || s.Probe != "" ||
		s.BudgetFlags.Asks() || demands(s) || level != "" || config != ""
}

// selects reports whether the flags ask for a plan.
func selects(s *option.SelectionFlags, c *option.Chosen) bool {
	return c.Strategy != nil || s.Probe != "" || demands(s)
}

// demands reports whether flags force or forbid recomputation of values.
func demands(s *option.SelectionFlags) bool { return len(s.Keep)+len(s.Recompute) > 0 }

// Generate makes up the inputs that have no data. An engine that only counts memory needs no data.
func (x *Execution) Generate(ex *option.ExecFlags, seed int64, traits verify.Traits) error {
	if traits.Virtual {
		return nil
	}
	start, random, err := option.ParseInit(ex.Init)
	if err != nil {
		return err
	}
	if random {
		return cli.Classify(x.Fill(uint64(start + seed)))
	}
	unfed, err := x.Unfed()
	if err != nil {
		return cli.Classify(err)
	}
	if len(unfed) > 0 {
		v := &x.Of.Graph.Values[unfed[0]]
		return cli.Usage("%s: input %q (%v) has no data: name a folder of input_N.pb with --data-dir, "+
			"or generate data with --init random:1", x.Of.Path, v.Name, v.Type)
	}
	return nil
}
