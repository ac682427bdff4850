package configs

import (
	"bytes"
	"encoding/json"

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
	var r recompute.Record
	if err := dec.Decode(&r); err != nil {
		return nil, faultf(where, "is not a plan: %v; wanted the JSON that plan --save-plan "+
			"writes", err)
	}
	if r.Schema != recompute.Schema {
		return nil, faultf(where, "has schema %q, wanted %q", r.Schema, recompute.Schema)
	}
	return &r, nil
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
