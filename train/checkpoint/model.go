package checkpoint

import (
	"fmt"
	"strings"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/onnx"
)

// OpenModel reads the model that a path, or example:NAME, stands for, as it is, so that its hashes
// are those of the file. The caller calls done when it is no longer used.
func OpenModel(path string) (m *graph.Model, done func() error, err error) {
	name, ok := strings.CutPrefix(path, examples.Prefix)
	if !ok {
		m, opened, err := onnx.Open(path)
		if err != nil {
			return nil, nil, err
		}
		return m, opened.Close, nil
	}
	ex, ok := examples.Lookup(name)
	if !ok {
		return nil, nil, fmt.Errorf("%s: there is no such example", path)
	}
	if m, err = ex.Build(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	m.Path = path
	return m, func() error { return nil }, nil
}

// DescribeModel returns a manifest's record of a model as OpenModel returns it, before any change.
// state reports whether an initializer is a state of the job, whose contents the checkpoint has.
func DescribeModel(m *graph.Model, state func(name string) bool) (Model, error) {
	frozen, err := onnx.ContentsSHA256(m, state)
	if err != nil {
		return Model{}, fmt.Errorf("%s: %w", m.Path, err)
	}
	return Model{Path: m.Path, StructureSHA256: onnx.StructureSHA256(m), FrozenSHA256: frozen}, nil
}

// Check returns an error unless a model, as it is now, is the one of the checkpoint: of the same
// structure, and with the same contents of all values that are no states. Its path does not matter.
func (m Model) Check(now Model) error {
	switch {
	case now.StructureSHA256 != m.StructureSHA256:
		return fmt.Errorf("%s is not the model that the checkpoint is of, or has changed since: its structure has "+
			"SHA-256 %s; wanted %s, that of %s", now.Path, now.StructureSHA256, m.StructureSHA256, m.Path)
	case now.FrozenSHA256 != m.FrozenSHA256:
		return fmt.Errorf("%s has changed since the checkpoint was saved: its structure is the same, but its "+
			"frozen weights and constants have SHA-256 %s; wanted %s, that of %s",
			now.Path, now.FrozenSHA256, m.FrozenSHA256, m.Path)
	}
	return nil
}
