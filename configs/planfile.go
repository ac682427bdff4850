package configs

import (
	"bytes"
	"encoding/json"

	"memopt/hint"
	"memopt/recompute"
)

// LoadPlan reads a plan.json. Whether it fits a model is for the caller to
// check: the record has the hash of the structure it was made for.
func LoadPlan(path string) (*recompute.Record, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return ParsePlan(data, path)
}

// ParsePlan reads the JSON of a plan.
func ParsePlan(data []byte, where string) (*recompute.Record, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if IsModulePlan(data) {
		return nil, faultf(where, "is a plan of modules, which PyTorch runs: apply it there with memopt.torch.apply "+
			"(docs/pytorch.md); wanted the plan of an ONNX graph, which %v writes", hint.SavePlan)
	}
	var r recompute.Record
	if err := dec.Decode(&r); err != nil {
		return nil, faultf(where, "is not a plan: %v; wanted the JSON that %v writes", err, hint.SavePlan)
	}
	if !r.Valid() {
		if r.Schema == recompute.SchemaMoved {
			return nil, faultf(where, "has schema %q and no link: wanted \"link\": {\"bytes_per_second\": …}", r.Schema)
		}
		return nil, faultf(where, "has schema %q, wanted %q or %q", r.Schema, recompute.Schema, recompute.SchemaMoved)
	}
	return &r, nil
}

// ModuleFormat is the value of "format" in a plan of modules.
const ModuleFormat = "memopt-modules"

// IsModulePlan reports whether a file is a plan of modules (plan --select modules --save-plan), for PyTorch.
func IsModulePlan(data []byte) bool {
	var head struct{ Format string }
	return json.Unmarshal(data, &head) == nil && head.Format == ModuleFormat
}

// FormatPlan writes a plan.json.
func FormatPlan(r *recompute.Record) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
