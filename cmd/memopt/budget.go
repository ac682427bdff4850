package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/planner"
	"memopt/view/report"
)

// budgetFlags are the selection flags that ask for a plan to a budget.
type budgetFlags struct {
	deviceFlags
	budget  string
	limits  []string
	in      string
	what    string
	solver  string
	optimal bool
	chunk   string
	set     *pflag.FlagSet // the set that they are registered in
	limitFlags
}

func (b *budgetFlags) register(f *pflag.FlagSet) {
	b.set = f
	b.deviceFlags.register(f, "default: the times of a100, and of cpu where the verb executes")
	registerChunk(f, &b.chunk)
	f.StringVar(&b.budget, "budget", "",
		"find the cheapest plan that fits: 16GiB for inputs, weights and arena together, or 50% "+
			"of the baseline peak for the arena")
	f.StringArrayVar(&b.limits, "budget-for",
		nil, "'GLOB=SIZE': limit what nodes with matching names stash to SIZE at the end of the "+
			"forward half (repeatable)")
	f.StringVar(&b.in, "budget-in", "memopt",
		"where the budget applies: memopt, in memopt's own order and arena; ort, in the simulated "+
			"arena of stock ONNX Runtime, with the anchors of the file that apply writes")
	f.StringVar(&b.what, "select", "nodes",
		"what a plan to a budget chooses from: nodes, any that can run again; clusters, what "+
			"an ONNX Runtime configuration can express; or, for plan, modules, what "+
			"torch.utils.checkpoint can")
	f.StringVar(&b.solver, "solver", "auto",
		"auto; greedy, which stops at the first plan that fits; or lns, the search without "+
			"dynamic programming over layers")
	b.limitFlags.register(f)
	f.BoolVar(&b.optimal, "require-optimal", false, "exit with 8 unless it is proved that no plan "+
		"is cheaper")
}

// asks reports whether there is a budget.
func (b *budgetFlags) asks() bool { return b.budget != "" || b.gpu != "" || len(b.limits) > 0 }

// search checks the flags that say how to search, and returns a budget without a limit.
func (b *budgetFlags) search(a *app) (*planner.Budget, error) {
	out := &planner.Budget{Seed: a.global.seed, Solver: b.solver}
	switch b.what {
	case "nodes", "clusters":
		out.Clusters = b.what == "clusters"
	case modulesName:
		return nil, usage("--select modules is for plan, which says what a PyTorch program is to run again; " +
			"memopt.torch.check proves it there")
	default:
		return nil, usage("--select %q: wanted nodes, clusters or modules", b.what)
	}
	switch b.in {
	case "memopt", ortName:
		out.Runtime = b.in == ortName
	default:
		return nil, usage("--budget-in %q: wanted memopt or ort", b.in)
	}
	if _, err := chunkMode(b.chunk); err != nil {
		return nil, err
	}
	if out.Runtime && out.Clusters {
		return nil, usage("--budget-in ort and --select clusters cannot be combined: a " +
			"configuration is for ONNX Runtime's training build, which needs no anchors")
	}
	switch b.solver {
	case "auto", "greedy", "lns":
	default:
		return nil, usage("--solver %q: wanted auto, greedy or lns", b.solver)
	}
	out.Effort = b.work()
	return out, nil
}

// resolve makes planner options of the flags.
func (b *budgetFlags) resolve(a *app) (*planner.Budget, error) {
	out, err := b.search(a)
	if err != nil {
		return nil, err
	}
	if err := a.parseBudget(b.budget, out); err != nil {
		return nil, err
	}
	if err := b.ofDevice(a, out); err != nil {
		return nil, err
	}
	for _, text := range b.limits {
		at := strings.LastIndexByte(text, '=')
		if at <= 0 {
			return nil, usage("--budget-for %q: wanted GLOB=SIZE, for example '/h.*=1GiB'", text)
		}
		size, err := report.ParseBytes(text[at+1:])
		if err != nil {
			return nil, usage("--budget-for %q: %w", text, err)
		}
		a.warnBare("--budget-for", text[at+1:], size)
		out.StashLimits = append(out.StashLimits, planner.StashLimit{Glob: text[:at], Bytes: size})
	}
	return out, nil
}

// ofDevice sets the budget of a plan to the memory of --gpu less the reserve.
func (b *budgetFlags) ofDevice(a *app, out *planner.Budget) error {
	if b.gpu == "" {
		return nil
	}
	if b.budget != "" {
		return usage("--gpu and --budget cannot be combined: both say what a step may take")
	}
	m, err := b.memory(a)
	if err != nil {
		return err
	}
	if out.Total = m.limit(); out.Total <= 0 {
		return usage("--gpu %s: its %s are less than the %s that no step can have (--reserve)", b.gpu,
			report.Bytes(m.bytes), report.Bytes(m.reserve))
	}
	return nil
}

// idle checks the flags if there is no budget, and warns about those that then have no effect.
func (b *budgetFlags) idle(a *app) error {
	if _, err := b.search(a); err != nil || b.set.Changed("pareto") {
		return err
	}
	b.warnIdle(a, "without --budget or --budget-for", "budget-in", "select", "solver", "time-limit", "effort",
		"require-optimal", "chunk")
	return nil
}

// warnIdle warns about those of the flags that were given and have no effect.
func (b *budgetFlags) warnIdle(a *app, why string, flags ...string) {
	var idle []string
	for _, name := range flags {
		if b.set.Changed(name) {
			idle = append(idle, "--"+name)
		}
	}
	if len(idle) > 0 {
		a.warn("%s: no effect %s", strings.Join(idle, ", "), why)
	}
}

// held is the error of a plan that was held to a budget and is above it.
func (b *budgetFlags) held(p *memopt.Plan, file string) error {
	f := p.Fit
	if f == nil || f.Fits() {
		return nil
	}
	return &exitError{exitInfeasible, fmt.Errorf("%s: does not fit: %s; plan anew with %s, or allow more",
		file, report.FitSentence(f), b.flag())}
}

// flag is the flag that the budget comes from.
func (b *budgetFlags) flag() string {
	if b.gpu != "" {
		return "--gpu " + b.gpu
	}
	return "--budget " + b.budget
}

// parseBudget reads the value of --budget.
func (a *app) parseBudget(text string, out *planner.Budget) error {
	if text == "" {
		return nil
	}
	share, ok, err := report.ParseShare(text)
	if ok {
		out.Share = share
	} else if out.Total, err = report.ParseBytes(text); err == nil && out.Total == 0 {
		err = errors.New("is zero")
	}
	if err != nil {
		return usage("--budget %q: %v; wanted a positive size such as 16GiB, "+
			"or a share of the baseline peak such as %s", text, err, shareLike(text))
	}
	if !ok {
		a.warnBare("--budget", text, out.Total)
	}
	return nil
}

// shareLike is an example of a share of the baseline peak: the intended one, if a budget such as
// 0.5 suggests it.
func shareLike(text string) string {
	if x, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && x > 0 && x < 1 {
		return strconv.FormatFloat(100*x, 'g', 4, 64) + "%"
	}
	return "50%"
}

// bareSize is the smallest plausible size without a unit: less is no useful amount of memory.
const bareSize = 1 << 20

// warnBare warns that a small number without a unit is in bytes.
func (a *app) warnBare(flag, text string, n int64) {
	if report.BareNumber(text) && n < bareSize {
		a.warn("%s %s: a number without a unit is in bytes; did you mean %sGiB?", flag, text, strings.TrimSpace(text))
	}
}

// finish is the exit code of a plan that was made and printed.
func (b *budgetFlags) finish(a *app, p *memopt.Plan) error {
	if !b.asks() {
		return nil
	}
	if a.ctx.Err() != nil {
		return &exitError{exitInterrupted, errors.New("interrupted: this is the best plan found " +
			"so far")}
	}
	if p.Stopped && b.limit > 0 {
		a.note("the time limit of %s ended the search: this is the best plan found so far", b.limit)
	}
	if b.optimal && (p.Bound == nil || !p.Bound.Optimal) {
		return &exitError{exitEarly,
			fmt.Errorf("%s: the plan fits, but it is not proved that no plan is cheaper; raise "+
				"--time-limit", p.Model.Path)}
	}
	return nil
}

// modulesName is the value of --select that plans modules of a PyTorch program.
const modulesName = "modules"

// deviceName is the value of --vary that stands for the device.
const deviceName = "device"
