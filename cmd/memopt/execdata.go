package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"memopt/executor"
	"memopt/executor/dataset"
	"memopt/executor/verify"
	"memopt/graph"
	"memopt/graph/op"
	"memopt/symbolic"
)

// loadData reads the inputs and binds the dims that they have.
func (x *execution) loadData(a *app, dir string) error {
	if dir == "" {
		return nil
	}
	g := x.l.Graph
	var err error
	if strings.HasSuffix(dir, ".npz") {
		x.set, err = loadNPZ(dir, g)
	} else if hasArrays(dir) {
		x.set, err = loadArrays(dir, g)
	} else {
		x.set, err = dataset.LoadDir(dir, g, yielded(g))
	}
	if err != nil {
		return fileError("--data-dir %s: %w", dir, err)
	}
	for _, file := range x.set.Files {
		if err := a.reads("--data-dir", file); err != nil {
			return err
		}
	}
	values := make([]*executor.Tensor, len(g.Values))
	for name, t := range x.set.Inputs {
		x.inputs[name] = t
		if id, ok := g.Lookup(name); ok {
			values[id] = t
		}
	}
	if x.l.Dims, err = executor.BindDims(g, values, x.l.Dims); err != nil {
		return usage("--data-dir %s: %w", dir, err)
	}
	return nil
}

// yielded lists the gradients that a boundary node hands out.
func yielded(g *graph.Graph) []string {
	var names []string
	for _, n := range g.Nodes {
		if !op.Of(n.Kind).Has(op.Yield) {
			continue
		}
		for _, v := range n.Outputs {
			if v != graph.NoValue {
				names = append(names, g.Values[v].Name)
			}
		}
	}
	return names
}

// fill makes up the inputs that have no data.
func (x *execution) fill(ex *execFlags, seed int64, device executor.Device) error {
	if virtual(device) {
		return nil
	}
	g := x.l.Graph
	start, random, err := parseInit(ex.init)
	if err != nil {
		return err
	}
	if err := x.bound(); err != nil {
		return err
	}
	filler := dataset.NewFiller(g, x.l.Dims, uint64(start+seed))
	var made []graph.ValueID
	for _, d := range g.Inputs {
		v := &g.Values[d.Value]
		if v.Data != nil || x.set != nil && x.set.Inputs[v.Name] != nil {
			continue
		}
		if !random {
			return usage("%s: input %q (%v) has no data: give a folder of input_N.pb with --data-dir, or make it up with --init random:1", x.l.Path, v.Name, v.Type)
		}
		made = append(made, d.Value)
		delete(x.inputs, v.Name) // of the set of inputs before
	}
	err = filler.Check(made)
	for i := 0; i < len(made) && err == nil; i++ {
		x.inputs[g.Values[made[i]].Name], err = filler.Fill(made[i])
	}
	if err != nil {
		return fileError("%s: %w", x.l.Path, err)
	}
	return nil
}

// bound makes sure that every symbol of the inputs has a value.
func (x *execution) bound() error {
	var unbound []string
	for _, d := range x.l.Graph.Inputs {
		for _, dim := range d.Type.Shape.Dims {
			for _, s := range dim.Symbols() {
				if _, ok := x.l.Dims[s]; !ok && !slices.Contains(unbound, s) {
					unbound = append(unbound, s)
				}
			}
		}
	}
	if len(unbound) == 0 {
		return nil
	}
	slices.Sort(unbound)
	return &exitError{exitUsage, fmt.Errorf("%s: %w", x.l.Path, &symbolic.UnboundError{Symbols: unbound})}
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
	var err error
	if strings.HasSuffix(e.saveOutputs, ".npz") {
		err = saveNPZ(e.saveOutputs, r)
	} else {
		var named []dataset.Named
		for _, o := range r.Outputs {
			named = append(named, dataset.Named{Name: o.Name, Tensor: o.Tensor})
		}
		err = dataset.WriteDir(e.saveOutputs, named, &a.files)
	}
	if err != nil {
		return usage("--save-outputs %s: %w", filepath.Clean(e.saveOutputs), err)
	}
	return nil
}

// expected lists the outputs that the data set expects.
func (x *execution) expected() []verify.Output {
	if x.set == nil {
		return nil
	}
	var want []verify.Output
	for i, d := range x.l.Graph.Outputs {
		if t, ok := x.set.Outputs[i]; ok {
			want = append(want, verify.Output{Name: x.l.Graph.Values[d.Value].Name, Tensor: t.Tensor})
		}
	}
	return want
}
