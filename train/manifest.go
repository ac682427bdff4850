package train

import (
	"encoding/json"
	"fmt"
	"math"

	"memopt/hint"
	"memopt/train/checkpoint"
	"memopt/train/data"
)

// progress is the record of a job in a checkpoint besides the position in its manifest.
type progress struct {
	Skipped   int64    `json:"skipped"`    // Result.Skipped
	LossFirst *float64 `json:"loss_first"` // null: not a number
	LossLast  *float64 `json:"loss_last"`
	Updates   int64    `json:"updates"` // of the whole job
	Ranks     int64    `json:"ranks,omitempty"`
	Command   *Command `json:"command,omitempty"`
	Settings
}

// Command is the command line of a job, so that it goes on without one.
type Command struct {
	Model     string              `json:"model"`     // as the job was given it
	Directory string              `json:"directory"` // the working directory at its start
	Flags     map[string][]string `json:"flags"`     // those that were given, each with its value or its list of values
}

// Settings are those of a job's data that decide which samples make up an update.
type Settings struct {
	Batch   int64  `json:"batch"`
	Last    string `json:"last_batch"` // the fate of the last samples of an epoch
	Shuffle bool   `json:"shuffle"`
	// Sizes are those of batches (data.Order.Rungs), where they differ.
	Sizes []int64 `json:"sizes,omitempty"`
	Ranks int64   `json:"-"` // of the job; 0 is 1
}

// number is a number for JSON, which has no other than finite ones.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// float is the inverse of number.
func float(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}

// Settings are those of the job.
func (c *Config) Settings() Settings {
	return Settings{Batch: int64(c.Order.Batch), Last: c.Order.Last.String(), Shuffle: c.Order.Shuffle,
		Sizes: c.Order.Rungs, Ranks: c.ranks()}
}

// manifest is that of a checkpoint now.
func (j *job) manifest() (*checkpoint.Manifest, error) {
	m := j.Manifest
	m.Step, m.Epoch, m.Batch, m.Samples = j.done, j.epoch, j.index, j.samples
	m.Tokens = j.samples * j.Source.Tokens()
	m.Accumulation = j.Micros * j.ranks()
	if j.Scale != nil {
		m.LossScale = &checkpoint.LossScale{Scale: j.Scale.Value, Good: j.Scale.Good}
	}
	if loss := number(j.result.LossLast); loss != nil {
		m.Metrics = &checkpoint.Metrics{Loss: *loss, Eval: number(j.result.EvalLast)}
	}
	var err error
	m.Options, err = json.Marshal(progress{j.skipped, number(j.result.LossFirst), number(j.result.LossLast), j.Updates,
		j.ranks(), j.Command, j.Settings()})
	return &m, err
}

// resume takes the position from a checkpoint.
func (j *job) resume() error {
	m := &j.Resume.Manifest
	var p progress
	if err := json.Unmarshal(m.Options, &p); err != nil {
		return callerError("checkpoint %s: options: %w", j.Resume.Path, err)
	}
	j.done, j.epoch, j.index, j.samples, j.skipped = m.Step, m.Epoch, m.Batch, m.Samples, p.Skipped
	j.result.LossFirst, j.result.LossLast = float(p.LossFirst), float(p.LossLast)
	if (m.LossScale == nil) != (j.Scale == nil) {
		return callerError("checkpoint %s: loss scale: the job of the checkpoint and this one do not both have one",
			j.Resume.Path)
	}
	if j.Scale != nil {
		j.Scale.Value, j.Scale.Good = m.LossScale.Scale, m.LossScale.Good
		if err := j.Scale.Check(); err != nil {
			return callerError("checkpoint %s: %w", j.Resume.Path, err)
		}
	}
	switch most := data.MaxEpoch(j.Order.Samples); {
	case j.index >= j.Order.Batches():
		return callerError("checkpoint %s: its next batch is number %d of an epoch that has %d", j.Resume.Path, j.index,
			j.Order.Batches())
	case j.epoch > most:
		return callerError("checkpoint %s: its next epoch is number %d; the last one of %d samples is number %d",
			j.Resume.Path, j.epoch, j.Order.Samples, most)
	case j.samples > most*j.Order.Samples/max(j.Source.Tokens(), 1):
		return callerError("checkpoint %s: its job has trained on %d samples, more than can be counted",
			j.Resume.Path, j.samples)
	}
	return nil
}

// SavedSettings are the settings of the job that wrote a checkpoint.
func SavedSettings(c *checkpoint.Checkpoint) (Settings, error) {
	var p progress
	if err := json.Unmarshal(c.Options, &p); err != nil {
		return Settings{}, callerError("checkpoint %s: options: %w", c.Path, err)
	}
	return p.Settings, nil
}

// SavedCommand is the command line of the job that wrote a checkpoint, nil if the checkpoint has none.
func SavedCommand(m *checkpoint.Manifest) (*Command, error) {
	var p progress
	if err := json.Unmarshal(m.Options, &p); err != nil {
		return nil, callerError("checkpoint of update %d: options: %w", m.Step, err)
	}
	return p.Command, nil
}

// Compare compares a checkpoint with the job that is to go on with it. The error names a difference
// that rules this out, or would give other results than one undisturbed job; the list has the
// settings that have changed and may.
func Compare(c *checkpoint.Checkpoint, now *checkpoint.Manifest, s Settings) (changed []string, err error) {
	var p progress
	if err := json.Unmarshal(c.Options, &p); err != nil {
		return nil, callerError("checkpoint %s: options: %w", c.Path, err)
	}
	if err := c.Model.Check(now.Model); err != nil {
		return nil, callerError("checkpoint %s: %w", c.Path, err)
	}
	refuse := func(what any, then, now any) {
		if err == nil && fmt.Sprint(then) != fmt.Sprint(now) {
			err = callerError("checkpoint %s: its job has %v %v, this one %v: a job keeps the settings of "+
				"its start; begin another one with %v", c.Path, what, then, now,
				hint.Init.With(c.Path+"/weights.safetensors"))
		}
	}
	refuse("data with the hash", c.Data.Identity, now.Data.Identity)
	refuse("the data seed", c.DataSeed, now.DataSeed)
	refuse("the seed", c.Seed, now.Seed)
	refuse(hint.Batch, p.Batch, s.Batch)
	refuse(hint.Last, p.Last, s.Last)
	refuse(hint.Shuffle, p.Shuffle, s.Shuffle)
	refuse("batches of the sizes", p.Sizes, s.Sizes)
	if then := max(p.Ranks, 1); c.Accumulation != now.Accumulation && then != max(s.Ranks, 1) {
		changed = append(changed, fmt.Sprintf("ranks: were %d, are %d: an update was of %d micro-batches, is of %d",
			then, max(s.Ranks, 1), c.Accumulation, now.Accumulation))
	} else {
		refuse(hint.Accumulation, c.Accumulation/then, now.Accumulation/then)
	}
	refuse("the optimizer", kindOf(c.Optimizer), kindOf(now.Optimizer))
	for _, part := range []struct {
		name      string
		then, now json.RawMessage
	}{{"optimizer", c.Optimizer, now.Optimizer}, {"schedule", c.Schedule, now.Schedule}} {
		if then, now := compact(part.then), compact(part.now); then != now {
			changed = append(changed, fmt.Sprintf("%s: was %s, is %s", part.name, then, now))
		}
	}
	return changed, err
}

// kindOf is the kind of an optimizer's settings.
func kindOf(raw json.RawMessage) string {
	var o struct{ Kind string }
	json.Unmarshal(raw, &o) // JSON that does not parse has no kind
	return o.Kind
}

// compact is JSON without spaces, so that equal settings are equal text.
func compact(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	text, _ := json.Marshal(v)
	return string(text)
}
