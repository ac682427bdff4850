package ortfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"memopt/autograd"
	"memopt/executor"
	"memopt/graph"
	"memopt/graph/onnx"
)

// Names of the files.
const (
	trainingName   = "training_model.onnx"
	evalName       = "eval_model.onnx"
	optimizerName  = "optimizer_model.onnx"
	checkpointName = "checkpoint"
)

// Artefacts are the artefacts in a folder.
type Artefacts struct {
	Training   string  // path of the training model
	Eval       string  // path of the model for evaluation; "" if it is missing
	Update     *Update // the formula of the optimizer model; nil if it is missing
	Checkpoint *Checkpoint
}

// Here reports whether a path is a folder that has a training model and a checkpoint.
func Here(path string) bool {
	for _, name := range []string{trainingName, checkpointName} {
		info, err := os.Stat(filepath.Join(path, name))
		if err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

// Open opens the artefacts in a folder. Every parameter of the checkpoint must be an input of the
// training model, of the same type. The caller closes them.
func Open(dir string) (*Artefacts, error) {
	a := &Artefacts{Training: filepath.Join(dir, trainingName)}
	for _, optional := range []struct {
		name string
		path *string
	}{{evalName, &a.Eval}} {
		path := filepath.Join(dir, optional.name)
		if _, err := os.Stat(path); err == nil {
			*optional.path = path
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	var err error
	if a.Checkpoint, err = OpenCheckpoint(filepath.Join(dir, checkpointName)); err != nil {
		return nil, err
	}
	if err := a.check(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	if a.Update, err = openUpdate(filepath.Join(dir, optimizerName)); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Close ends the mapping of the checkpoint.
func (a *Artefacts) Close() error { return a.Checkpoint.Close() }

// check compares the checkpoint with the training model.
func (a *Artefacts) check() error {
	m, opened, err := onnx.Open(a.Training)
	if err != nil {
		return err
	}
	defer opened.Close()
	for _, t := range append(append([]Tensor{}, a.Checkpoint.Trained...), a.Checkpoint.Frozen...) {
		v, ok := m.Graph.Lookup(t.Name)
		if !ok || !m.Graph.Values[v].Input {
			return fmt.Errorf("%s has no input %q, which the checkpoint has as a parameter: they are of "+
				"different models", a.Training, t.Name)
		}
		if typ := m.Graph.Values[v].Type; !same(typ, t.Tensor) {
			return fmt.Errorf("%s: input %q has type %v, and the checkpoint's parameter %v: they are of "+
				"different models", a.Training, t.Name, typ, t.Tensor)
		}
	}
	return nil
}

// same reports whether a tensor can be of a type.
func same(typ graph.Type, t *executor.Tensor) bool {
	if typ.Form != graph.FormTensor || typ.DType != t.DType || typ.Shape.Rank() != t.Rank() {
		return false
	}
	for i, d := range typ.Shape.Dims {
		if n, known := d.Const(); known && n != int64(t.Shape[i]) {
			return false
		}
	}
	return true
}

// Moments of ONNX Runtime's optimizers, and memopt's names for them.
var suffixes = map[string]string{"momentum0": autograd.AvgSuffix, "momentum1": autograd.SqAvgSuffix}

// States returns the optimizer's state under the names that autograd.AppendOptimizer gives it: moments,
// and the number of updates so far. Generated artefacts have no group, and so an empty list: moments
// begin as zeros.
func (a *Artefacts) States() (list []Tensor, err error) {
	groups := a.Checkpoint.Groups
	if len(groups) > 1 {
		return nil, fmt.Errorf("the checkpoint has %d groups of the optimizer; wanted one, which is all that "+
			"ONNX Runtime itself goes on with", len(groups))
	}
	for _, g := range groups {
		for _, s := range g.States {
			for _, m := range s.Moments {
				suffix, ok := suffixes[m.Name]
				if !ok {
					return nil, fmt.Errorf("parameter %q has a moment %q; wanted momentum0 or momentum1",
						s.Parameter, m.Name)
				}
				list = append(list, Tensor{s.Parameter + suffix, m.Tensor})
			}
		}
		list = append(list, Tensor{autograd.StepInput, executor.NewTensor(graph.Int64, []int{}, g.Step)})
	}
	return list, nil
}
