package weights

import (
	"fmt"
	"slices"
	"strings"

	"memopt/executor"
	"memopt/graph"
	"memopt/train/safetensors"
)

// How is the way that a parameter's tensor was found.
type How string

// The ways, in the order of the search.
const (
	Exact  How = "name"   // the names are equal
	Prefix How = "prefix" // they are, but for wrappers and a prefix
	Folded How = "folded" // the parameter is the tensor transposed, as the node that reads it says
)

// Match assigns a tensor to a parameter.
type Match struct {
	Parameter string
	Tensor    string
	How       How
	Transpose bool
}

// Matching assigns the tensors of a file to a model.
type Matching struct {
	Matches []Match  // in the order of the model's values
	Missing []string // parameters without a tensor
	Unused  []string // tensors without a parameter, in the order of the file
	Prefix  string   // the addition to the file's names; after "-", that to the model's
	model   *graph.Model
	file    *safetensors.File
	at      map[string]int // by parameter, its place in Matches
}

// target is a value of the model that a tensor could be for.
type target struct {
	name     string
	dtype    graph.DType
	shape    []int
	value    graph.ValueID
	required bool
}

// Find finds the tensors for the float initializers of a model, and for the parameters among its inputs,
// which need static shapes. Parameters that have no tensor are Missing; other initializers keep their
// contents. An error names a tensor that fits by name and not by shape or type, or two that fit equally.
func Find(m *graph.Model, parameters []string, f *safetensors.File) (*Matching, error) {
	targets, err := targetsOf(m, parameters)
	if err != nil {
		return nil, err
	}
	s := &search{targets: targets, entries: f.Entries(), found: slices.Repeat([]int{none}, len(targets))}
	how, prefix, err := s.byName()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path(), err)
	}
	hows := make([]How, len(targets))
	for i := range hows {
		hows[i] = how
	}
	if err := s.folded(m.Graph, prefix, hows); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path(), err)
	}
	out := &Matching{Prefix: prefix.String(), model: m, file: f, at: map[string]int{}}
	used := make([]bool, len(s.entries))
	for i, t := range targets {
		switch e := s.found[i]; {
		case e != none:
			used[e] = true
			out.at[t.name] = len(out.Matches)
			out.Matches = append(out.Matches, Match{t.name, s.entries[e].Name, hows[i], hows[i] == Folded})
		case t.required:
			out.Missing = append(out.Missing, t.name)
		}
	}
	for i, e := range s.entries {
		if !used[i] {
			out.Unused = append(out.Unused, e.Name)
		}
	}
	return out, nil
}

// targetsOf lists the values that tensors can be for, in the order of the model's values.
func targetsOf(m *graph.Model, parameters []string) ([]target, error) {
	g := m.Graph
	required := make([]bool, len(g.Values))
	for _, name := range parameters {
		v, ok := g.Lookup(name)
		if !ok {
			return nil, fmt.Errorf("%s has no parameter %q", m.Path, name)
		}
		required[v] = true
	}
	var out []target
	for i := range g.Values {
		v := &g.Values[i]
		if !required[i] && (v.Data == nil || !v.Data.DType.IsFloat()) {
			continue // integers are the model's own constants: shapes, axes, indices
		}
		typ := v.Type
		if v.Data != nil {
			typ = v.Data.Type()
		}
		shape, ok := static(typ)
		if !ok && required[i] {
			return nil, fmt.Errorf("%s: parameter %q has type %v; wanted a tensor of static shape", m.Path, v.Name, typ)
		}
		if ok {
			out = append(out, target{v.Name, typ.DType, shape, graph.ValueID(i), required[i]})
		}
	}
	return out, nil
}

// static returns the dims of a tensor type if all are numbers.
func static(typ graph.Type) ([]int, bool) {
	if typ.Form != graph.FormTensor || !typ.Shape.Ranked {
		return nil, false
	}
	shape := make([]int, len(typ.Shape.Dims))
	for i, d := range typ.Shape.Dims {
		n, ok := d.Const()
		if !ok || n < 0 {
			return nil, false
		}
		shape[i] = int(n)
	}
	_, ok := executor.Bytes(typ.DType, shape)
	return shape, ok
}

// none marks a missing place.
const none = -1

// search is a search for tensors.
type search struct {
	targets []target
	entries []safetensors.Entry
	found   []int // by target, its tensor, or missing
}

// byName finds tensors by name, and by name but for wrappers and a prefix if no name is equal.
func (s *search) byName() (How, prefix, error) {
	n, err := s.take(func(tensor string) string { return tensor }, func(target string) string { return target })
	if n > 0 || err != nil {
		return Exact, prefix{}, err
	}
	s.found = slices.Repeat([]int{none}, len(s.targets))
	p, err := s.choosePrefix()
	if err != nil {
		return Prefix, prefix{}, err
	}
	_, err = s.take(p.tensor, p.target)
	return Prefix, p, err
}

// take gives each target the tensor whose name is the same after both have been changed, and returns
// for how many parameters it has found one.
func (s *search) take(tensor, target func(string) string) (n int, err error) {
	byName := make(map[string]int, len(s.entries))
	for i, e := range s.entries {
		key := tensor(e.Name)
		if before, twice := byName[key]; twice {
			return 0, fmt.Errorf("tensors %q and %q are both called %q but for the prefixes of wrappers; "+
				"remove one of them",
				s.entries[before].Name, e.Name, key)
		}
		byName[key] = i
	}
	taken := make([]int, len(s.entries)) // by tensor, a target and one
	for i, t := range s.targets {
		e, ok := byName[target(t.name)]
		if !ok {
			continue
		}
		if before := taken[e]; before > 0 {
			return 0, fmt.Errorf("tensor %q could be %q and %q, which have one name but for the prefixes of wrappers",
				s.entries[e].Name, s.targets[before-1].name, t.name)
		}
		if err := fits(s.entries[e], t.dtype, t.shape); err != nil {
			if !t.required {
				continue // a constant of the model that happens to have a tensor's name
			}
			return 0, fmt.Errorf("tensor %q is parameter %q by name, but %w", s.entries[e].Name, t.name, err)
		}
		s.found[i], taken[e] = e, i+1
		if t.required {
			n++
		}
	}
	return n, nil
}

// fits reports whether a tensor can be the contents of a value.
func fits(e safetensors.Entry, d graph.DType, shape []int) error {
	if !slices.Equal(e.Shape, shape) {
		why := ""
		if len(shape) == 2 && len(e.Shape) == 2 && shape[0] == e.Shape[1] && shape[1] == e.Shape[0] {
			why = "; it is the other's transpose: transpose it where the file is made"
		}
		return fmt.Errorf("has shape %v; wanted %v%s", e.Shape, shape, why)
	}
	if e.DType != d && !widens(e.DType, d) {
		return fmt.Errorf("has type %v; wanted %v", e.DType, d)
	}
	return nil
}

// Complete returns an error that names the missing parameters, if there are any.
func (m *Matching) Complete() error {
	if len(m.Missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s has no tensor for %d of the %d parameters that are needed: %s; its tensors that fit "+
		"no parameter: %s", m.file.Path(), len(m.Missing), len(m.Missing)+len(m.Matches),
		shorten(m.Missing), shorten(m.Unused))
}

// shorten lists names as messages show them.
func shorten(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	const most = 8
	text := strings.Join(names[:min(len(names), most)], ", ")
	if n := len(names) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// Apply gives the model the contents that were found: the initializers' are read from the file when
// they are used, so the file must stay open. Parameters that are inputs stay inputs; Tensor has
// their contents.
func (m *Matching) Apply() {
	for _, match := range m.Matches {
		v, _ := m.model.Graph.Lookup(match.Parameter)
		if old := m.model.Graph.Values[v].Data; old != nil {
			m.model.Graph.Values[v].Data = &graph.TensorData{Name: old.Name, DType: old.DType, Dims: old.Dims,
				Doc: old.Doc, Source: contents{m, match.Parameter}}
		}
	}
}
