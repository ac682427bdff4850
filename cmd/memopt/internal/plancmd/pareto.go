package plancmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/gradcmd"
	"memopt/cmd/memopt/internal/load"
	"memopt/cmd/memopt/internal/option"
	"memopt/internal/fileio"
	"memopt/planner"
	"memopt/view/report"
)

// printCurve prints the curve of budget and cost, saves its plans if a folder is given, and draws it.
func printCurve(a *cli.App, name string, sel *option.SelectionFlags, format report.Format, n int, folder string,
	draw func(*planner.Curve) error) error {
	if sel.Level != "" || sel.Config != "" || sel.Plan != "" || sel.BudgetFlags.Asks() {
		return cli.Usage("--pareto chooses its own budgets: leave out --level, --config, --plan and " +
			"--budget")
	}
	if err := newFolder("--save-plan", "for the plans of --pareto", folder); err != nil {
		return err
	}
	option.WarnUnused(a, "--pareto, which chooses its own budgets")
	if err := sel.Step.Check(); err != nil {
		return err
	}
	l, err := load.Model(a, name, load.Reading{States: sel.States})
	if err != nil {
		return err
	}
	defer l.Close()
	l, step, err := gradcmd.MakeStep(a, l, &sel.Step, sel.Guarded())
	if err != nil {
		return err
	}
	c, err := sel.Resolve(a, l, option.Planning{Searches: true})
	if err != nil {
		return err
	}
	b := memopt.Budget{Share: 1, Solver: sel.Solver, Seed: a.Global.Seed, Effort: sel.Work(), Found: a.Keeper.Keep}
	c.Options.Chunk = sel.Mode(a, &b)
	a.Status.Say("searching for plans to %d budgets", n)
	curve, err := l.Pareto(a.Search, b, c.Options, n)
	if err != nil {
		return cli.Classify(cli.Wrap(name, err))
	}
	files, err := saveCurve(a, l, curve, folder)
	if err != nil {
		return err
	}
	if err := draw(curve); err != nil {
		return err
	}
	if err := report.StepLine(a.Out, format, step); err != nil {
		return err
	}
	if err := report.Pareto(a.Out, format, name, curve, folder, files); err != nil {
		return err
	}
	if err := a.Next(format, afterCurve(name, curve).About(step)); err != nil {
		return err
	}
	if a.Ctx.Err() != nil {
		return &cli.ExitError{Code: cli.ExitInterrupted,
			Err: errors.New("interrupted: these are the best plans found so far")}
	}
	if curve.Stopped && sel.Limit > 0 {
		a.Note("the time limit of %s ended searches: these are the best plans found so far", sel.Limit)
	}
	return nil
}

// newFolder wants the folder that a flag names, for a purpose in words, to be new or empty: no file is
// overwritten.
func newFolder(flag, what, path string) error {
	if path == "" {
		return nil
	}
	if path == cli.StreamName {
		return cli.Usage("%s -: wanted a folder %s", flag, what)
	}
	list, err := os.ReadDir(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return cli.Usage("%s %s: wanted a folder %s: %w", flag, path, what, err)
	case len(list) > 0:
		return cli.Usage("%s %s: has files already (%q is one), and memopt overwrites no file; name a new "+
			"folder", flag, path,
			list[0].Name())
	}
	return nil
}

// saveCurve writes the plan files of all points of a curve, or leaves no file, and returns their names.
func saveCurve(a *cli.App, m *memopt.Model, c *planner.Curve, path string) ([]string, error) {
	names := make([]string, len(c.Points))
	digits := len(fmt.Sprint(len(c.Points)))
	for i := range names {
		names[i] = fmt.Sprintf("plan-%0*d.json", digits, i+1)
	}
	return savePlans("for the plans of --pareto", path, names, func(i int) ([]byte, error) {
		return m.PointFile(c, i, a.Global.Seed)
	})
}

// savePlans writes plan files of these names into the folder of --save-plan, or leaves no file. Without a folder it
// writes no files, and returns no names.
func savePlans(what, path string, names []string, file func(i int) ([]byte, error)) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	if err := newFolder("--save-plan", what, path); err != nil { // the search took its time
		return nil, err
	}
	folder, err := fileio.CreateFolder(filepath.Clean(path))
	if err != nil {
		return nil, cli.Usage("--save-plan: %w", err)
	}
	defer folder.Discard()
	for i, name := range names {
		data, err := file(i)
		if err != nil {
			return nil, cli.Classify(err)
		}
		err = folder.Write(name, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
		if err != nil {
			return nil, cli.Usage("--save-plan: %w", err)
		}
	}
	if err := folder.Commit(); err != nil {
		return nil, cli.Usage("--save-plan: %w", err)
	}
	return names, nil
}

// afterCurve plans to the budget in the middle of a curve.
func afterCurve(name string, c *planner.Curve) *cli.NextCommand {
	if len(c.Points) == 0 {
		return nil
	}
	at := &c.Points[len(c.Points)/2]
	return &cli.NextCommand{Verb: "plan", Args: []string{name},
		Set: [][2]string{{"budget", report.WholeKiB(c.Persistent + at.Arena)}}}
}
