package traincmd

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/train"
	"memopt/train/checkpoint"
)

// forgottenFlags are no part of a job that goes on: its folder, its initial weights, and its report.
var forgottenFlags = []string{"out", "resume", "init", "dry-run", "eval-only", "ranks", "output", "quiet", "verbose",
	"wide", "color", "no-chart", "help"}

// insteadOf are groups of flags; a given one replaces all others of its group.
var insteadOf = [][]string{
	{"epochs", "max-steps"},
	{"level", "config", "probe", "budget", "budget-for", "plan"},
	{"time-limit", "effort"},
}

// besideBudget are flags of a plan to a budget alone.
var besideBudget = []string{"host-budget", "link"}

// recall takes the model and the flags that are not given from the checkpoint that a job goes on with, and returns
// the arguments with the model.
func (t *trainFlags) recall(args []string) ([]string, error) {
	if t.resume == "" {
		return args, nil
	}
	if t.init != "" {
		return args, cli.Usage("--init and --resume cannot be combined: a checkpoint has all weights")
	}
	path := t.resumed()
	if path == "" {
		return args, cli.Usage("--resume goes on after the newest checkpoint of a job: name its folder with -o or " +
			"--host-dir, or a checkpoint with --resume=PATH")
	}
	m, err := checkpoint.ReadManifest(path)
	if err != nil {
		return args, cli.FileError("--resume: %w", err)
	}
	c, err := train.SavedCommand(m)
	if err != nil {
		return args, cli.Classify(err)
	}
	if len(args) == 0 {
		if c == nil || c.Model == cli.StreamName {
			return args, cli.Usage("train --resume: the checkpoint in %s does not say which file its model came from: "+
				"name the MODEL, and the job's flags", path)
		}
		args = []string{pathFrom(c.Directory, c.Model)}
	}
	if c == nil {
		return args, nil
	}
	return args, t.takeFlags(c)
}

// takeFlags sets the flags that are not given to their values on a job's command line.
func (t *trainFlags) takeFlags(c *train.Command) (err error) {
	given := map[string]bool{}
	t.set.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	for _, name := range slices.Sorted(maps.Keys(c.Flags)) {
		f := t.set.Lookup(name)
		if f == nil || given[name] || slices.Contains(forgottenFlags, name) || replaced(name, given) ||
			slices.Contains(besideBudget, name) && !given["budget"] && replaced("budget", given) {
			continue
		}
		values := slices.Clone(c.Flags[name])
		if slices.Contains(cli.PathFlags, name) || slices.Contains(cli.InputFlags, name) {
			for i := range values {
				values[i] = pathFrom(c.Directory, values[i])
			}
		}
		if many, ok := f.Value.(pflag.SliceValue); ok {
			err = many.Replace(values)
		} else if len(values) == 1 {
			err = f.Value.Set(values[0])
		}
		if err != nil {
			return cli.Usage("--resume: the checkpoint has --%s %q: %w", name, values, err)
		}
		f.Changed = true
	}
	return nil
}

// replaced reports whether a flag that was given takes another one's place.
func replaced(name string, given map[string]bool) bool {
	return slices.ContainsFunc(insteadOf, func(list []string) bool {
		return slices.Contains(list, name) && slices.ContainsFunc(list, func(x string) bool { return given[x] })
	})
}

// pathFrom is how a path, or a glob, of a command that was given in another folder is called here.
func pathFrom(folder, path string) string {
	here, err := os.Getwd()
	if err != nil || here == folder || filepath.IsAbs(path) || strings.HasPrefix(path, memopt.ExamplePrefix) {
		return path
	}
	there := filepath.Join(folder, path)
	if _, err := os.Stat(there); err == nil {
		return there
	}
	if list, err := filepath.Glob(there); err == nil && len(list) > 0 {
		return there
	}
	return path
}

// remember writes down the command line for checkpoints.
func (t *training) remember() error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	c := &train.Command{Model: t.given, Directory: here, Flags: map[string][]string{}}
	t.set.VisitAll(func(f *pflag.Flag) {
		if !f.Changed || slices.Contains(forgottenFlags, f.Name) {
			return
		}
		if many, ok := f.Value.(pflag.SliceValue); ok {
			c.Flags[f.Name] = many.GetSlice()
		} else {
			c.Flags[f.Name] = []string{f.Value.String()}
		}
		if f.Name == "plan" && len(t.Folder) > 0 {
			c.Flags[f.Name] = []string{t.folderPath()}
		}
	})
	t.config.Command = c
	return nil
}
