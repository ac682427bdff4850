package option

import (
	"path/filepath"
	"strconv"
	"strings"

	"memopt"
	"memopt/cmd/memopt/internal/cli"
	"memopt/executor/dataset"
	"memopt/executor/verify"
)

// LoadData reads the inputs and binds their dims; it returns nil without a folder.
func LoadData(a *cli.App, m *memopt.Model, dir string) (*dataset.Set, error) {
	if dir == "" {
		return nil, nil
	}
	set, err := dataset.Load(dir, m.Graph)
	if err != nil {
		return nil, cli.FileError("--data-dir %s: %w", dir, err)
	}
	for _, file := range set.Files {
		if err := a.Reads("--data-dir", file); err != nil {
			return nil, err
		}
	}
	if err := m.Bind(set.Inputs); err != nil {
		return nil, cli.Usage("--data-dir %s: %w", dir, err)
	}
	return set, nil
}

// ParseInit reads the value of --init.
func ParseInit(text string) (seed int64, random bool, err error) {
	if text == "" {
		return 0, false, nil
	}
	number, ok := strings.CutPrefix(text, "random:")
	if ok {
		if seed, err = strconv.ParseInt(number, 10, 64); err == nil {
			return seed, true, nil
		}
	}
	return 0, false, cli.Usage("--init %q: wanted random:SEED with a whole number, for example random:1", text)
}

// SaveOutputs writes the outputs of a run.
func SaveOutputs(a *cli.App, e *ExecFlags, r *verify.Run) error {
	if e.saveOutputs == "" {
		return nil
	}
	var named []dataset.Named
	for _, o := range r.Outputs {
		named = append(named, dataset.Named{Name: o.Name, Tensor: o.Tensor})
	}
	if err := dataset.Write(e.saveOutputs, named, a.Files); err != nil {
		return cli.Usage("--save-outputs %s: %w", filepath.Clean(e.saveOutputs), err)
	}
	return nil
}
