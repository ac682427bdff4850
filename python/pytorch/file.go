package pytorch

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"

	"memopt"
	"memopt/configs"
	"memopt/graph/modules"
	torchsim "memopt/sim/torch"
)

// Format and Version name the plan files that memopt.torch reads.
const (
	Format  = configs.ModuleFormat
	Version = 1
)

// file is a plan file (docs/schemas/modules.schema.json).
type file struct {
	Format          string                 `json:"format"`
	Version         int                    `json:"version"`
	Model           string                 `json:"model"`
	StructureSHA256 string                 `json:"structure_sha256"`
	Device          string                 `json:"device"`
	Dims            map[string]int64       `json:"dims"`
	Inputs          []torchsim.TracedInput `json:"inputs"`
	Parameters      map[string][]int64     `json:"parameters"`
	PreserveRNG     bool                   `json:"preserve_rng_state"`
	Modules         []string               `json:"modules"`
	Nested          bool                   `json:"nested"`
	Torch           string                 `json:"torch"`
	Calls           map[string]int         `json:"calls"`
	usageJSON
	Held          int64   `json:"held_bytes"`
	BaselinePeak  int64   `json:"baseline_peak_bytes"`
	BaselineSaved int64   `json:"baseline_saved_bytes"`
	StepSeconds   float64 `json:"step_seconds"`
}

// File returns the plan as a plan file.
func (p *Plan) File() ([]byte, error) {
	f := &file{Format: Format, Version: Version, Model: filepath.Base(p.Source.Path),
		StructureSHA256: p.Source.StructureSHA256, Device: p.Source.Device, Dims: p.Source.Dims,
		Inputs: p.Source.Inputs, Parameters: p.Source.Parameters, PreserveRNG: p.Random(p.Chosen),
		Modules: p.Names(p.Chosen), Nested: p.nested(), Torch: p.Tree.Torch, Calls: map[string]int{},
		usageJSON: p.usage(p.Chosen), Held: p.Program.Held, BaselinePeak: p.Baseline.Usage.Peak,
		BaselineSaved: p.Baseline.Usage.Saved,
		StepSeconds:   p.Step}
	for _, name := range f.Modules {
		f.Calls[name] = 1
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

// sourceOf describes a forward model whose gradients by wrt are made.
func sourceOf(m *memopt.Model, tree *modules.Tree, wrt []string) (Source, error) {
	src := Source{Path: m.Path, StructureSHA256: m.StructureSHA256, Device: "cpu", Dims: m.Dims,
		Inputs: []torchsim.TracedInput{}, Parameters: map[string][]int64{},
		Node: func(s *torchsim.Step) string { return m.Graph.NodeLabel(s.Node) }}
	for _, d := range m.Graph.Inputs {
		v := &m.Graph.Values[d.Value]
		if v.IsInitializer() || slices.Contains(wrt, v.Name) {
			continue
		}
		shape, err := shapeOf(m, v.Name)
		if err != nil {
			return src, err
		}
		src.Inputs = append(src.Inputs, torchsim.TracedInput{Name: v.Name, Type: v.Type.DType.String(), Shape: shape})
	}
	for _, name := range wrt {
		shape, err := shapeOf(m, name)
		if err != nil {
			return src, err
		}
		src.Parameters[inProgram(tree, name)] = shape
	}
	return src, nil
}

// inProgram is a parameter's name in the program: without the attribute that holds the model.
func inProgram(tree *modules.Tree, name string) string {
	if tree.Root == "" {
		return name
	}
	return strings.TrimPrefix(name, tree.Root+".")
}

// shapeOf evaluates a value's dims.
func shapeOf(m *memopt.Model, name string) ([]int64, error) {
	v, _ := m.Graph.Lookup(name)
	out := []int64{}
	for _, d := range m.Graph.Values[v].Type.Shape.Dims {
		n, err := d.Eval(m.Dims)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}
