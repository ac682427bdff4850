package main

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/configs"
	"memopt/planner"
	"memopt/recompute"
	"memopt/view/report"
)

// selectionFlags are the flags that choose the recomputed nodes.
type selectionFlags struct {
	level  string
	config string
	probe  string
	plan   string
	order  string
	cost   string
	// aliases and cloneBytes describe the memory of another runtime.
	aliases    string
	cloneBytes string
	states     []string
	// keep and recompute have names and globs of values that must be kept and recomputed.
	keep, recompute []string
	step            stepFlags
	budgetFlags
}

// registerGraph adds the flags of a verb about a graph, with those that say which training step is made of a
// forward model.
func (s *selectionFlags) registerGraph(f *pflag.FlagSet) {
	s.registerDemands(f)
	s.step.registerGraph(f)
	s.step.optimizer.registerRate(f)
}

// registerJob adds the flags of a verb about a job.
func (s *selectionFlags) registerJob(f *pflag.FlagSet) {
	s.registerDemands(f)
	s.step.registerJob(f)
	s.step.optimizer.registerRate(f)
}

// registerDemands adds the flags of a plan.
func (s *selectionFlags) registerDemands(f *pflag.FlagSet) {
	s.registerPlan(f)
	f.StringArrayVar(&s.keep, "keep", nil, "names or globs of values, nodes or layers that are never "+
		"recomputed, whatever chooses the rest (repeatable)")
	f.StringArrayVar(&s.recompute, "recompute", nil, "names or globs of values, nodes or layers whose stashed "+
		"activations are recomputed, whatever chooses the rest (repeatable)")
}

// registerPlan adds the flags of the selection, the order and the costs.
func (s *selectionFlags) registerPlan(f *pflag.FlagSet) {
	f.StringVar(&s.level, "level", "",
		"0: recompute what the configuration lists (default); 1: every cluster, layer by layer; "+
			"2: with compromises")
	f.StringVar(&s.config, "config", "",
		"ONNX Runtime configuration, a JSON array of \"ClusterID:Strategy:Count\", for level 0")
	f.StringVar(&s.probe, "probe", "", "how far to search, LEVEL:LAYERS; default 1:0 at level 0, else 1:1")
	f.StringVar(&s.plan, "plan", "", "use the placements of a plan.json")
	f.StringVar(&s.cost, "cost", "", "take the times of nodes from a file that run --profile "+
		"wrote")
	f.StringVar(&s.order, "order", "auto", "order of execution: auto, file, ort, or memory, which "+
		"looks for a lower peak")
	f.StringVar(&s.aliases, "aliases", "",
		"JSON {\"aliased\": [node, …]}: the nodes whose outputs share the memory of their first "+
			"input, for a runtime that writes nothing in place, such as Deeploy")
	f.StringVar(&s.cloneBytes, "clone-bytes", "",
		"memory that each clone takes throughout, in addition to its outputs, such as 200 or 1KiB")
	f.StringArrayVar(&s.states, "state", nil,
		"IN=OUT: the output is the next value of this input or initializer and replaces it "+
			"(repeatable); steps made by grad --optimizer, operators that update their inputs "+
			"and outputs named X_updated need no flag")
	s.budgetFlags.register(f)
}

// forCPU reports whether the flags say that the plan is for the CPU.
func (s *selectionFlags) forCPU() bool {
	return s.device == cpuDevice || s.device == "" && s.cost != ""
}

// planning says how a verb plans a model, beside its flags.
type planning struct {
	// shown asks for parts of a plan that are only shown, and for the formulas of its peak.
	shown bool
	// deeploy counts memory by Deeploy's rules, even without --aliases.
	deeploy bool
	// executes says that the verb executes on the CPU, whose profile is then the default.
	executes bool
	// record is that of a plan file that was read, in place of --plan; nil without one.
	record *recompute.Record
	// bare leaves out the selection, whatever ORTModule's variables say: two models are compared.
	bare bool
	// searches says that the verb cannot hold a plan file or a configuration to a budget: it searches for a plan to it.
	searches bool
	reading
}

// chosen is a selection and where it came from.
type chosen struct {
	strategy   memopt.Strategy
	options    memopt.PlanOptions
	configPath string
	file       *memopt.Model // the model as it was read
	step       *report.Step  // that was made of it, or taken; nil before
}

// resolve makes planner options of the flags and of ORTModule's variables.
func (s *selectionFlags) resolve(a *app, l *memopt.Model, how planning) (*chosen, error) {
	c := &chosen{file: l, options: memopt.PlanOptions{Options: planner.Options{Order: planner.OrderChoice(s.order),
		Keep: s.keep, Recompute: s.recompute}}}
	if s.probe != "" {
		probe, err := recompute.ParseProbe(s.probe)
		if err != nil {
			return nil, usage("--probe: %w", err)
		}
		c.options.Probe = &probe
	}
	if s.order != "" && !slices.Contains(planner.OrderChoices, c.options.Order) {
		return nil, usage("--order %q: wanted %s", s.order, orderNames())
	}
	if err := s.resolveCosts(a, c, l, how); err != nil {
		return nil, err
	}
	if err := s.resolveMemory(a, c, l, how.deeploy); err != nil {
		return nil, err
	}
	if s.plan != "" || how.record != nil {
		if err := s.hold(a, c, "--plan", how); err != nil {
			return nil, err
		}
		a.warnUnused("--plan, which has its own placements")
		return c, s.usePlan(c, l, how.record)
	}
	if how.bare {
		return c, nil
	}
	if s.budgetFlags.asks() && s.config != "" && s.what != "clusters" {
		if err := s.hold(a, c, "--config", how); err != nil {
			return nil, err
		}
	} else if s.budgetFlags.asks() {
		return c, s.resolveBudget(a, c)
	}
	if c.options.Within == nil {
		if err := s.budgetFlags.idle(a); err != nil {
			return nil, err
		}
	}
	if err := s.resolveLevel(a, c); err != nil {
		return nil, err
	}
	return c, s.resolveConfig(a, c)
}

// resolveMemory reads the flags about the memory of another runtime.
func (s *selectionFlags) resolveMemory(a *app, c *chosen, l *memopt.Model, deeploy bool) error {
	if s.cloneBytes != "" {
		n, err := report.ParseBytes(s.cloneBytes)
		if err != nil {
			return usage("--clone-bytes %q: %w; wanted a size such as 200 or 1KiB", s.cloneBytes, err)
		}
		c.options.CloneBytes = n
	}
	if deeploy {
		c.options.Aliased = make([]bool, len(l.Graph.Nodes))
	}
	if s.aliases == "" {
		return nil
	}
	aliased, unknown, err := configs.LoadAliases(s.aliases, l.Graph)
	if err != nil {
		return usage("--aliases: %w", err)
	}
	if len(unknown) > 0 {
		a.warn("--aliases %s: the model has no node %q (nor %d more of the listed nodes)",
			s.aliases, unknown[0], len(unknown)-1)
	}
	c.options.Aliased = aliased
	return nil
}

// hold takes a budget to which what a flag's file recomputes is held. It is not searched for.
func (s *selectionFlags) hold(a *app, c *chosen, flag string, how planning) error {
	switch {
	case !s.budgetFlags.asks():
		return nil
	case how.searches:
		return usage("%s and --budget cannot be combined here; memopt plan with both says whether "+
			"the file fits the budget", flag)
	case len(s.limits) > 0:
		return usage("%s and --budget-for cannot be combined: the file chooses what each part of the graph "+
			"stashes; hold it to a --budget", flag)
	case s.level != "" && s.level != "0":
		return usage("--level %s and --budget cannot be combined: a level is no file that can be held to "+
			"a budget", s.level)
	}
	b, err := s.budgetFlags.resolve(a)
	if err != nil {
		return err
	}
	s.budgetFlags.warnIdle(a, "where "+flag+" says what to recompute",
		"select", "solver", "time-limit", "effort", "require-optimal", "chunk")
	c.options.Within = b
	return nil
}

// resolveBudget takes the budget, which replaces level and configuration: ORTModule's variables are
// ignored.
func (s *selectionFlags) resolveBudget(a *app, c *chosen) error {
	for _, f := range []struct{ flag, text string }{{"--level", s.level}, {"--config", s.config}} {
		if f.text != "" {
			return usage("%s and --budget cannot be combined: a plan to a budget chooses what to "+
				"recompute", f.flag)
		}
	}
	a.warnUnused("--budget, which chooses what to recompute")
	b, err := s.budgetFlags.resolve(a)
	if err != nil {
		return err
	}
	c.strategy = memopt.Budget(*b)
	c.options.Chunk = s.budgetFlags.mode(a, b)
	return nil
}

// warnUnused warns about ORTModule's variables that a flag overrides. Level 0 asks for no recomputation.
func (a *app) warnUnused(beside string) {
	var names []string
	if level, _ := a.env(configs.LevelVariable); level != "" && level != "0" {
		names = append(names, configs.LevelVariable+"="+level)
	}
	if config, _ := a.env(configs.ConfigVariable); config != "" {
		names = append(names, configs.ConfigVariable+"="+config)
	}
	if len(names) > 0 {
		a.warn("%s %s ignored because of %s", strings.Join(names, " and "), plural(len(names), "is", "are"), beside)
	}
}

// orderNames lists the values of --order.
func orderNames() string {
	var names []string
	for _, o := range planner.OrderChoices {
		names = append(names, string(o))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (s *selectionFlags) resolveLevel(a *app, c *chosen) error {
	text, where := s.level, "--level"
	if text == "" && s.config == "" { // a configuration on the command line is meant to be used
		text, _ = a.env(configs.LevelVariable)
		where = configs.LevelVariable
	}
	if text == "" {
		return nil
	}
	level, err := configs.ParseLevel(text, where)
	if err != nil {
		return usage("%w", err)
	}
	if level != planner.UserSpecified {
		c.strategy = memopt.Level(level)
	}
	return nil
}

func (s *selectionFlags) resolveConfig(a *app, c *chosen) error {
	path := s.config
	if path == "" {
		path, _ = a.env(configs.ConfigVariable)
	}
	if path == "" {
		return nil
	}
	if c.strategy != nil {
		a.warn("the configuration %s is ignored: level %d recomputes every cluster; use level 0 "+
			"to apply it",
			path, c.strategy)
		return nil
	}
	entries, err := configs.LoadORT(path)
	if err != nil && s.config == "" {
		return usage("%s: %w", configs.ConfigVariable, err)
	}
	if err != nil {
		return usage("%w", err)
	}
	if c.configPath = path; entries != nil {
		c.strategy = memopt.Config(entries)
	}
	return a.reads(configs.ConfigVariable, path)
}

// usePlan takes over the placements of a plan file made for the same structure.
func (s *selectionFlags) usePlan(c *chosen, l *memopt.Model, record *recompute.Record) error {
	var err error
	if c.configPath = s.plan; record != nil {
		c.strategy, err = l.PlanOf(record)
	} else {
		c.strategy, err = l.PlanFile(s.plan)
	}
	if err != nil {
		return usage("%w", err)
	}
	return s.budgetFlags.agrees(c.strategy, c.configPath)
}

// guarded reports whether the step itself has to leave everything as it is where a gradient is not finite: on
// a device that is named and not the CPU, on which memopt's own loop ends a step before it writes.
func (s *selectionFlags) guarded() bool { return s.device != "" && s.device != cpuDevice }
