package main

import (
	"encoding/json"
	"path/filepath"

	"memopt/train/checkpoint"
	"memopt/train/events"
)

// openFolder takes the job's folder and the checkpoint to go on with.
func (t *training) openFolder() (err error) {
	c := &t.config
	switch {
	case t.dryRun, t.evalOnly: // which write no file
	case t.out != "" && t.rank() > 0: // rank 0 writes
	case t.out != "":
		if c.Folder, err = checkpoint.OpenJob(t.out); err != nil {
			return fileError("-o %w", err)
		}
		t.sources = append(t.sources, c.Folder)
	default:
		t.note("no folder is given with -o: checkpoints and metrics are not kept, and the trained weights are " +
			"lost at the end")
	}
	if t.resume == "" {
		return t.refuseOld()
	}
	path := t.resume
	if path == newest {
		path = t.out
	}
	if c.Resume, err = checkpoint.Load(path); err != nil {
		return fileError("--resume: %w", err)
	}
	t.sources = append(t.sources, c.Resume)
	return nil
}

// refuseOld keeps a job from beginning anew in the folder of another one.
func (t *training) refuseOld() error {
	if t.config.Folder == nil {
		return nil
	}
	steps, err := t.config.Folder.Steps()
	if err != nil {
		return fileError("-o %w", err)
	}
	if n := len(steps); n > 0 {
		return usage("-o %s: has the checkpoints of a job, up to update %d: go on with --resume, "+
			"or name another folder", t.out, steps[n-1])
	}
	return nil
}

// manifest writes down the job's part of every checkpoint.
func (t *training) manifest() (err error) {
	c := &t.config
	m := &c.Manifest
	m.Version, m.Seed, m.DataSeed = thisBuild().Version, uint64(t.global.seed), c.Order.Seed
	if m.Model, err = t.describeModel(); err != nil {
		return fileError("%w", err)
	}
	if m.Data.Identity, err = c.Source.Identity(); err != nil {
		return usage("--data: %w", err)
	}
	m.Data.Paths, m.Data.Samples = t.data.paths, c.Source.Samples()
	m.Accumulation, m.Dims = c.Micros*t.ranks(), map[string]int64{}
	for name, n := range c.Plans.Step.Side.Dims {
		m.Dims[name] = n
	}
	o, flags := t.recipe.Optimizer, &t.trainFlags.step
	m.Optimizer, err = json.Marshal(map[string]any{"kind": o.Kind, "weight_decay": o.WeightDecay,
		"momentum": o.Momentum,
		"nesterov": o.Nesterov, "beta1": o.Beta1, "beta2": o.Beta2, "eps": o.Eps, "max_grad_norm": o.MaxNorm,
		"groups": flags.optimizer.groups, "frozen": flags.freeze, "decay_all": flags.optimizer.decayAll})
	if err != nil {
		return err
	}
	s := c.Schedule
	m.Schedule, err = json.Marshal(map[string]any{"kind": s.Kind, "lr": s.LR, "min_lr": s.MinLR, "warmup": s.Warmup,
		"total": s.Total})
	if p := c.Plans.Step.Plan; err == nil && p != nil {
		m.Plan, err = p.File(t.global.seed)
	}
	return err
}

// describeModel says which model is trained, by its file as it is.
func (t *training) describeModel() (checkpoint.Model, error) {
	if t.name == streamName {
		return checkpoint.DescribeModel(t.model.Model, t.steps.IsState)
	}
	m, done, err := checkpoint.OpenModel(t.name)
	if err != nil {
		return checkpoint.Model{}, err
	}
	defer done()
	return checkpoint.DescribeModel(m, t.steps.IsState)
}

// openMetrics opens the job's files of metrics.
func (t *training) openMetrics() (err error) {
	c := &t.config
	if c.Folder == nil {
		return nil
	}
	upTo := int64(0)
	if c.Resume != nil {
		upTo = c.Resume.Step
	}
	if c.Metrics, err = events.OpenMetrics(filepath.Join(t.out, "metrics.jsonl"), upTo); err != nil {
		return fileError("-o: %w", err)
	}
	t.sources = append(t.sources, c.Metrics)
	if c.Board, err = events.OpenTensorBoard(t.out, upTo); err != nil {
		return fileError("-o: %w", err)
	}
	t.sources = append(t.sources, c.Board)
	return nil
}
