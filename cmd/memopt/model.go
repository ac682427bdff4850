package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/internal/memlimit"
	"memopt/symbolic"
)

// loaded is a model that is ready for analysis.
type loaded struct {
	*graph.Model
	types *op.Result
	dims  symbolic.Env
	sha   string
	// declared lists the symbols of the file's own types, some of which inference replaces by what
	// they stand for.
	declared []string
	close    func() error
}

// examplePrefix marks the names of built-in models.
const examplePrefix = "example:"

// load reads a model as read does, and wants it to have the symbols that --dim binds.
func (a *app) load(name string) (*loaded, error) {
	l, err := a.read(name)
	if err != nil {
		return nil, err
	}
	if err := a.checkDims(l); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// read reads a model, inlines its functions and infers its types.
func (a *app) read(name string) (*loaded, error) {
	l := &loaded{close: func() error { return nil }}
	defaults, err := a.open(l, name)
	if err != nil {
		return nil, err
	}
	if l.dims, err = parseDims(a.global.dims, defaults); err != nil {
		return nil, err
	}
	a.spareMemory(l.Graph)
	l.sha, l.declared = onnx.StructureSHA256(l.Model), modelSymbols(l.Graph)
	if err := graph.RunPasses(l.Model, a.passes(l)...); err != nil {
		return nil, invalid(fmt.Errorf("%s: %w", name, err))
	}
	a.warnDeviations(l)
	l.types.Walk(l.Graph, func(g *graph.Graph, r *op.Result) {
		for _, c := range r.Conflicts {
			stands := "the file's word is taken"
			if c.Refuted() {
				stands = "the operator's word is taken, and run and verify refuse the node"
			}
			a.warn("value %q: the file says %v, inference says %v; %s", g.Values[c.Value].Name, c.Declared, c.Inferred, stands)
		}
	})
	return l, nil
}

// A graph of largeGraph nodes or more takes gigabytes to plan. There the garbage collector runs
// more often, for a fifth of the time more or less: the heap grows by largeGraphGC percent over
// what is in use before it does, in place of as much again.
const (
	largeGraph   = 250_000
	largeGraphGC = 40
)

// spareMemory trades time for memory where a graph is large, unless the user has settled that by
// GOGC.
func (a *app) spareMemory(g *graph.Graph) {
	if _, set := a.env("GOGC"); !set && len(g.Nodes) >= largeGraph {
		debug.SetGCPercent(largeGraphGC)
	}
}

// passes is the list of edits before analysis, in order.
func (a *app) passes(l *loaded) []graph.Pass {
	return []graph.Pass{
		{Name: "inline", Doc: "calls of model-local functions become their bodies: analyses see operators only", Run: graph.InlineFunctions},
		{Name: "fold", Doc: "an If that always takes one branch becomes that branch; the other one may contradict the shapes", Run: op.FoldConditions},
		{Name: "infer", Doc: "types of all values; needs operators in place of calls", Run: func(m *graph.Model) (bool, error) {
			infer := op.InferAsIs
			if a.global.strict {
				infer = op.Infer
			}
			var err error
			l.types, err = infer(m)
			return false, err
		}},
	}
}

// exampleNames lists the built-in models.
func exampleNames() []string {
	var names []string
	for _, ex := range examples.All() {
		names = append(names, examplePrefix+ex.Name)
	}
	return names
}

// open finds the model that a name means and returns its default bindings.
func (a *app) open(l *loaded, name string) (map[string]int64, error) {
	var err error
	switch {
	case strings.HasPrefix(name, examplePrefix):
		ex, ok := examples.Lookup(strings.TrimPrefix(name, examplePrefix))
		if !ok {
			return nil, usage("%s: there is no such example%s; memopt examples lists them", name, suggest(name, exampleNames()))
		}
		if l.Model, err = ex.Build(); err != nil {
			return nil, &exitError{exitInternal, fmt.Errorf("%s: %w", name, err)}
		}
		l.Model.Path = name
		return ex.Dims, nil
	case name == "-":
		l.Model, err = onnx.Read(a.in, "standard input")
	default:
		var opened *onnx.Opened
		if l.Model, opened, err = onnx.Open(name); err != nil {
			break
		}
		l.close = opened.Close
		for _, file := range opened.External() {
			if err := a.reads("external data", file); err != nil {
				opened.Close()
				return nil, err
			}
		}
	}
	if err != nil {
		var format *onnx.FormatError
		if errors.As(err, &format) && !errors.Is(err, memlimit.ErrOutOfMemory) {
			return nil, invalid(err)
		}
		return nil, fileError("%w", err)
	}
	return nil, nil
}
