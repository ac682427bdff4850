package traincmd

import (
	"errors"

	"memopt/cmd/memopt/internal/cli"
	"memopt/train/checkpoint"
	"memopt/train/prepare"
)

// openFolder takes the job's folder and the checkpoint to go on with.
func (t *training) openFolder() (err error) {
	c := &t.config
	switch {
	case t.dryRun, t.evalOnly: // which write no file
	case t.out != "" && t.rank() > 0: // rank 0 writes
	case t.out != "":
		if c.Folder, err = checkpoint.OpenJob(t.out); err != nil {
			return cli.FileError("-o %w", err)
		}
		t.sources = append(t.sources, c.Folder)
	case t.hostDir != "":
	default:
		t.Note("no folder is given with -o: checkpoints and metrics are not kept, and the trained weights are " +
			"lost at the end")
	}
	if err := t.openHome(); err != nil {
		return err
	}
	if t.resume == "" {
		return errors.Join(t.refuseOld(), t.refuseOldHome())
	}
	load := checkpoint.Load
	if c.Home != nil && c.Home.At(t.resumed()) {
		load = func(string) (*checkpoint.Checkpoint, error) { return c.Home.Load() }
	}
	if c.Resume, err = load(t.resumed()); err != nil {
		return cli.FileError("--resume: %w", err)
	}
	t.sources = append(t.sources, c.Resume)
	return t.refuseOldHome()
}

// refuseOld keeps a job from beginning anew in the folder of another one.
func (t *training) refuseOld() error {
	if t.config.Folder == nil {
		return nil
	}
	steps, err := t.config.Folder.Steps()
	if err != nil {
		return cli.FileError("-o %w", err)
	}
	if n := len(steps); n > 0 {
		return cli.Usage("-o %s: has the checkpoints of a job, up to update %d: go on with --resume, "+
			"or name another folder", t.out, steps[n-1])
	}
	return nil
}

// job describes the job to its ranks and checkpoints.
func (t *training) job() *prepare.Job {
	o := &t.trainFlags.step.Optimizer
	path := t.name
	if path == cli.StreamName {
		path = ""
	}
	return &prepare.Job{Config: &t.config, Version: cli.ThisBuild().Version, Build: cli.ThisBuild(), Model: t.model,
		Path: path,
		Data: t.facts, Optimizer: t.recipe.Optimizer, Groups: o.Groups, Frozen: t.trainFlags.step.Freeze,
		DecayAll: o.DecayAll, Seed: t.Global.Seed, Ranks: t.ranks(), Reduce: t.reduce, First: t.init}
}

// manifest writes down the job's part of every checkpoint.
func (t *training) manifest() (err error) {
	if t.facts.Identity, err = t.config.Source.Identity(); err != nil {
		return cli.Usage("--data: %w", err)
	}
	t.facts.Paths, t.facts.Samples = t.data.paths, t.config.Source.Samples()
	if err := t.job().Describe(); err != nil {
		return cli.FileError("%w", err)
	}
	return nil
}

// openMetrics opens the job's files of metrics.
func (t *training) openMetrics() (err error) {
	c := &t.config
	if c.Folder == nil {
		return nil
	}
	err = t.job().OpenMetrics(t.out)
	if c.Metrics != nil {
		t.sources = append(t.sources, c.Metrics)
	}
	if err != nil {
		return cli.FileError("-o: %w", err)
	}
	t.sources = append(t.sources, c.Board)
	return nil
}
