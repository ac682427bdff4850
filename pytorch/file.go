package pytorch

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"memopt/configs"
)

// Format and Version name the plan files that memopt.torch reads.
const (
	Format  = configs.ModuleFormat
	Version = 1
)

// file is a plan file (docs/schemas/modules.schema.json).
type file struct {
	Format          string             `json:"format"`
	Version         int                `json:"version"`
	Model           string             `json:"model"`
	StructureSHA256 string             `json:"structure_sha256"`
	Device          string             `json:"device"`
	Dims            map[string]int64   `json:"dims"`
	Inputs          []fileInput        `json:"inputs"`
	Parameters      map[string][]int64 `json:"parameters"`
	PreserveRNG     bool               `json:"preserve_rng_state"`
	Modules         []string           `json:"modules"`
	Nested          bool               `json:"nested"`
	Torch           string             `json:"torch"`
	Calls           map[string]int     `json:"calls"`
	usageJSON
	BaselinePeak  int64   `json:"baseline_peak_bytes"`
	BaselineSaved int64   `json:"baseline_saved_bytes"`
	StepSeconds   float64 `json:"step_seconds"`
}

type fileInput struct {
	Name  string  `json:"name"`
	Type  string  `json:"type"`
	Shape []int64 `json:"shape"`
}

// File returns the plan as a plan file.
func (p *Plan) File() ([]byte, error) {
	f := &file{Format: Format, Version: Version, Model: filepath.Base(p.Of.Path), StructureSHA256: p.Of.StructureSHA256,
		Device: "cpu", Dims: p.Of.Dims, Inputs: []fileInput{}, Parameters: map[string][]int64{},
		PreserveRNG: p.Random(p.Chosen), Modules: p.Names(p.Chosen),
		Nested: p.nested(), Torch: p.Tree.Torch, Calls: map[string]int{},
		usageJSON: p.usage(p.Chosen), BaselinePeak: p.Baseline.Usage.Peak, BaselineSaved: p.Baseline.Usage.Saved,
		StepSeconds: p.Step}
	for _, name := range f.Modules {
		f.Calls[name] = 1
	}
	g := p.Of.Graph
	for _, d := range g.Inputs {
		v := &g.Values[d.Value]
		if v.IsInitializer() || slices.Contains(p.Wrt, v.Name) {
			continue
		}
		shape, err := p.shape(v.Name)
		if err != nil {
			return nil, err
		}
		f.Inputs = append(f.Inputs, fileInput{v.Name, v.Type.DType.String(), shape})
	}
	for _, name := range p.Wrt {
		shape, err := p.shape(name)
		if err != nil {
			return nil, err
		}
		f.Parameters[p.parameter(name)] = shape
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(f)
	return b.Bytes(), err
}

// nested reports whether modules of the plan lie in others.
func (p *Plan) nested() bool {
	calls := p.Chosen.Calls
	return slices.ContainsFunc(calls, func(inner int32) bool {
		return slices.ContainsFunc(calls, func(c int32) bool { return c != inner && p.Tree.Within(inner, c) })
	})
}

// parameter is a parameter's name in the program: without the attribute that holds the model.
func (p *Plan) parameter(name string) string {
	if p.Tree.Root == "" {
		return name
	}
	return strings.TrimPrefix(name, p.Tree.Root+".")
}

// shape evaluates a value's dims.
func (p *Plan) shape(name string) ([]int64, error) {
	v, _ := p.Of.Graph.Lookup(name)
	out := []int64{}
	for _, d := range p.Of.Graph.Values[v].Type.Shape.Dims {
		n, err := d.Eval(p.Of.Dims)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}
