// Package sweepcmd has the verb sweep, which runs another verb at many points.
package sweepcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"memopt"
	"memopt/answers/sweep"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/plancmd"
	"memopt/configs"
	"memopt/graph/onnx"
	"memopt/internal/memlimit"
	"memopt/view/figure"
	"memopt/view/report"
)

// sweepFlags say where points run.
type sweepFlags struct {
	out, plot string
	jobs      int
	index     int
	gather    bool
	retry     bool
	on        string
	write     bool
	grace     int
	sbatch    []string
	image     string
	claim     string
	set       *pflag.FlagSet
}

// Sweep is the verb sweep; fresh makes a tree of all commands, which parsing changes.
func Sweep(a *cli.App, fresh func() *cobra.Command) *cobra.Command {
	var f sweepFlags
	cmd := &cobra.Command{
		Use:   "sweep GRID -o DIR",
		Short: "Plan, verify or train at many points: models × dims × budgets × any flag",
		Long: `sweep runs one verb at every combination of the values in a grid file:

  {"verb": "plan",
   "models": ["example:mlp", "gpt2.onnx"],
   "dims": {"batch": [64, 128]},
   "flags": {"budget": ["80%", "60%"], "time-limit": 5}}

A flag of the verb has one value, a list of values, each of which makes points,
or null, which leaves it out; a list in the list gives a flag several times.
Variables that stand for flags do not count: the grid alone defines the runs.

Each point is a process, and has a file in DIR/points, written whole; its name is
a hash of the arguments and of the contents of the files that they name. What
has a file is not run again. Points that do not fit, and numbers that differ, are
results; a point that failed is run again with --retry, and one that was stopped
by the next sweep. A training job goes on from its checkpoint, in DIR/jobs.

With --index, or where SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX is set, sweep
runs the point of that number only, and ends with its exit code. Otherwise it
ends with 0 unless a point failed, and then with the first such point's code, or
points were stopped, and then with 9.
docs/cluster.md has more.`,
		Example: `  memopt sweep grid.json -o results --jobs 2
        two points at a time; the table of all when they are done
  memopt sweep grid.json -o results --gather -O csv
        the results so far; no point is run
  memopt sweep grid.json -o results --on slurm --jobs 20 --sbatch=--cpus-per-task=4
        an array job with 20 tasks at a time; waits, and gathers
  memopt sweep grid.json -o results --on kubernetes --write --image registry/memopt --claim work
        an Indexed Job for kubectl create -f results/kubernetes.json
  memopt sweep grid.json -o results --plot cost.svg
        cost over budget, one line per model`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usage("memopt sweep wants one argument, the grid file; got %d", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return runGrid(a, args[0], &f, fresh) },
	}
	f.register(cmd.Flags())
	return cmd
}

func (f *sweepFlags) register(s *pflag.FlagSet) {
	f.set = s
	s.StringVarP(&f.out, "out", "o", "", "folder of the results, which sweeps and their tasks share")
	cli.NumberVar(s, &f.jobs, "jobs", "", 1, cli.Positive,
		"how many points run at a time: here they share cores and memory; "+
			"a cluster runs all without it")
	cli.NumberVar(s, &f.index, "index", "", 0, cli.NotNegative, "run the point of this number only; default: the "+
		"value of SLURM_ARRAY_TASK_ID or JOB_COMPLETION_INDEX, else all")
	s.BoolVar(&f.gather, "gather", false, "run no point: collect the results that there are")
	s.BoolVar(&f.retry, "retry", false, "run points again that failed")
	s.StringVar(&f.on, "on", "local", "where points run: local, slurm or kubernetes")
	s.BoolVar(&f.write, "write", false, "only write the script of Slurm's array job, or Kubernetes' manifest")
	cli.NumberVar(s, &f.grace, "grace", "", 120, cli.Positive,
		"seconds that a cluster leaves a point to save a checkpoint "+
			"and end")
	s.StringArrayVar(&f.sbatch, "sbatch", nil, "a further argument of sbatch, such as --sbatch=--mem=8G (repeatable)")
	s.StringVar(&f.image, "image", "", "with --on kubernetes: the image that has memopt")
	s.StringVar(&f.claim, "claim", "", "with --on kubernetes: the PersistentVolumeClaim whose volume is this folder")
	s.StringVar(&f.plot, "plot", "", "draw cost over budget, a line per model, as .svg or .png")
}

// runGrid runs a grid's points, or one, or gathers.
func runGrid(a *cli.App, path string, f *sweepFlags, fresh func() *cobra.Command) error {
	format, err := report.ParseFormat(a.Global.Output)
	if err != nil {
		return cli.Usage("%w", err)
	}
	image, err := plancmd.PlotFormat(f.plot)
	if err != nil {
		return err
	}
	if err := f.check(path); err != nil {
		return err
	}
	if len(a.Global.Dims) > 0 {
		return cli.Usage("sweep --dim: dims belong into the grid: \"dims\": {\"batch\": [8, 16]}")
	}
	verbs := &sweepVerbs{app: a, fresh: fresh}
	g, err := sweep.Read(path, verbs)
	if err != nil {
		return cli.FileError("%w", err)
	}
	r, err := sweepRunner(a, g, f, verbs)
	if err != nil {
		return err
	}
	index, one, err := f.point(a, g)
	if err != nil {
		return err
	}
	a.Keeper.Stay() // processes are asked to end, and finished points stay
	if one {
		return sweepPoint(a, r, g.Points[index])
	}
	if f.write {
		return sweepWrite(a, r, f)
	}
	if err := sweepAll(a, r, f); err != nil {
		return err
	}
	s, err := r.Gather()
	if err != nil {
		return cli.FileError("%w", err)
	}
	if err := plotSweep(a, s, f.plot, image); err != nil {
		return err
	}
	if err := sweep.Write(a.Out, format, s); err != nil {
		return err
	}
	return sweepEnd(a, s, f)
}

// check refuses flags that do not go together.
func (f *sweepFlags) check(path string) error {
	switch {
	case f.out == "" || f.out == cli.StreamName:
		return cli.Usage("sweep: -o is missing: name a folder for the results, which may be there already")
	case path == cli.StreamName:
		return cli.Usage("sweep -: wanted a file, which tasks read, too")
	case !slices.Contains(SweepPlaces, f.on):
		return cli.Usage("--on %q: wanted one of %s", f.on, strings.Join(SweepPlaces, ", "))
	case f.on == onKubernetes && !f.write && !f.gather:
		return cli.Usage("--on kubernetes: memopt writes the Indexed Job and does not submit it: add --write; " +
			"--gather collects the results")
	case f.write && (f.on == onLocal || f.gather):
		return cli.Usage("--write: wanted --on slurm or --on kubernetes, without --gather")
	case f.gather && f.set.Changed("index"):
		return cli.Usage("--gather and --index cannot be combined: --gather runs no point")
	}
	return nil
}

// indexVariables have a task's number in batch systems.
var indexVariables = []string{"SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX"}

// point returns the number of the only point to run, where there is one.
func (f *sweepFlags) point(a *cli.App, g *sweep.Grid) (index int, one bool, err error) {
	from, index := "--index", f.index
	if one = f.set.Changed("index"); !one && !f.gather && !f.set.Changed("on") {
		for _, name := range indexVariables {
			text, _ := a.Env(name)
			if text == "" {
				continue
			}
			if index, err = strconv.Atoi(text); err != nil || index < 0 {
				return 0, false, cli.Usage("%s=%q: wanted the number of a point", name, text)
			}
			from, one = name, true
			break
		}
	}
	if one && index >= len(g.Points) {
		return 0, false, cli.Usage("%s %d: %s has points 0 to %d", from, index, g.Path, len(g.Points)-1)
	}
	return index, one, nil
}

// sweepRunner makes the runner of points.
func sweepRunner(a *cli.App, g *sweep.Grid, f *sweepFlags, verbs *sweepVerbs) (*sweep.Runner, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r := &sweep.Runner{Grid: g, Folder: &sweep.Folder{Path: f.out}, Hasher: &sweep.Hasher{Verbs: verbs},
		Command: []string{program}, Retry: f.retry, Version: cli.ThisBuild().Version, Said: a.Progress("points"),
		Warn: func(text string) { a.Warn("%s", text) }}
	r.Threads = sweepThreads(a, f.jobs)
	if f.on != onLocal {
		r.Threads = 0 // no point runs here
	}
	r.Env = verbs.environ()
	if _, given := a.Env("GOMAXPROCS"); !given && r.Threads > 0 {
		r.Env = append(r.Env, fmt.Sprintf("GOMAXPROCS=%d", r.Threads))
	}
	if l, ok := memlimit.Available(); ok && f.jobs > 1 && f.on == onLocal {
		if _, given := a.Env("GOMEMLIMIT"); !given { // garbage of one must not take the room of another
			r.Env = append(r.Env, fmt.Sprintf("GOMEMLIMIT=%d", max(leastShare, l.Bytes/int64(f.jobs))))
		}
	}
	return r, nil
}

// leastShare is the heap that each process gets in any case.
const leastShare = 64 << 20

// sweepThreads is the share of each of so many processes in the machine's cores, or in those that
// Slurm gives to a task; 0: all.
func sweepThreads(a *cli.App, jobs int) int {
	if a.Global.Threads > 0 {
		return a.Global.Threads
	}
	if text, ok := a.Env("SLURM_CPUS_PER_TASK"); ok {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			return max(1, n/jobs)
		}
	}
	if _, task := a.Env("SLURM_ARRAY_TASK_ID"); task {
		return 1 // as Slurm gives it without --cpus-per-task
	}
	if jobs == 1 {
		return 0
	}
	return max(1, runtime.GOMAXPROCS(0)/jobs)
}

// sweepPoint runs one point, and ends with its exit code.
func sweepPoint(a *cli.App, r *sweep.Runner, p *sweep.Point) error {
	r.Said = nil
	res, err := r.Wait(a.Ctx, p)
	if err != nil {
		return sweepFault(a, err)
	}
	code := res.ExitCode
	if code == sweep.Killed {
		code = cli.ExitInternal
	}
	if res.Outcome == sweep.Done {
		return nil
	}
	return &cli.ExitError{Code: code, Err: fmt.Errorf("point %d: %s: %s", p.Index, res.Outcome, res.Error)}
}

// sweepAll runs all points that have no result.
func sweepAll(a *cli.App, r *sweep.Runner, f *sweepFlags) error {
	switch {
	case f.gather:
		return nil
	case f.on == onSlurm:
		s := slurm(a, r, f)
		if err := s.Run(a.Ctx); err != nil {
			return sweepFault(a, err)
		}
		return nil
	}
	if err := r.Local(a.Ctx, f.jobs); err != nil {
		return sweepFault(a, err)
	}
	return nil
}

// Where points run.
const (
	onLocal      = "local"
	onSlurm      = "slurm"
	onKubernetes = "kubernetes"
)

var SweepPlaces = []string{onLocal, onSlurm, onKubernetes}

// atOnce is how many points run at a time in a cluster; 0: all.
func (f *sweepFlags) atOnce() int {
	if f.set.Changed("jobs") {
		return f.jobs
	}
	return 0
}

// slurm is the array job of a sweep.
func slurm(a *cli.App, r *sweep.Runner, f *sweepFlags) *sweep.Slurm {
	return &sweep.Slurm{Runner: r, AtOnce: f.atOnce(), Grace: f.grace, Args: f.sbatch, Note: a.Note}
}

// sweepWrite writes the cluster's job file, and prints its path.
func sweepWrite(a *cli.App, r *sweep.Runner, f *sweepFlags) error {
	var path string
	var err error
	if f.on == onKubernetes {
		path, err = (&sweep.Kubernetes{Runner: r, AtOnce: f.atOnce(), Grace: f.grace, Image: f.image,
			Claim: f.claim}).Write()
	} else {
		var list []*sweep.Point
		if list, err = r.Missing(); err == nil && len(list) == 0 {
			return cli.Usage("--write: all points have results; --gather collects them")
		}
		if err == nil {
			path, err = slurm(a, r, f).Write(list)
		}
	}
	if err != nil {
		return cli.FileError("%w", err)
	}
	_, err = fmt.Fprintln(a.Out, path)
	return err
}

// sweepFault gives an error of a sweep its code.
func sweepFault(a *cli.App, err error) error {
	if a.Ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return &cli.ExitError{Code: cli.ExitInterrupted,
			Err: errors.New("interrupted; finished points stay: run the same sweep again, and it goes on")}
	}
	return cli.FileError("%w", err)
}

// sweepEnd names the remaining points, and gives the exit code.
func sweepEnd(a *cli.App, s *sweep.Summary, f *sweepFlags) error {
	unfinished := s.Counts[sweep.Unfinished]
	if unfinished > 0 && f.gather {
		a.Note("%d of %d points are not finished", unfinished, len(s.Rows))
		unfinished = 0
	}
	row := s.FirstFailure()
	if row == nil && unfinished == 0 {
		return nil
	}
	if row == nil {
		return &cli.ExitError{Code: cli.ExitSaved,
			Err: fmt.Errorf("%d of %d points were stopped and are not finished: run the same "+
				"sweep again, and it goes on", unfinished, len(s.Rows))}
	}
	code := row.Result.ExitCode
	if code == sweep.Killed {
		code = cli.ExitInternal
	}
	return &cli.ExitError{Code: code,
		Err: fmt.Errorf("%d of %d points failed; the first is point %d: %s; --retry runs them again",
			s.Counts[sweep.Failed], len(s.Rows), row.Index, row.Result.Error)}
}

// plotSweep draws cost over budget.
func plotSweep(a *cli.App, s *sweep.Summary, path string, format figure.Format) error {
	if format == "" {
		return nil
	}
	c, err := s.Costs()
	if err != nil {
		return cli.Usage("--plot %s: %w", path, err)
	}
	return a.StreamArtefact("--plot", path, func(w io.Writer) error { return figure.Lines(w, format, c) })
}

// sweepVerbs answers package sweep's questions about the verbs.
type sweepVerbs struct {
	app   *cli.App
	fresh func() *cobra.Command
}

// ownFlags are flags that a sweep sets itself, or that would have no effect.
var ownFlags = map[string]string{
	"dim": `it stands in "dims"`, "output": "the sweep reads the verb's JSON",
	"out":    "the sweep gives each job a folder",
	"resume": "the sweep goes on with each job's own checkpoint",
	"help":   "it runs no step", "quiet": "it is always set", "verbose": "a point's output is not shown",
	"color": "a point's output is not shown", "wide": "a point's output is not shown", "no-chart": "a point's " +
		"output is not shown",
}

// Flag looks for a verb's flag.
func (v *sweepVerbs) Flag(verb, name string) (sweep.Flag, error) {
	root := v.fresh()
	cmd := cli.Subcommand(root, verb)
	if why := ownFlags[name]; why != "" {
		return sweep.Flag{}, fmt.Errorf("a grid cannot have this flag: %s", why)
	}
	if slices.Contains(cli.OutputFlags, name) {
		return sweep.Flag{}, errors.New("a grid cannot have this flag: all points would write the same file")
	}
	f := cmd.Flags().Lookup(name)
	if f == nil {
		f = root.PersistentFlags().Lookup(name)
	}
	if f == nil {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		return sweep.Flag{}, fmt.Errorf("memopt %s has no such flag%s; memopt %s --help lists them", verb,
			cli.Suggest(name, known), verb)
	}
	_, many := f.Value.(pflag.SliceValue)
	return sweep.Flag{Many: many, Reads: slices.Contains(cli.InputFlags, name) || slices.Contains(cli.PathFlags, name)},
		nil
}

// Check parses a verb's arguments, and looks whether there are such models.
func (v *sweepVerbs) Check(verb string, args []string) error {
	cmd := cli.Subcommand(v.fresh(), verb)
	if err := cmd.ParseFlags(args); err != nil {
		return cmd.FlagErrorFunc()(cmd, err)
	}
	models := cmd.Flags().Args()
	if err := cmd.ValidateArgs(models); err != nil {
		return err
	}
	for _, m := range models {
		name, example := strings.CutPrefix(m, memopt.ExamplePrefix)
		switch {
		case m == cli.StreamName:
			return errors.New("models: \"-\": wanted files, or built-in models: a stream is read once only")
		case example && !slices.Contains(load.ExampleNames(), m):
			return fmt.Errorf("models: %q: there is no such built-in model; memopt examples lists them", name)
		case !example:
			if _, err := os.Stat(m); err != nil {
				return fmt.Errorf("models: %w", err)
			}
		}
	}
	return nil
}

// Inputs lists the files of a model's external data.
func (v *sweepVerbs) Inputs(model string) ([]string, error) {
	_, opened, err := onnx.Open(model)
	if err != nil {
		return nil, nil // a point that describes its own fault
	}
	defer opened.Close()
	list := opened.External()
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || !info.Mode().IsRegular()
	}), nil
}

// environ is the environment of points: this one, without the variables that stand for flags.
func (v *sweepVerbs) environ() (list []string) {
	root := v.fresh()
	drop := []string{configs.LevelVariable, configs.ConfigVariable}
	add := func(f *pflag.Flag) { drop = append(drop, cli.FlagVariable(f.Name)) }
	root.PersistentFlags().VisitAll(add)
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(add)
	}
	for _, text := range v.app.Environ.List() {
		if name, _, _ := strings.Cut(text, "="); !slices.Contains(drop, name) {
			list = append(list, text)
		}
	}
	return list
}
