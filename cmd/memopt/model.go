package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"sort"
	"strconv"
	"strings"

	"memopt/graph"
	"memopt/graph/examples"
	"memopt/graph/onnx"
	"memopt/graph/op"
	"memopt/symbolic"
)

// loaded is a model that is ready for analysis.
type loaded struct {
	*graph.Model
	types *op.Result
	dims  symbolic.Env
	sha   string
	close func() error
}

// examplePrefix marks the names of built-in models.
const examplePrefix = "example:"

// load reads a model, inlines its functions and infers its types.
func (a *app) load(name string) (*loaded, error) {
	l := &loaded{close: func() error { return nil }}
	defaults, err := a.open(l, name)
	if err != nil {
		return nil, err
	}
	if l.dims, err = parseDims(a.global.dims, defaults); err != nil {
		return nil, err
	}
	l.sha = onnx.StructureSHA256(l.Model)
	if err := graph.RunPasses(l.Model, passes(l)...); err != nil {
		return nil, invalid(fmt.Errorf("%s: %w", name, err))
	}
	l.types.Walk(l.Graph, func(g *graph.Graph, r *op.Result) {
		for _, c := range r.Conflicts {
			a.warn("value %q: the file says %v, inference says %v; the file's word is taken", g.Values[c.Value].Name, c.Declared, c.Inferred)
		}
	})
	return l, a.checkDims(l)
}

// passes is the list of edits before analysis, in order.
func passes(l *loaded) []graph.Pass {
	return []graph.Pass{
		{Name: "inline", Doc: "calls of model-local functions become their bodies: analyses see operators only", Run: graph.InlineFunctions},
		{Name: "infer", Doc: "types of all values; needs operators in place of calls", Run: func(m *graph.Model) (bool, error) {
			var err error
			l.types, err = op.Infer(m)
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
		var c io.Closer
		if l.Model, c, err = onnx.Open(name); err == nil {
			l.close = c.Close
		}
	}
	if err != nil {
		var format *onnx.FormatError
		if errors.As(err, &format) {
			return nil, invalid(err)
		}
		return nil, usage("%w", err)
	}
	return nil, nil
}

// parseDims reads --dim flags over the given defaults.
func parseDims(flags []string, defaults map[string]int64) (symbolic.Env, error) {
	env := symbolic.Env(maps.Clone(defaults))
	if env == nil {
		env = symbolic.Env{}
	}
	for _, flag := range flags {
		for part := range strings.SplitSeq(flag, ",") {
			at := strings.LastIndexByte(part, '=')
			if at <= 0 {
				return nil, usage("--dim %q: wanted NAME=VALUE, for example batch=8", part)
			}
			n, err := strconv.ParseInt(strings.TrimSpace(part[at+1:]), 10, 64)
			if err != nil || n < 0 {
				return nil, usage("--dim %q: the value must be an integer of at least 0", part)
			}
			env[strings.TrimSpace(part[:at])] = n
		}
	}
	return env, nil
}

// checkDims warns about bindings of symbols that the model does not have.
func (a *app) checkDims(l *loaded) error {
	symbols := modelSymbols(l.Graph)
	names := make([]string, 0, len(l.dims))
	for name := range l.dims {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if i := sort.SearchStrings(symbols, name); i == len(symbols) || symbols[i] != name {
			a.warn("--dim %s: the model has no such symbol; it has %s", name, strings.Join(symbols, ", "))
		}
	}
	return nil
}

// modelSymbols lists the symbols in the types of a graph, sorted.
func modelSymbols(g *graph.Graph) []string {
	seen := map[string]bool{}
	for i := range g.Values {
		for _, d := range g.Values[i].Type.Shape.Dims {
			if _, ok := d.Const(); ok {
				continue
			}
			for _, s := range d.Symbols() {
				seen[s] = true
			}
		}
	}
	out := make([]string, 0, len(seen))
	for s := range seen {
		out = append(out, s)
	}
	sort.Strings(out)
	return out
}
