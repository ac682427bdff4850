package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"memopt"
	"memopt/executor"
	"memopt/train/ortfiles"
	"memopt/train/safetensors"
	"memopt/train/weights"
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
			return usage("--init %q: wanted random:SEED with a whole number, or a file", t.init)
		}
		t.config.RandomSeed = &seed
		return nil
	case t.init != "":
		return t.initialWeights()
	case t.ort != nil:
		return t.initialArtefacts()
	case strings.HasPrefix(t.name, memopt.ExamplePrefix): // a built-in model has no weights
		seed := uint64(t.global.seed)
		t.config.RandomSeed = &seed
	}
	return nil
}

// initialWeights reads the weights of a safetensors file.
func (t *training) initialWeights() error {
	if err := t.reads("--init", t.init); err != nil {
		return err
	}
	file, err := safetensors.Open(t.init)
	if err != nil {
		return fileError("--init: %w", err)
	}
	t.sources = append(t.sources, file)
	of := t.steps.Forward
	if of == nil {
		of = t.steps.Step
	}
	found, err := weights.Find(of.Model, t.wanted(), file)
	if err == nil {
		err = found.Complete()
	}
	if err == nil {
		err = t.sameFrozen(found)
	}
	if err != nil {
		return usage("--init: %w", err)
	}
	t.noteMatches(found)
	t.config.Begin = map[string]*executor.Tensor{}
	for i := range t.steps.States {
		name := t.steps.States[i].Name
		x, ok, err := found.Tensor(name)
		if err != nil {
			return fileError("--init: %w", err)
		}
		if ok {
			t.config.Begin[name] = x
		}
	}
	return nil
}

// wanted lists what a file of weights must have: the parameters, and the running statistics of which
// the model has no contents.
func (t *training) wanted() []string {
	names := slices.Clone(t.steps.Params)
	for _, s := range t.steps.States {
		if s.Model && s.Data == nil && !slices.Contains(t.steps.Params, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// sameFrozen returns an error where a file has other contents than the model for a weight that is not
// trained: a job leaves it as the model has it, and so do its checkpoints.
func (t *training) sameFrozen(found *weights.Matching) error {
	var differ []string
	for _, m := range found.Matches {
		if t.steps.IsState(m.Parameter) {
			continue
		}
		changed, err := found.Changes(m.Parameter)
		if err != nil {
			return err
		}
		if changed {
			differ = append(differ, m.Parameter)
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("%s has other contents than %s for %d weights that are not trained, the first is %q: "+
		"a job leaves these as the model has them; put them into the model, train them, or leave them out of the file",
		t.init, t.name, len(differ), differ[0])
}

// noteMatches reports tensors that were matched by other names, and unused ones.
func (t *training) noteMatches(found *weights.Matching) {
	folded, renamed := 0, 0
	for _, m := range found.Matches {
		if t.global.verbose && m.Parameter != m.Tensor {
			t.note("--init: %s is %s%s", m.Parameter, m.Tensor, map[bool]string{true: ", transposed"}[m.Transpose])
		}
		switch m.How {
		case weights.Folded:
			folded++
		case weights.Prefix:
			renamed++
		}
	}
	if renamed+folded > 0 {
		t.note("--init: %d weights were found by names without wrappers or a prefix, %d transposed, "+
			"by the nodes that read them (-v lists them)", renamed, folded)
	}
	if n := len(found.Unused); n > 0 {
		t.warn("--init %s: %d tensors belong to no parameter, the first is %q", t.init, n, found.Unused[0])
	}
}

// openArtefacts opens the artefacts of onnxruntime-training, where the model is a folder of them. Its
// training model is trained, by the optimizer of its optimizer model unless flags name another.
func (t *training) openArtefacts() (err error) {
	if !ortfiles.Here(t.name) {
		return nil
	}
	if t.ort, err = ortfiles.Open(t.name); err != nil {
		return fileError("%w", err)
	}
	t.sources = append(t.sources, t.ort)
	t.name = t.ort.Training
	o := &t.trainFlags.step.optimizer
	if groups := t.ort.Checkpoint.Groups; len(groups) > 0 && !t.set.Changed("learning-rate") {
		t.schedule.rate = float64(groups[0].LearningRate)
	}
	u := t.ort.Update
	if u == nil || t.set.Changed("optimizer") && o.kind != u.Kind {
		return nil
	}
	o.kind = u.Kind
	for _, flag := range []struct {
		name  string
		to    *float64
		value float64
	}{{"weight-decay", &o.weightDecay, u.WeightDecay}, {"adam-beta1", &o.beta1, u.Beta1},
		{"adam-beta2", &o.beta2, u.Beta2}, {"adam-epsilon", &o.eps, u.Eps},
		{"max-grad-norm", &o.clip, u.MaxNorm}} {
		if !t.set.Changed(flag.name) {
			*flag.to = flag.value
		}
	}
	if !t.set.Changed("weight-decay") {
		o.decayAll = true // as ONNX Runtime does
	}
	return nil
}

// evalArtefact takes the evaluation model among the artefacts, where it makes the loss by the same
// name from the same inputs.
func (t *training) evalArtefact() error {
	if t.ort == nil || t.ort.Eval == "" || t.steps.Eval != nil {
		return nil
	}
	m, err := t.load(t.ort.Eval)
	if err != nil {
		return err
	}
	t.sources = append(t.sources, m)
	v, ok := m.Graph.Lookup(t.steps.Loss)
	if !ok || !m.Graph.Values[v].Output {
		t.warn("%s has no output %q, the loss: there is no evaluation", t.ort.Eval, t.steps.Loss)
		return nil
	}
	for _, d := range m.Graph.Inputs {
		name := m.Graph.ValueName(d.Value)
		in, ok := t.steps.Step.Graph.Lookup(name)
		if !t.steps.IsState(name) && !(ok && slices.Contains(t.steps.Inputs, in)) {
			t.warn("%s has an input %q, which the training model does not have: there is no evaluation",
				t.ort.Eval, name)
			return nil
		}
	}
	t.steps.Eval = m
	return classify(t.steps.WeighEval())
}

// initialArtefacts takes the weights of the checkpoint among the artefacts, and the moments of the
// optimizer if the job has them, too.
func (t *training) initialArtefacts() error {
	states, err := t.ort.States()
	if err != nil {
		return usage("%s: %w", t.name, err)
	}
	t.config.Begin = map[string]*executor.Tensor{}
	for _, list := range [][]ortfiles.Tensor{t.ort.Checkpoint.Trained, t.ort.Checkpoint.Frozen, states} {
		for _, x := range list {
			if t.steps.IsState(x.Name) {
				t.config.Begin[x.Name] = x.Tensor
			}
		}
	}
	return nil
}
