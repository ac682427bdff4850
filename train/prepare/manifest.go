package prepare

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"

	"memopt"
	"memopt/autograd"
	"memopt/train"
	"memopt/train/checkpoint"
	"memopt/train/events"
)

// Job describes a job to its ranks and checkpoints, beside its Config.
type Job struct {
	*train.Config
	// Version is that of the program, and Build all that identifies it.
	Version string
	Build   any
	// Model was read from Path, or from a stream if Path is "".
	Model *memopt.Model
	Path  string
	// Data describes the samples.
	Data checkpoint.Data
	// Optimizer is the formula of the update, Groups are the texts of its groups, Frozen the globs of parameters
	// that are not trained, and DecayAll says that biases and norms have weight decay.
	Optimizer autograd.Optimizer
	Groups    []string
	Frozen    []string
	DecayAll  bool
	// Seed is that of the model's random nodes and of the plan.
	Seed int64
	// Ranks is the number of ranks, at least 1. Reduce and First are the choices of the sums of gradients and of
	// first values, as the command has them.
	Ranks         int64
	Reduce, First string
}

// Describe fills in the manifest, the job's record in each checkpoint.
func (j *Job) Describe() (err error) {
	m, o, s := &j.Manifest, j.Optimizer, j.Schedule
	m.Version, m.Seed, m.DataSeed, m.Data = j.Version, uint64(j.Seed), j.Order.Seed, j.Data
	if m.Model, err = j.DescribeModel(); err != nil {
		return err
	}
	m.Accumulation, m.Dims = j.Micros*j.Ranks, map[string]int64{}
	maps.Copy(m.Dims, j.Plans.Step.Side.Dims)
	settings := map[string]any{"kind": o.Kind, "weight_decay": o.WeightDecay,
		"momentum": o.Momentum, "nesterov": o.Nesterov, "beta1": o.Beta1, "beta2": o.Beta2, "eps": o.Eps,
		"max_grad_norm": o.MaxNorm, "groups": j.Groups, "frozen": j.Frozen, "decay_all": j.DecayAll}
	if o.AdjustLR != "" {
		settings["adjust_lr"] = o.AdjustLR
	}
	m.Optimizer, err = json.Marshal(settings)
	if err != nil {
		return err
	}
	m.Schedule, err = json.Marshal(map[string]any{"kind": s.Kind, "lr": s.LR, "min_lr": s.MinLR, "warmup": s.Warmup,
		"total": s.Total})
	if p := j.Plans.Step.Plan; err == nil && p != nil {
		m.Plan, err = p.File(j.Seed)
	}
	return err
}

// DescribeModel identifies the trained model by its file as it is, before memopt has changed it.
func (j *Job) DescribeModel() (checkpoint.Model, error) {
	if j.Path == "" {
		return checkpoint.DescribeModel(j.Model.Model, j.Steps.IsState)
	}
	m, done, err := checkpoint.OpenModel(j.Path)
	if err != nil {
		return checkpoint.Model{}, err
	}
	defer done()
	return checkpoint.DescribeModel(m, j.Steps.IsState)
}

// Identity lists the parts that all ranks of the job must share, once the manifest is described.
func (j *Job) Identity() ([]Part, error) {
	m := &j.Manifest
	eval, resumed := "", ""
	var err error
	if j.Eval != nil {
		if eval, err = j.Eval.Identity(); err != nil {
			return nil, fmt.Errorf("data for evaluation: %w", err)
		}
	}
	if j.Resume != nil {
		resumed = fmt.Sprint(j.Resume.Step, j.Resume.Files)
	}
	return []Part{
		{"version of memopt", j.Build},
		{"model", m.Model}, {"data", m.Data.Identity}, {"data for evaluation", eval}, {"checkpoint", resumed},
		{"sizes of dims", m.Dims}, {"plan", m.Plan}, {"optimizer", m.Optimizer}, {"schedule", m.Schedule},
		{"seed", []uint64{m.Seed, m.DataSeed}},
		{"samples of a step", []any{j.Order, j.Micros, j.Updates}},
		{"sequence of checkpoints and evaluations", []any{j.EvalEvery, j.SaveEvery, j.Keeps, j.OnNaN}},
		{"division of states or sums of gradients among ranks", []any{j.Optimizer.Ranks, j.Reduce}},
		{"first weights", []any{j.First, j.RandomSeed}},
	}, nil
}

// OpenMetrics opens the files of metrics in a job's folder, without the lines of updates that a resumed job makes
// again. The caller closes Metrics and Board.
func (j *Job) OpenMetrics(folder string) (err error) {
	upTo := int64(0)
	if j.Resume != nil {
		upTo = j.Resume.Step
	}
	if j.Metrics, err = events.OpenMetrics(filepath.Join(folder, "metrics.jsonl"), upTo); err != nil {
		return err
	}
	j.Board, err = events.OpenTensorBoard(folder, upTo)
	return err
}
