package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"memopt/executor"
	"memopt/executor/npz"
	"memopt/graph"
)

// The files of a folder of arrays, as Deeploy's tests have them beside their network.onnx.
const (
	arraysIn  = "inputs.npz"
	arraysOut = "outputs.npz"
)

// hasArrays reports whether a folder of data holds arrays instead of ONNX's test data.
func hasArrays(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, arraysIn))
	return err == nil
}

// loadArrays reads the inputs of a folder, and the outputs to expect where it has them.
func loadArrays(dir string, g *graph.Graph) (*Set, error) {
	s := &Set{Dir: dir, Inputs: map[string]*executor.Tensor{}, Outputs: map[int]Named{}}
	in, err := npz.Read(filepath.Join(dir, arraysIn))
	if err != nil {
		return nil, err
	}
	s.Files = append(s.Files, filepath.Join(dir, arraysIn))
	if err := nameArrays(in, arraysIn, g, graphInputs(g)); err != nil {
		return nil, err
	}
	for _, a := range in {
		if err := enter(s, g, a); err != nil {
			return nil, fmt.Errorf("%s: %w", arraysIn, err)
		}
	}
	out, err := npz.Read(filepath.Join(dir, arraysOut))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	s.Files = append(s.Files, filepath.Join(dir, arraysOut))
	var names []string
	for _, d := range g.Outputs {
		names = append(names, g.Values[d.Value].Name)
	}
	if err := nameArrays(out, arraysOut, g, names); err != nil {
		return nil, err
	}
	for _, a := range out {
		i := slices.Index(names, npz.ValueName(a.Name))
		if i < 0 {
			i = slices.Index(names, a.Name)
		}
		if i < 0 {
			return nil, fmt.Errorf("%s: array %q: the model has no output of that name", arraysOut, a.Name)
		}
		t, err := fromArray(a.Tensor, g.Values[g.Outputs[i].Value].Type.DType)
		if err != nil {
			return nil, fmt.Errorf("%s: array %q: %w", arraysOut, a.Name, err)
		}
		s.Outputs[i] = Named{Name: names[i], Tensor: t}
	}
	return s, nil
}

// graphInputs lists the inputs that need data.
func graphInputs(g *graph.Graph) []string {
	var names []string
	for _, d := range g.Inputs {
		if v := &g.Values[d.Value]; v.Data == nil {
			names = append(names, v.Name)
		}
	}
	return names
}

// nameArrays gives arrays that numpy has numbered (arr_0, arr_1 …) the names of the values, by
// their order. Arrays with names keep them.
func nameArrays(arrays []npz.Array, file string, g *graph.Graph, names []string) error {
	place := make(map[string]int, len(arrays))
	for _, a := range arrays {
		digits, ok := strings.CutPrefix(a.Name, "arr_")
		n, err := strconv.Atoi(digits)
		if _, known := g.Lookup(a.Name); !ok || err != nil || known {
			return nil
		}
		place[a.Name] = n
	}
	if len(arrays) != len(names) {
		return fmt.Errorf("%s: has %d numbered arrays, the model wants %d: %s", file, len(arrays), len(names),
			strings.Join(names, ", "))
	}
	slices.SortFunc(arrays, func(a, b npz.Array) int { return cmp.Compare(place[a.Name], place[b.Name]) })
	for i := range arrays {
		arrays[i].Name = names[i]
	}
	return nil
}

// loadNPZ reads inputs, and outputs to expect, from one file of arrays that are named after them.
func loadNPZ(path string, g *graph.Graph) (*Set, error) {
	arrays, err := npz.Read(path)
	if err != nil {
		return nil, err
	}
	if err := nameArrays(arrays, filepath.Base(path), g, graphInputs(g)); err != nil {
		return nil, err
	}
	s := &Set{Dir: path, Files: []string{path}, Inputs: map[string]*executor.Tensor{}, Outputs: map[int]Named{}}
	for _, a := range arrays {
		if err := enter(s, g, a); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// enter adds an array to a data set. Its name is the value's as a Writer writes it, else as it
// stands.
func enter(s *Set, g *graph.Graph, a npz.Array) error {
	name := npz.ValueName(a.Name)
	id, ok := g.Lookup(name)
	if !ok {
		name = a.Name
		id, ok = g.Lookup(name)
	}
	if !ok {
		return fmt.Errorf("array %q: the model has no value of that name", name)
	}
	t, err := fromArray(a.Tensor, g.Values[id].Type.DType)
	if err != nil {
		return fmt.Errorf("array %q: %w", name, err)
	}
	out := slices.IndexFunc(g.Outputs, func(d graph.Decl) bool { return d.Value == id })
	if out >= 0 && !g.Values[id].Input {
		if _, twice := s.Outputs[out]; twice {
			return fmt.Errorf("two arrays are the output %q", name)
		}
		s.Outputs[out] = Named{Name: name, Tensor: t}
		return nil
	}
	if s.Inputs[name] != nil {
		return fmt.Errorf("two arrays are the input %q", name)
	}
	s.Inputs[name] = t
	return nil
}

// writeNPZ writes tensors as arrays named after them.
func writeNPZ(path string, tensors []Named) (err error) {
	w, err := npz.Create(path)
	if err != nil {
		return err
	}
	for _, o := range tensors {
		if err = w.Add(o.Name, toArray(o.Tensor)); err != nil {
			break
		}
	}
	if e := w.Close(); err == nil {
		err = e
	}
	return err
}
