package main

import (
	"path/filepath"
	"strconv"
	"strings"

	"memopt"
	"memopt/executor/dataset"
	"memopt/executor/verify"
)

// loadData reads the inputs and binds their dims; it returns nil without a folder.
func (a *app) loadData(m *memopt.Model, dir string) (*dataset.Set, error) {
	if dir == "" {
		return nil, nil
	}
	set, err := dataset.Load(dir, m.Graph)
	if err != nil {
		return nil, fileError("--data-dir %s: %w", dir, err)
	}
	for _, file := range set.Files {
		if err := a.reads("--data-dir", file); err != nil {
			return nil, err
		}
	}
	if err := m.Bind(set.Inputs); err != nil {
		return nil, usage("--data-dir %s: %w", dir, err)
	}
	return set, nil
}

// parseInit reads the value of --init.
func parseInit(text string) (seed int64, random bool, err error) {
	if text == "" {
		return 0, false, nil
	}
	number, ok := strings.CutPrefix(text, "random:")
	if ok {
		if seed, err = strconv.ParseInt(number, 10, 64); err == nil {
			return seed, true, nil
		}
	}
	return 0, false, usage("--init %q: wanted random:SEED with a whole number, for example random:1", text)
}

// saveOutputs writes the outputs of a run.
func (a *app) saveOutputs(e *execFlags, r *verify.Run) error {
	if e.saveOutputs == "" {
		return nil
	}
	var named []dataset.Named
	for _, o := range r.Outputs {
		named = append(named, dataset.Named{Name: o.Name, Tensor: o.Tensor})
	}
	if err := dataset.Write(e.saveOutputs, named, a.files); err != nil {
		return usage("--save-outputs %s: %w", filepath.Clean(e.saveOutputs), err)
	}
	return nil
}
