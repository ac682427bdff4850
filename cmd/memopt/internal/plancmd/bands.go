package plancmd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/planner"
	"memopt/view/report"
)

// bandFlags ask for plans for bands of sizes.
type bandFlags struct {
	plans    int
	quantile float64
}

// defaultPlans is how many plans are made for a file of sizes.
const defaultPlans = 5

func (f *bandFlags) register(set *pflag.FlagSet) {
	cli.NumberVar(set, &f.plans, "plans", "", 0, cli.Bounds{Least: 1, Most: 100},
		"with a --budget and sizes that differ from step to step (--dim seq=lengths.json, or a range): at most so "+
			"many plans, each for a band of sizes; default 5 for a file, 1 for a range")
	cli.NumberVar(set, &f.quantile, "quantile", "", 1.0, cli.Bounds{Least: 0, Most: 1},
		"with --plans: the share of steps whose memory is within the budget")
}

// asked tells whether plans for bands of sizes are asked for.
func (f *bandFlags) asked(a *cli.App, set *pflag.FlagSet, sel *option.SelectionFlags) bool {
	return set.Changed("plans") || set.Changed("quantile") || len(a.Histograms) > 0 && sel.BudgetFlags.Asks()
}

// sizes is the histogram that the plans are for.
func (f *bandFlags) sizes(a *cli.App) (*planner.Histogram, error) {
	ranges := a.Ranges()
	switch {
	case len(ranges) == 0:
		return nil, cli.Usage("--plans and --quantile are for sizes that differ from step to step: add --dim " +
			"seq=lengths.json, {\"seq\": [[length, weight], ...]}, or a range such as --dim seq=1..1024")
	case len(ranges) > 1:
		return nil, cli.Usage("--dim: %s differ from step to step: plans for bands are for one symbol; give the "+
			"others one number each", strings.Join(slices.Sorted(maps.Keys(ranges)), " and "))
	}
	for symbol, r := range ranges {
		if h := a.Histograms[symbol]; h != nil {
			return h, nil
		}
		return planner.Uniform(symbol, r), nil
	}
	return nil, nil
}

// bandSearches is how many searches share the effort.
const bandSearches = 20

// planBands makes plans for bands of sizes, and writes the report and the files.
func planBands(a *cli.App, name string, sel *option.SelectionFlags, format report.Format, f *bandFlags,
	folder string) error {
	h, err := f.sizes(a)
	if err != nil {
		return err
	}
	if !sel.BudgetFlags.Asks() || sel.Level != "" || sel.Config != "" || sel.Plan != "" {
		return cli.Usage("--plans: plans for bands of sizes are made to a --budget alone; add it, and leave out " +
			"--level, --config and --plan")
	}
	const what = "for the plans of bands of sizes"
	if err := newFolder("--save-plan", what, folder); err != nil {
		return err
	}
	if err := sel.Step.Check(); err != nil {
		return err
	}
	l, err := load.Model(a, name, load.Reading{States: sel.States, Ranged: true})
	if err != nil {
		return err
	}
	defer l.Close()
	forward := l
	l, step, err := gradcmd.MakeStep(a, l, &sel.Step, sel.Guarded())
	if err != nil {
		return err
	}
	c, err := sel.Resolve(a, l, option.Planning{Searches: true, Reading: load.Reading{Ranged: true}})
	if err != nil {
		return err
	}
	b, err := spanBudget(c.Strategy, c.Options)
	if err != nil {
		return err
	}
	b.Effort /= bandSearches
	b.Found, b.Progress = a.Keeper.Keep, a.Searched
	plans := f.plans
	if plans == 0 && a.Histograms[h.Symbol] != nil {
		plans = defaultPlans
	}
	a.Status.Say("planning for bands of %s", h.Symbol)
	found, err := l.PlanBands(a.SearchFor(c.Strategy), b, c.Options, h, max(plans, 1), f.quantile)
	if err != nil {
		return a.ClassifyPlan(name, err)
	}
	names := make([]string, len(found.List))
	for i, band := range found.List {
		names[i] = fmt.Sprintf("%s-%d-%d.json", h.Symbol, band.Lo, band.Hi)
	}
	files, err := savePlans(what, folder, names, func(i int) ([]byte, error) { return found.File(i, a.Global.Seed) })
	if err != nil {
		return err
	}
	if err := report.StepLine(a.Out, format, step); err != nil {
		return err
	}
	if err := report.Bands(a.Out, format, name, found.Bands, folder, files); err != nil {
		return err
	}
	if err := a.Next(format, afterBands(name, forward, found, folder).About(step)); err != nil {
		return err
	}
	if a.Ctx.Err() != nil {
		return &cli.ExitError{Code: cli.ExitInterrupted,
			Err: errors.New("interrupted: these are the best plans found so far")}
	}
	return nil
}

// afterBands saves the plans, or applies that of the longest sizes.
func afterBands(name string, m *memopt.Model, found *memopt.Bands, folder string) *cli.NextCommand {
	n := &cli.NextCommand{Verb: "plan", Args: []string{name}, Set: [][2]string{{"save-plan",
		cli.FileLike(name, ".plans")}}}
	if folder != "" {
		last := found.List[len(found.List)-1].Hi
		n = &cli.NextCommand{Verb: "apply", Args: []string{name}, Drop: cli.OfSelection,
			Dims: map[string]int64{found.Histogram.Symbol: last},
			Set:  [][2]string{{"plan", folder}, {"out", cli.FileLike(name, ".opt.onnx")}}}
	}
	return n
}
