package option

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/graph/live"
	"memopt/planner"
	"memopt/planner/chunk"
	"memopt/recompute"
	"memopt/view/report"
)

// BudgetFlags are the selection flags that ask for a plan to a budget.
type BudgetFlags struct {
	DeviceFlags
	Budget  string
	limits  []string
	In      string
	What    string
	Solver  string
	optimal bool
	chunk   string
	set     *pflag.FlagSet // the set that they are registered in
	session bool           // the plan's peaks are those in ORTModule
	cli.LimitFlags
}

func (b *BudgetFlags) Register(f *pflag.FlagSet) {
	b.set = f
	b.DeviceFlags.Register(f, "default: the times of a100, and of cpu where the verb executes")
	RegisterChunk(f, &b.chunk)
	f.StringVar(&b.Budget, "budget", "",
		"find the cheapest plan that fits: 16GiB for inputs, weights and arena together, or 50% "+
			"of the baseline peak for the arena")
	f.StringArrayVar(&b.limits, "budget-for",
		nil, "'GLOB=SIZE': limit the stashes of nodes with matching names to SIZE at the end of the forward half "+
			"(repeatable)")
	f.StringVar(&b.In, "budget-in", autoName,
		"where the budget applies: memopt, in memopt's own order and arena; ort, in the simulated "+
			"arena of stock ONNX Runtime, with the anchors of the file that apply writes; ortmodule, in "+
			"ORTModule's session, in its order, without its arena; auto, ortmodule where plan, apply, run and verify "+
			"read a file with a YieldOp, else memopt")
	f.StringVar(&b.What, "select", "nodes",
		"the choices of a plan to a budget: nodes, any that can run again; clusters, as an ONNX Runtime "+
			"configuration can express them; or, for plan, modules, as under torch.utils.checkpoint")
	f.StringVar(&b.Solver, "solver", "auto",
		"auto; greedy, which stops at the first plan that fits; or lns, the search without "+
			"dynamic programming over layers")
	b.LimitFlags.Register(f)
	f.BoolVar(&b.optimal, "require-optimal", false, "exit with 8 unless it is proved that no plan "+
		"is cheaper")
}

// Values of --budget-in beside memopt and ort.
const (
	autoName      = "auto"
	ortmoduleName = "ortmodule"
)

// settle decides whether the plan's peaks, and the orders in which graphs run, are those in ORTModule. That is
// the default for files with a YieldOp that memopt has not made; the built-in examples are for memopt's own executor.
func (s *SelectionFlags) settle(a *cli.App, l *memopt.Model, how Planning) error {
	b := &s.BudgetFlags
	found, err := live.FindBoundary(l.Model)
	yields := err == nil && found.Kind == live.YieldBoundary
	switch b.In {
	case ortmoduleName:
		if !yields {
			return cli.Usage("--budget-in ortmodule: %s has no YieldOp, so it is no graph of ORTModule's session; "+
				"wanted memopt or ort", l.Path)
		}
		b.session = true
	case autoName:
		_, rewritten := l.Meta(recompute.Key)
		_, recorded := l.Meta(live.BoundaryKey)
		b.session = yields && (how.Writes || how.Steps) && !rewritten && !recorded &&
			!strings.HasPrefix(l.Path, memopt.ExamplePrefix) && s.Order == autoName && s.aliases == "" &&
			s.cloneBytes == "" && !how.Deeploy && len(s.limits) == 0 && len(a.Ranges()) == 0 &&
			(b.chunk == string(chunk.Off) || !b.set.Changed("chunk"))
	}
	return nil
}

// Asks reports whether there is a budget.
func (b *BudgetFlags) Asks() bool { return b.Budget != "" || b.Gpu != "" || len(b.limits) > 0 }

// Search checks the flags that say how to search, and returns a budget without a limit.
func (b *BudgetFlags) Search(a *cli.App) (*planner.Budget, error) {
	out := &planner.Budget{Seed: a.Global.Seed, Solver: b.Solver}
	switch b.What {
	case "nodes", "clusters":
		out.Clusters = b.What == "clusters"
	case ModulesName:
		return nil, cli.Usage("--select modules is for plan, which chooses modules of a PyTorch program to " +
			"recompute; " +
			"memopt.torch.check proves it there")
	default:
		return nil, cli.Usage("--select %q: wanted nodes, clusters or modules", b.What)
	}
	switch b.In {
	case autoName, "memopt", cli.OrtName, ortmoduleName:
		out.ORTModule = b.session
		out.Runtime = b.In == cli.OrtName || b.session && !out.Clusters
	default:
		return nil, cli.Usage("--budget-in %q: wanted auto, memopt, ort or ortmodule", b.In)
	}
	if _, err := ChunkMode(b.chunk); err != nil {
		return nil, err
	}
	if b.In == cli.OrtName && out.Clusters {
		return nil, cli.Usage("--budget-in ort and --select clusters cannot be combined: a " +
			"configuration is for ONNX Runtime's training build, which needs no anchors")
	}
	switch b.Solver {
	case "auto", "greedy", "lns":
	default:
		return nil, cli.Usage("--solver %q: wanted auto, greedy or lns", b.Solver)
	}
	out.Effort = b.Work()
	return out, nil
}

// resolve makes planner options of the flags.
func (b *BudgetFlags) resolve(a *cli.App) (*planner.Budget, error) {
	out, err := b.Search(a)
	if err != nil {
		return nil, err
	}
	if err := ParseBudget(a, b.Budget, out); err != nil {
		return nil, err
	}
	if err := b.ofDevice(a, out); err != nil {
		return nil, err
	}
	for _, text := range b.limits {
		at := strings.LastIndexByte(text, '=')
		if at <= 0 {
			return nil, cli.Usage("--budget-for %q: wanted GLOB=SIZE, for example '/h.*=1GiB'", text)
		}
		size, err := report.ParseBytes(text[at+1:])
		if err != nil {
			return nil, cli.Usage("--budget-for %q: %w", text, err)
		}
		warnBare(a, "--budget-for", text[at+1:], size)
		out.StashLimits = append(out.StashLimits, planner.StashLimit{Glob: text[:at], Bytes: size})
	}
	return out, nil
}

// ofDevice sets the budget of a plan to the memory of --gpu less the reserve.
func (b *BudgetFlags) ofDevice(a *cli.App, out *planner.Budget) error {
	if b.Gpu == "" {
		return nil
	}
	if b.Budget != "" {
		return cli.Usage("--gpu and --budget cannot be combined: both limit the memory of a step")
	}
	m, err := b.Memory(a)
	if err != nil {
		return err
	}
	if out.Total = m.limit(); out.Total <= 0 {
		return cli.Usage("--gpu %s: its %s are less than the %s that no step can have (--reserve)", b.Gpu,
			report.Bytes(m.Bytes), report.Bytes(m.Reserve))
	}
	return nil
}

// idle checks the flags if there is no budget, and warns about those that then have no effect.
func (b *BudgetFlags) idle(a *cli.App) error {
	if _, err := b.Search(a); err != nil || b.set.Changed("pareto") {
		return err
	}
	b.warnIdle(a, "without --budget or --budget-for", "budget-in", "select", "solver", "time-limit", "effort",
		"require-optimal", "chunk")
	return nil
}

// warnIdle warns about those of the flags that were given and have no effect.
func (b *BudgetFlags) warnIdle(a *cli.App, why string, flags ...string) {
	var idle []string
	for _, name := range flags {
		if b.set.Changed(name) {
			idle = append(idle, "--"+name)
		}
	}
	if len(idle) > 0 {
		a.Warn("%s: no effect %s", strings.Join(idle, ", "), why)
	}
}

// Held is the error of a plan that was held to a budget and is above it.
func (b *BudgetFlags) Held(p *memopt.Plan, file string) error {
	f := p.Fit
	if f == nil || f.Fits() {
		return nil
	}
	return &cli.ExitError{Code: cli.ExitInfeasible,
		Err: fmt.Errorf("%s: does not fit: %s; plan anew with %s, or allow more",
			file, report.FitSentence(f), b.Flag())}
}

// Flag is the flag that the budget comes from.
func (b *BudgetFlags) Flag() string {
	if b.Gpu != "" {
		return "--gpu " + b.Gpu
	}
	return "--budget " + b.Budget
}

// ParseBudget reads the value of --budget.
func ParseBudget(a *cli.App, text string, out *planner.Budget) error {
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
		return cli.Usage("--budget %q: %v; wanted a positive size such as 16GiB, "+
			"or a share of the baseline peak such as %s", text, err, ShareLike(text))
	}
	if !ok {
		warnBare(a, "--budget", text, out.Total)
	}
	return nil
}

// ShareLike is an example of a share of the baseline peak: the intended one, if a budget such as
// 0.5 suggests it.
func ShareLike(text string) string {
	if x, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && x > 0 && x < 1 {
		return strconv.FormatFloat(100*x, 'g', 4, 64) + "%"
	}
	return "50%"
}

// bareSize is the smallest plausible size without a unit: less is no useful amount of memory.
const bareSize = 1 << 20

// warnBare warns that a small number without a unit is in bytes.
func warnBare(a *cli.App, flag, text string, n int64) {
	if report.BareNumber(text) && n < bareSize {
		a.Warn("%s %s: a number without a unit is in bytes; did you mean %sGiB?", flag, text, strings.TrimSpace(text))
	}
}

// Finish is the exit code of a plan that was made and printed.
func (b *BudgetFlags) Finish(a *cli.App, p *memopt.Plan) error {
	if !b.Asks() {
		return nil
	}
	if a.Ctx.Err() == nil && p.Stopped && b.Limit > 0 {
		a.Note("the time limit of %s ended the search: this is the best plan found so far", b.Limit)
	}
	return b.finish(a, p.Of, p.Bound != nil && p.Bound.Optimal)
}

// FinishMoves is Finish for a plan with moves.
func (b *BudgetFlags) FinishMoves(a *cli.App, p *memopt.Moving) error {
	if !b.Asks() {
		return nil
	}
	return b.finish(a, p.Plan.Of, p.Optimal())
}

func (b *BudgetFlags) finish(a *cli.App, of *memopt.Model, optimal bool) error {
	if a.Ctx.Err() != nil {
		return &cli.ExitError{Code: cli.ExitInterrupted, Err: errors.New("interrupted: this is the best plan found " +
			"so far")}
	}
	if b.optimal && !optimal {
		return &cli.ExitError{Code: cli.ExitEarly,
			Err: fmt.Errorf("%s: the plan fits, but it is not proved that no plan is cheaper; raise "+
				"--time-limit", of.Path)}
	}
	return nil
}

// ModulesName is the value of --select that plans modules of a PyTorch program.
const ModulesName = "modules"

// DeviceName is the value of --vary that stands for the device.
const DeviceName = "device"
