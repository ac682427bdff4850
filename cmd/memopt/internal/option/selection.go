// Package option has the flags that several verbs share, as structs that make requests to the libraries: the selection
// of recomputed values and its budget, the device's memory, the engine that executes, and data for it.
package option

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/load"
	"memopt/configs"
	"memopt/planner"
	"memopt/recompute"
	"memopt/view/report"
)

// SelectionFlags are the flags that choose the recomputed nodes.
type SelectionFlags struct {
	Level  string
	Config string
	Probe  string
	Plan   string
	Order  string
	cost   string
	// aliases and cloneBytes describe the memory of another runtime.
	aliases    string
	cloneBytes string
	States     []string
	// keep and recompute have names and globs of values that must be kept and recomputed.
	Keep, Recompute []string
	Step            gradcmd.StepFlags
	BudgetFlags
}

// RegisterGraph adds the flags of a verb about a graph, with those that say which training step is made of a
// forward model.
func (s *SelectionFlags) RegisterGraph(f *pflag.FlagSet) {
	s.registerDemands(f)
	s.Step.RegisterGraph(f)
	s.Step.Optimizer.RegisterRate(f)
}

// RegisterJob adds the flags of a verb about a job.
func (s *SelectionFlags) RegisterJob(f *pflag.FlagSet) {
	s.registerDemands(f)
	s.Step.RegisterJob(f)
	s.Step.Optimizer.RegisterRate(f)
}

// registerDemands adds the flags of a plan.
func (s *SelectionFlags) registerDemands(f *pflag.FlagSet) {
	s.RegisterPlan(f)
	f.StringArrayVar(&s.Keep, "keep", nil, "names or globs of values, nodes or layers that are never "+
		"recomputed, whatever chooses the rest (repeatable)")
	f.StringArrayVar(&s.Recompute, "recompute", nil, "names or globs of values, nodes or layers whose stashed "+
		"activations are recomputed, whatever chooses the rest (repeatable)")
}

// RegisterPlan adds the flags of the selection, the order and the costs.
func (s *SelectionFlags) RegisterPlan(f *pflag.FlagSet) {
	f.StringVar(&s.Level, "level", "",
		"0: recompute the clusters of the configuration (default); 1: every cluster, layer by layer; "+
			"2: with compromises")
	f.StringVar(&s.Config, "config", "",
		"ONNX Runtime configuration, a JSON array of \"ClusterID:Strategy:Count\", for level 0")
	f.StringVar(&s.Probe, "probe", "", "how far to search, LEVEL:LAYERS; default 1:0 at level 0, else 1:1")
	f.StringVar(&s.Plan, "plan", "", "use the placements of a plan.json")
	f.StringVar(&s.cost, "cost", "", "take the times of nodes from a file that run --profile "+
		"wrote")
	f.StringVar(&s.Order, "order", "auto", "order of execution: auto, file, ort, or memory, which "+
		"looks for a lower peak")
	f.StringVar(&s.aliases, "aliases", "",
		"JSON {\"aliased\": [node, …]}: the nodes whose outputs share the memory of their first "+
			"input, for a runtime that does not write in place, such as Deeploy")
	f.StringVar(&s.cloneBytes, "clone-bytes", "",
		"memory that each clone takes throughout, in addition to its outputs, such as 200 or 1KiB")
	f.StringArrayVar(&s.States, "state", nil,
		"IN=OUT: the output is the next value of this input or initializer and replaces it "+
			"(repeatable); steps made by grad --optimizer, operators that update their inputs "+
			"and outputs named X_updated need no flag")
	s.BudgetFlags.Register(f)
}

// ForCPU reports whether the flags say that the plan is for the CPU.
func (s *SelectionFlags) ForCPU() bool {
	return s.Device == CpuDevice || s.Device == "" && s.cost != ""
}

// Planning says how a verb plans a model, beside its flags.
type Planning struct {
	// shown asks for parts of a plan that are only shown, and for the formulas of its peak.
	Shown bool
	// deeploy counts memory by Deeploy's rules, even without --aliases.
	Deeploy bool
	// executes says that the verb executes on the CPU, whose profile is then the default.
	Executes bool
	// Writes says that the verb plans for a file and executes no graph, Rewrites that it writes the file.
	Writes, Rewrites bool
	// Steps says that the verb executes steps on a device of memopt's.
	Steps bool
	// record is that of a plan file that was read, in place of --plan; nil without one.
	Record *recompute.Record
	// bare leaves out the selection, whatever ORTModule's variables say: two models are compared.
	Bare bool
	// Moves says that the verb follows plan files whose values move to the host.
	Moves bool
	// searches says that the verb cannot hold a plan file or a configuration to a budget: it searches for a plan to it.
	Searches bool
	load.Reading
}

// Chosen is a selection and where it came from.
type Chosen struct {
	Strategy   memopt.Strategy
	Moved      *recompute.Record // of a plan file whose values move, in place of Strategy; else nil
	Options    memopt.PlanOptions
	ConfigPath string
	File       *memopt.Model // the model as it was read
	Step       *report.Step  // that was made of it, or taken; nil before
}

// Resolve makes planner options of the flags and of ORTModule's variables.
func (s *SelectionFlags) Resolve(a *cli.App, l *memopt.Model, how Planning) (*Chosen, error) {
	if err := s.settle(a, l, how); err != nil {
		return nil, err
	}
	c := &Chosen{File: l, Options: memopt.PlanOptions{Options: planner.Options{Order: planner.OrderChoice(s.Order),
		Keep: s.Keep, Recompute: s.Recompute, ORTModule: s.session, Written: how.Rewrites}}}
	if s.Probe != "" {
		probe, err := recompute.ParseProbe(s.Probe)
		if err != nil {
			return nil, cli.Usage("--probe: %w", err)
		}
		c.Options.Probe = &probe
	}
	if s.Order != "" && !slices.Contains(planner.OrderChoices, c.Options.Order) {
		return nil, cli.Usage("--order %q: wanted %s", s.Order, orderNames())
	}
	if err := s.resolveCosts(a, c, l, how); err != nil {
		return nil, err
	}
	if err := s.resolveMemory(a, c, l, how.Deeploy); err != nil {
		return nil, err
	}
	if s.Plan != "" || how.Record != nil {
		if err := s.hold(a, c, "--plan", how); err != nil {
			return nil, err
		}
		WarnUnused(a, "--plan, which has its own placements")
		return c, s.usePlan(c, l, how)
	}
	if how.Bare {
		return c, nil
	}
	if s.BudgetFlags.Asks() && s.Config != "" && s.What != "clusters" {
		if err := s.hold(a, c, "--config", how); err != nil {
			return nil, err
		}
	} else if s.BudgetFlags.Asks() {
		return c, s.resolveBudget(a, c)
	}
	if c.Options.Within == nil {
		if err := s.BudgetFlags.idle(a); err != nil {
			return nil, err
		}
	}
	if err := s.resolveLevel(a, c); err != nil {
		return nil, err
	}
	return c, s.resolveConfig(a, c)
}

// resolveMemory reads the flags about the memory of another runtime.
func (s *SelectionFlags) resolveMemory(a *cli.App, c *Chosen, l *memopt.Model, deeploy bool) error {
	if s.cloneBytes != "" {
		n, err := report.ParseBytes(s.cloneBytes)
		if err != nil {
			return cli.Usage("--clone-bytes %q: %w; wanted a size such as 200 or 1KiB", s.cloneBytes, err)
		}
		c.Options.CloneBytes = n
	}
	if deeploy {
		c.Options.Aliased = make([]bool, len(l.Graph.Nodes))
	}
	if s.aliases == "" {
		return nil
	}
	aliased, unknown, err := configs.LoadAliases(s.aliases, l.Graph)
	if err != nil {
		return cli.Usage("--aliases: %w", err)
	}
	if len(unknown) > 0 {
		a.Warn("--aliases %s: the model has no node %q (nor %d more of the listed nodes)",
			s.aliases, unknown[0], len(unknown)-1)
	}
	c.Options.Aliased = aliased
	return nil
}

// hold takes a budget that the recomputations of a flag's file must keep. No search is made for it.
func (s *SelectionFlags) hold(a *cli.App, c *Chosen, flag string, how Planning) error {
	switch {
	case !s.BudgetFlags.Asks():
		return nil
	case how.Searches:
		return cli.Usage("%s and --budget cannot be combined here; memopt plan with both says whether "+
			"the file fits the budget", flag)
	case len(s.limits) > 0:
		return cli.Usage("%s and --budget-for cannot be combined: the file chooses the stashes of each part of the "+
			"graph; hold it to a --budget", flag)
	case s.Level != "" && s.Level != "0":
		return cli.Usage("--level %s and --budget cannot be combined: a level is no file that can be held to "+
			"a budget", s.Level)
	}
	b, err := s.BudgetFlags.resolve(a)
	if err != nil {
		return err
	}
	s.BudgetFlags.warnIdle(a, "where "+flag+" chooses the recomputed nodes",
		"select", "solver", "time-limit", "effort", "require-optimal", "chunk")
	c.Options.Within = b
	return nil
}

// resolveBudget takes the budget, which replaces level and configuration: ORTModule's variables are
// ignored.
func (s *SelectionFlags) resolveBudget(a *cli.App, c *Chosen) error {
	for _, f := range []struct{ flag, text string }{{"--level", s.Level}, {"--config", s.Config}} {
		if f.text != "" {
			return cli.Usage("%s and --budget cannot be combined: a plan to a budget chooses the recomputed "+
				"nodes", f.flag)
		}
	}
	WarnUnused(a, "--budget, which chooses the recomputed nodes")
	b, err := s.BudgetFlags.resolve(a)
	if err != nil {
		return err
	}
	c.Strategy = memopt.Budget(*b)
	c.Options.Chunk = s.BudgetFlags.Mode(a, b)
	return nil
}

// WarnUnused warns about ORTModule's variables that a flag overrides. Level 0 asks for no recomputation.
func WarnUnused(a *cli.App, beside string) {
	var names []string
	if level, _ := a.Env(configs.LevelVariable); level != "" && level != "0" {
		names = append(names, configs.LevelVariable+"="+level)
	}
	if config, _ := a.Env(configs.ConfigVariable); config != "" {
		names = append(names, configs.ConfigVariable+"="+config)
	}
	if len(names) > 0 {
		a.Warn("%s %s ignored because of %s", strings.Join(names, " and "), cli.Plural(len(names), "is", "are"), beside)
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

func (s *SelectionFlags) resolveLevel(a *cli.App, c *Chosen) error {
	text, where := s.Level, "--level"
	if text == "" && s.Config == "" { // a configuration on the command line is meant to be used
		text, _ = a.Env(configs.LevelVariable)
		where = configs.LevelVariable
	}
	if text == "" {
		return nil
	}
	level, err := configs.ParseLevel(text, where)
	if err != nil {
		return cli.Usage("%w", err)
	}
	if level != planner.UserSpecified {
		c.Strategy = memopt.Level(level)
	}
	return nil
}

func (s *SelectionFlags) resolveConfig(a *cli.App, c *Chosen) error {
	path := s.Config
	if path == "" {
		path, _ = a.Env(configs.ConfigVariable)
	}
	if path == "" {
		return nil
	}
	if c.Strategy != nil {
		a.Warn("the configuration %s is ignored: level %d recomputes every cluster; use level 0 "+
			"to apply it",
			path, c.Strategy)
		return nil
	}
	entries, err := configs.LoadORT(path)
	if err != nil && s.Config == "" {
		return cli.Usage("%s: %w", configs.ConfigVariable, err)
	}
	if err != nil {
		return cli.Usage("%w", err)
	}
	if c.ConfigPath = path; entries != nil {
		c.Strategy = memopt.Config(entries)
	}
	return a.Reads(configs.ConfigVariable, path)
}

// usePlan takes over the placements of a plan file made for the same structure.
func (s *SelectionFlags) usePlan(c *Chosen, l *memopt.Model, how Planning) error {
	var err error
	record := how.Record
	if c.ConfigPath = s.Plan; record == nil {
		if record, err = configs.LoadPlan(s.Plan); err != nil {
			return cli.Usage("%w", err)
		}
	}
	if record.MovedRecord != nil && how.Moves {
		c.Moved = record
		return nil
	}
	if c.Strategy, err = l.PlanOf(record); err != nil && how.Record == nil {
		err = fmt.Errorf("%s: %w", s.Plan, err)
	}
	if err != nil {
		return cli.Usage("%w", err)
	}
	return s.BudgetFlags.agrees(c.Strategy, c.ConfigPath)
}

// MovedPlan reads the plan file that the flags name where its values move to the host; else it returns nil. A file
// that cannot be read is the error of Resolve.
func (s *SelectionFlags) MovedPlan() *recompute.Record {
	if s.Plan == "" {
		return nil
	}
	if r, err := configs.LoadPlan(s.Plan); err == nil && r.MovedRecord != nil {
		return r
	}
	return nil
}

// Guarded reports whether the step itself has to leave everything as it is where a gradient is not finite: on
// a device that is named and not the CPU. On the CPU memopt's own loop ends a step before it writes.
func (s *SelectionFlags) Guarded() bool { return s.Device != "" && s.Device != CpuDevice }
