package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"memopt"
	"memopt/internal/fileio"
	"memopt/planner"
	"memopt/view/report"
)

// pareto prints the curve of budget and cost, saves its plans if a folder is given, and draws it.
func (a *app) pareto(name string, sel *selectionFlags, format report.Format, n int, folder string,
	draw func(*planner.Curve) error) error {
	if sel.level != "" || sel.config != "" || sel.plan != "" || sel.budgetFlags.asks() {
		return usage("--pareto chooses its own budgets: leave out --level, --config, --plan and " +
			"--budget")
	}
	if err := newFolder("--save-plan", "for the plans of --pareto", folder); err != nil {
		return err
	}
	a.warnUnused("--pareto, which chooses its own budgets")
	if err := sel.step.check(); err != nil {
		return err
	}
	l, err := a.load(name, reading{states: sel.states})
	if err != nil {
		return err
	}
	defer l.Close()
	l, step, err := a.step(l, &sel.step, sel.guarded())
	if err != nil {
		return err
	}
	c, err := sel.resolve(a, l, planning{searches: true})
	if err != nil {
		return err
	}
	b := memopt.Budget{Share: 1, Solver: sel.solver, Seed: a.global.seed, Effort: sel.work(), Found: a.keeper.keep}
	c.options.Chunk = sel.mode(a, &b)
	a.status.say("searching for plans to %d budgets", n)
	curve, err := l.Pareto(a.search, b, c.options, n)
	if err != nil {
		return classify(wrap(name, err))
	}
	files, err := a.saveCurve(l, curve, folder)
	if err != nil {
		return err
	}
	if err := draw(curve); err != nil {
		return err
	}
	if err := report.StepLine(a.out, format, step); err != nil {
		return err
	}
	if err := report.Pareto(a.out, format, name, curve, folder, files); err != nil {
		return err
	}
	if err := a.next(format, afterCurve(name, curve).of(step)); err != nil {
		return err
	}
	if a.ctx.Err() != nil {
		return &exitError{exitInterrupted, errors.New("interrupted: these are the best plans found so far")}
	}
	if curve.Stopped && sel.limit > 0 {
		a.note("the time limit of %s ended searches: these are the best plans found so far", sel.limit)
	}
	return nil
}

// newFolder wants the folder that a flag names, for what words say, to be new or empty: nothing is
// overwritten.
func newFolder(flag, what, path string) error {
	if path == "" {
		return nil
	}
	if path == streamName {
		return usage("%s -: wanted a folder %s", flag, what)
	}
	list, err := os.ReadDir(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return usage("%s %s: wanted a folder %s: %w", flag, path, what, err)
	case len(list) > 0:
		return usage("%s %s: has files already (%q is one), and none is overwritten; name a new folder", flag, path,
			list[0].Name())
	}
	return nil
}

// saveCurve writes the plan files of all points of a curve, or leaves no file, and returns their names.
func (a *app) saveCurve(m *memopt.Model, c *planner.Curve, path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	if err := newFolder("--save-plan", "for the plans of --pareto", path); err != nil { // the search took its time
		return nil, err
	}
	folder, err := fileio.CreateFolder(filepath.Clean(path))
	if err != nil {
		return nil, usage("--save-plan: %w", err)
	}
	defer folder.Discard()
	names := make([]string, len(c.Points))
	digits := len(fmt.Sprint(len(c.Points)))
	for i := range c.Points {
		data, err := m.PointFile(c, i, a.global.seed)
		if err != nil {
			return nil, classify(err)
		}
		names[i] = fmt.Sprintf("plan-%0*d.json", digits, i+1)
		err = folder.Write(names[i], func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
		if err != nil {
			return nil, usage("--save-plan: %w", err)
		}
	}
	if err := folder.Commit(); err != nil {
		return nil, usage("--save-plan: %w", err)
	}
	return names, nil
}

// afterCurve plans to the budget in the middle of a curve.
func afterCurve(name string, c *planner.Curve) *nextCommand {
	if len(c.Points) == 0 {
		return nil
	}
	at := &c.Points[len(c.Points)/2]
	return &nextCommand{verb: "plan", args: []string{name},
		set: [][2]string{{"budget", report.WholeKiB(c.Persistent + at.Arena)}}}
}
