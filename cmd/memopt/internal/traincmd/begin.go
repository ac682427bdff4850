package traincmd

import (
	"strconv"
	"strings"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/cmd/memopt/internal/load"
	"memopt/train/ortfiles"
	"memopt/train/prepare"
	"memopt/train/safetensors"
)

// initial settles the first values besides the model's own weights: a checkpoint, --init, or
// the checkpoint among onnxruntime-training's artefacts.
func (t *training) initial() error {
	random, isRandom := strings.CutPrefix(t.init, "random:")
	switch {
	case t.config.Resume != nil:
		return nil
	case isRandom:
		seed, err := strconv.ParseUint(random, 10, 64)
		if err != nil {
			return cli.Usage("--init %q: wanted random:SEED with a whole number, or a file", t.init)
		}
		t.config.RandomSeed = &seed
		return nil
	case t.init != "":
		return t.initialWeights()
	case t.ort != nil:
		return t.initialArtefacts()
	case strings.HasPrefix(t.name, memopt.ExamplePrefix): // a built-in model has no weights
		seed := uint64(t.Global.Seed)
		t.config.RandomSeed = &seed
	}
	return nil
}

// initialWeights reads the weights of a safetensors file.
func (t *training) initialWeights() error {
	if err := t.Reads("--init", t.init); err != nil {
		return err
	}
	file, err := safetensors.Open(t.init)
	if err != nil {
		return cli.FileError("--init: %w", err)
	}
	t.sources = append(t.sources, file)
	first, found, err := prepare.Weights(t.steps, file, t.name)
	if err != nil {
		return cli.Usage("--init: %w", err)
	}
	t.noteMatches(prepare.Describe(found))
	t.config.Begin = first
	return nil
}

// noteMatches reports tensors that were matched by other names, and unused ones.
func (t *training) noteMatches(m prepare.Matches) {
	if t.Global.Verbose {
		for _, line := range m.Renamed {
			t.Note("--init: %s", line)
		}
	}
	if m.Summary != "" {
		t.Note("--init: %s (-v lists them)", m.Summary)
	}
	if m.Unused != "" {
		t.Warn("--init %s: %s", t.init, m.Unused)
	}
}

// openArtefacts opens the artefacts of onnxruntime-training, where the model is a folder of them. Its
// training model is trained, by the optimizer of its optimizer model unless flags name another.
func (t *training) openArtefacts() (err error) {
	if !ortfiles.Here(t.name) {
		return nil
	}
	if t.ort, err = ortfiles.Open(t.name); err != nil {
		return cli.FileError("%w", err)
	}
	t.sources = append(t.sources, t.ort)
	t.name = t.ort.Training
	o := &t.trainFlags.step.Optimizer
	if groups := t.ort.Checkpoint.Groups; len(groups) > 0 && !t.set.Changed("learning-rate") {
		t.schedule.rate = float64(groups[0].LearningRate)
	}
	u := t.ort.Update
	if u == nil || t.set.Changed("optimizer") && o.Kind != u.Kind {
		return nil
	}
	o.Kind = u.Kind
	for _, flag := range []struct {
		name  string
		to    *float64
		value float64
	}{{"weight-decay", &o.WeightDecay, u.WeightDecay}, {"adam-beta1", &o.Beta1, u.Beta1},
		{"adam-beta2", &o.Beta2, u.Beta2}, {"adam-epsilon", &o.Eps, u.Eps},
		{"max-grad-norm", &o.Clip, u.MaxNorm}} {
		if !t.set.Changed(flag.name) {
			*flag.to = flag.value
		}
	}
	if !t.set.Changed("weight-decay") {
		o.DecayAll = true // as ONNX Runtime does
	}
	return nil
}

// evalArtefact takes the evaluation model among the artefacts, where it makes the loss by the same
// name from the same inputs.
func (t *training) evalArtefact() error {
	if t.ort == nil || t.ort.Eval == "" || t.steps.Eval != nil {
		return nil
	}
	m, err := load.Model(t.App, t.ort.Eval, load.Reading{States: t.selection.States})
	if err != nil {
		return err
	}
	t.sources = append(t.sources, m)
	unlike, err := prepare.Evaluation(t.steps, m)
	if unlike != "" {
		t.Warn("%s", unlike)
	}
	return cli.Classify(err)
}

// initialArtefacts takes the weights of the checkpoint among the artefacts, and the moments of the
// optimizer if the job has them, too.
func (t *training) initialArtefacts() (err error) {
	if t.config.Begin, err = prepare.Artefacts(t.steps, t.ort); err != nil {
		return cli.Usage("%s: %w", t.name, err)
	}
	return nil
}
