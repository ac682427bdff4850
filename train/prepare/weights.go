package prepare

import (
	"fmt"
	"slices"

	"memopt"
	"memopt/executor"
	"memopt/train"
	"memopt/train/ortfiles"
	"memopt/train/safetensors"
	"memopt/train/weights"
)

// Values are first values of states, by name.
type Values map[string]*executor.Tensor

// Weights takes first values from a file of weights, which must have all parameters, and those running statistics
// that the model has no contents for. found says which tensor became which state. Contents that differ from those of
// a weight that is not trained are an error; model names the model in it.
func Weights(s *train.Steps, file *safetensors.File, model string) (first Values, found *weights.Matching, err error) {
	of := s.Forward
	if of == nil {
		of = s.Step
	}
	if found, err = weights.Find(of.Model, wanted(s), file); err != nil {
		return nil, nil, err
	}
	if err := found.Complete(); err != nil {
		return nil, nil, err
	}
	if err := sameFrozen(s, found, file.Path(), model); err != nil {
		return nil, nil, err
	}
	first = Values{}
	for i := range s.States {
		name := s.States[i].Name
		x, ok, err := found.Shown(name)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			first[name] = x
		}
	}
	return first, found, nil
}

// wanted lists the names that a file of weights must have: the parameters, and the running statistics that the
// model has no contents for.
func wanted(s *train.Steps) []string {
	names := slices.Clone(s.Params)
	for _, state := range s.States {
		if state.Model && state.Data == nil && !slices.Contains(s.Params, state.Name) {
			names = append(names, state.Name)
		}
	}
	return names
}

// sameFrozen returns an error if a file has other contents than the model for a weight that is not trained: a job
// leaves the weight as the model has it, and so do its checkpoints.
func sameFrozen(s *train.Steps, found *weights.Matching, file, model string) error {
	var differ []string
	for _, m := range found.Matches {
		if s.IsState(m.Parameter) {
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
		file, model, len(differ), differ[0])
}

// Matches describes how the tensors of a file became the values of parameters.
type Matches struct {
	// Renamed has a line for each parameter whose tensor has another name, for example "fc.weight is
	// module.fc.weight, transposed".
	Renamed []string
	// Summary counts the parameters that were found by other names; "" if there are no such parameters.
	Summary string
	// Unused counts the tensors that belong to no parameter; "" if there are no such tensors.
	Unused string
}

// Describe says how the tensors of a file became the values of parameters.
func Describe(found *weights.Matching) Matches {
	var d Matches
	folded, renamed := 0, 0
	for _, m := range found.Matches {
		if m.Parameter != m.Tensor {
			d.Renamed = append(d.Renamed, fmt.Sprintf("%s is %s%s", m.Parameter, m.Tensor,
				map[bool]string{true: ", transposed"}[m.Transpose]))
		}
		switch m.How {
		case weights.Folded:
			folded++
		case weights.Prefix:
			renamed++
		}
	}
	if renamed+folded > 0 {
		d.Summary = fmt.Sprintf("%d weights were found by names without wrappers or a prefix, %d transposed, "+
			"by the nodes that read them", renamed, folded)
	}
	if n := len(found.Unused); n > 0 {
		d.Unused = fmt.Sprintf("%d tensors belong to no parameter, the first is %q", n, found.Unused[0])
	}
	return d
}

// Artefacts takes first values from the checkpoint of onnxruntime-training's artefacts: the weights, and the
// optimizer's moments if the job has them.
func Artefacts(s *train.Steps, a *ortfiles.Artefacts) (Values, error) {
	states, err := a.States()
	if err != nil {
		return nil, err
	}
	first := Values{}
	for _, list := range [][]ortfiles.Tensor{a.Checkpoint.Trained, a.Checkpoint.Frozen, states} {
		for _, x := range list {
			if s.IsState(x.Name) {
				first[x.Name] = x.Tensor
			}
		}
	}
	return first, nil
}

// Evaluation makes a model that stands for itself the form for evaluation of steps that have no form: it must make
// the loss under the same name from inputs of the step. unlike says why it is not taken, "" if it is.
func Evaluation(s *train.Steps, m *memopt.Model) (unlike string, err error) {
	v, ok := m.Graph.Lookup(s.Loss)
	if !ok || !m.Graph.Values[v].Output {
		return fmt.Sprintf("%s has no output %q, the loss: there is no evaluation", m.Path, s.Loss), nil
	}
	for _, d := range m.Graph.Inputs {
		name := m.Graph.ValueName(d.Value)
		in, ok := s.Step.Graph.Lookup(name)
		if !s.IsState(name) && !(ok && slices.Contains(s.Inputs, in)) {
			return fmt.Sprintf("%s has an input %q, which the training model does not have: there is no evaluation",
				m.Path, name), nil
		}
	}
	s.Eval = m
	return "", s.WeighEval()
}
