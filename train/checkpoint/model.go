package checkpoint

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/onnx"
)

// DescribeModel returns what a manifest says of a model: path is what the job was given, structure
// the hash of its structure, and state reports whether an initializer is a state of the job, whose
// contents the checkpoint has.
func DescribeModel(m *graph.Model, path, structure string, state func(name string) bool) (Model, error) {
	frozen, err := onnx.ContentsSHA256(m, state)
	if err != nil {
		return Model{}, fmt.Errorf("%s: %w", path, err)
	}
	return Model{Path: path, StructureSHA256: structure, FrozenSHA256: frozen}, nil
}

// Check returns an error unless a model, as it is now, is the one of the checkpoint: of the same
// structure, and with the same contents of what is no state. Where it lies does not matter.
func (m Model) Check(now Model) error {
	switch {
	case now.StructureSHA256 != m.StructureSHA256:
		return fmt.Errorf("%s is not the model that the checkpoint is of, or has changed since: its structure has "+
			"SHA-256 %s; wanted %s, that of %s", now.Path, now.StructureSHA256, m.StructureSHA256, m.Path)
	case now.FrozenSHA256 != m.FrozenSHA256:
		return fmt.Errorf("%s has changed since the checkpoint was saved: its structure is the same, and what is "+
			"not trained (frozen weights and constants) has SHA-256 %s; wanted %s, that of %s",
			now.Path, now.FrozenSHA256, m.FrozenSHA256, m.Path)
	}
	return nil
}
