package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/planner"
	"memopt/report"
)

// budgetFlags are the selection flags that ask for a plan to a budget.
type budgetFlags struct {
	budget  string
	limits  []string
	in      string
	what    string
	solver  string
	limit   string
	effort  float64
	optimal bool
	set     *pflag.FlagSet // what they are registered in
}

func (b *budgetFlags) register(f *pflag.FlagSet) {
	b.set = f
	f.StringVar(&b.budget, "budget", "",
		"the cheapest plan that fits: 16GiB of inputs, weights and arena together, or 50% of the baseline peak for "+
			"the arena")
	f.StringArrayVar(&b.limits, "budget-for",
		nil, "'GLOB=SIZE': what nodes with such names stash may take so much at the end of the forward half "+
			"(repeatable)")
	f.StringVar(&b.in, "budget-in", "memopt",
		"in what the budget is kept: memopt, its own order and arena; ort, the simulated arena of stock ONNX "+
			"Runtime, with the anchors of the file that apply writes")
	f.StringVar(&b.what, "select", "nodes",
		"what a plan to a budget chooses: nodes, any that can run again, or clusters, what a configuration of ONNX "+
			"Runtime can say")
	f.StringVar(&b.solver, "solver", "auto",
		"auto; greedy, the first plan that fits; lns, the search without dynamic programming over layers")
	f.StringVar(&b.limit, "time-limit", "10s",
		"what the search may take in all: 10s, 2m, or a number of seconds; then the best plan so far is the answer. "+
			"0: until the first that fits")
	numberVar(f, &b.effort, "effort", "",
		0, notNegative,
		"counted work of the search, in seconds of a usual core: with a generous --time-limit the plan is the same "+
			"on every machine; 0: the time limit's")
	f.BoolVar(&b.optimal, "require-optimal", false, "end with 8 where no proof was found that no plan is cheaper")
}

// asks reports whether there is a budget.
func (b *budgetFlags) asks() bool { return b.budget != "" || len(b.limits) > 0 }

// search checks the flags that say how to search, and makes a budget without a limit of them.
func (b *budgetFlags) search(a *app) (*planner.Budget, error) {
	out := &planner.Budget{Seed: a.global.seed, Solver: b.solver}
	switch b.what {
	case "nodes", "clusters":
		out.Clusters = b.what == "clusters"
	default:
		return nil, usage("--select %q: wanted nodes or clusters", b.what)
	}
	switch b.in {
	case "memopt", ortName:
		out.Runtime = b.in == ortName
	default:
		return nil, usage("--budget-in %q: wanted memopt or ort", b.in)
	}
	if out.Runtime && out.Clusters {
		return nil, usage("--budget-in ort and --select clusters exclude each other: what a configuration says runs " +
			"in ONNX Runtime's training build, which needs no anchors")
	}
	switch b.solver {
	case "auto", "greedy", "lns":
	default:
		return nil, usage("--solver %q: wanted auto, greedy or lns", b.solver)
	}
	limit, err := b.duration()
	if err != nil {
		return nil, err
	}
	out.Effort, out.Limit = limit.Seconds(), limit
	switch {
	case !(b.effort >= 0 && b.effort < 1e6):
		return nil, usage("--effort %v: wanted a number of seconds", b.effort)
	case b.effort > 0 && limit > 0:
		out.Effort = b.effort
	}
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

// idle checks the flags where there is no budget, and says which of those that were given change
// nothing then.
func (b *budgetFlags) idle(a *app) error {
	if _, err := b.search(a); err != nil || b.set.Changed("pareto") {
		return err
	}
	var idle []string
	for _, name := range []string{"budget-in", "select", "solver", "time-limit", "effort", "require-optimal"} {
		if b.set.Changed(name) {
			idle = append(idle, "--"+name)
		}
	}
	if len(idle) > 0 {
		a.warn("%s: for a plan to a budget; without --budget or --budget-for it changes nothing",
			strings.Join(idle, ", "))
	}
	return nil
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

// shareLike is an example of a share of the baseline peak: the one that was meant, if a budget such
// as 0.5 means one.
func shareLike(text string) string {
	if x, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && x > 0 && x < 1 {
		return strconv.FormatFloat(100*x, 'g', 4, 64) + "%"
	}
	return "50%"
}

// bareSize is what a size without a unit should have at least: nobody has so little memory.
const bareSize = 1 << 20

// warnBare says that a small number without a unit is bytes.
func (a *app) warnBare(flag, text string, n int64) {
	if report.BareNumber(text) && n < bareSize {
		a.warn("%s %s: a number without a unit is bytes; %sGiB has one", flag, text, strings.TrimSpace(text))
	}
}

// duration reads the time limit; 0 is the first answer.
func (b *budgetFlags) duration() (time.Duration, error) {
	if b.limit == "0" || b.limit == "0s" {
		return 0, nil
	}
	return parseDuration("--time-limit", b.limit)
}

// finish is the exit code of a plan that was made and printed.
func (b *budgetFlags) finish(a *app, p *memopt.Plan) error {
	if !b.asks() {
		return nil
	}
	if a.ctx.Err() != nil {
		return &exitError{exitInterrupted, errors.New("interrupted: the plan is the best that was found until then")}
	}
	if p.Stopped {
		a.note("the time limit of %s ended the search: the plan is the best that was found until then", b.limit)
	}
	if b.optimal && (p.Bound == nil || !p.Bound.Optimal) {
		return &exitError{exitEarly,
			fmt.Errorf("%s: the plan fits, but it is not proved that no plan is cheaper; give the search more time "+
				"with --time-limit", p.Model.Path)}
	}
	return nil
}
