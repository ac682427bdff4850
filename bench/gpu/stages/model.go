package stages

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// model is a model of the folder of models, as its meta.json describes it (the layout is that of
// ../shared/models).
type model struct {
	name, dir, file string
	set             string // folder of inputs and outputs; "" if inputs are generated
	feed            string // folder of the inputs alone, so that memopt makes no comparison
	meta            meta
}

// meta is the part of meta.json that the checks read.
type meta struct {
	Dims      map[string]int64 `json:"dims_traced"`
	Exact     *bool            `json:"deterministic"` // nil means yes
	LossIn    *bool            `json:"loss_in_graph"` // nil means yes
	Tolerance struct {
		Abs float64 `json:"atol"`
		Rel float64 `json:"rtol"`
	} `json:"tolerance"`
}

// trains reports whether the model has a loss, so that it can be differentiated.
func (m *model) trains() bool { return m.meta.LossIn == nil || *m.meta.LossIn }

// open reads the files that a model has, and makes its folder feed.
func (r *runner) open(dir string) (*model, error) {
	m := &model{name: filepath.Base(dir), dir: dir, file: filepath.Join(dir, "model.onnx")}
	if _, err := os.Stat(m.file); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if err := json.Unmarshal(data, &m.meta); err != nil {
			return nil, fmt.Errorf("%s: meta.json: %w", dir, err)
		}
	}
	inputs, _ := filepath.Glob(filepath.Join(dir, "test_data_set_0", "input_*.pb"))
	if len(inputs) == 0 {
		return m, nil
	}
	m.set, m.feed = filepath.Dir(inputs[0]), filepath.Join(r.tmp, "feed", m.name)
	if err := os.MkdirAll(m.feed, 0o777); err != nil {
		return nil, err
	}
	for _, file := range inputs {
		if err := os.Symlink(file, filepath.Join(m.feed, filepath.Base(file))); err != nil &&
			!errors.Is(err, os.ErrExist) {
			return nil, err
		}
	}
	return m, nil
}

// inputs are the arguments that give a model inputs: its own, or made-up ones with the dims of its
// export except for those given.
func (m *model) inputs(dims map[string]int64) []string {
	if m.set != "" && len(dims) == 0 {
		return []string{"--data-dir", m.feed}
	}
	args := []string{"--init", "random:1"}
	bound := maps.Clone(m.meta.Dims)
	if bound == nil {
		bound = map[string]int64{}
	}
	maps.Copy(bound, dims)
	for _, name := range slices.Sorted(maps.Keys(bound)) {
		args = append(args, "--dim", fmt.Sprintf("%s=%d", name, bound[name]))
	}
	return args
}

// listModels opens all models of the folder that have a loss, by name.
func (r *runner) listModels() []*model {
	files, _ := filepath.Glob(filepath.Join(r.models, "*", "model.onnx"))
	var list []*model
	for _, file := range files {
		m, err := r.open(filepath.Dir(file))
		switch {
		case err != nil:
			r.row(filepath.Base(filepath.Dir(file)), Fail, err.Error())
		case m.trains():
			list = append(list, m)
		}
	}
	if len(files) == 0 {
		r.row("models",
			NotAvailable,
			"no models in "+r.models+
				": gpu-verify build --models DIR puts them into the bundle, run --models DIR names another folder")
	}
	return list
}

// named opens a model of the folder, and says so if it is missing.
func (r *runner) named(name string) *model {
	m, err := r.open(filepath.Join(r.models, name))
	if errors.Is(err, os.ErrNotExist) {
		r.row(name, NotAvailable, "there is no such model in "+r.models)
		return nil
	}
	if err != nil {
		r.row(name, Fail, err.Error())
		return nil
	}
	return m
}
