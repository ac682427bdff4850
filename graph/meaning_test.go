package graph_test

import (
	"fmt"
	"hash/fnv"
	"strings"

	"memopt/graph"
)

// meaning says from what every output of a model is computed, as one term per output:
// an operator with its attributes, applied to terms. It evaluates calls of functions
// instead of expanding them, so it is an oracle for inlining. Terms are hashes; an
// Identity means what its input means.
func meaning(m *graph.Model) string {
	e := &evaluator{m}
	env := map[string]string{}
	for _, d := range m.Graph.Inputs {
		env[m.Graph.ValueName(d.Value)] = "input " + m.Graph.ValueName(d.Value)
	}
	return strings.Join(e.graph(m.Graph, env, nil), "\n")
}

type evaluator struct{ m *graph.Model }

// args are the attributes of the call that is evaluated. A graph among them is a
// closure: it means what it meant where the call stands.
type args map[string]arg

type arg struct {
	value any
	env   map[string]string
	outer args
}

func hash(parts ...any) string {
	h := fnv.New128a()
	for _, p := range parts {
		fmt.Fprintf(h, "%q;", fmt.Sprint(p))
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// graph returns the terms of a graph's outputs. env has the terms of its inputs and of
// the values of enclosing graphs.
func (e *evaluator) graph(g *graph.Graph, env map[string]string, call args) []string {
	for _, id := range g.Initializers {
		raw, _ := g.Values[id].Data.Source.Bytes()
		env[g.ValueName(id)] = hash("initializer", g.Values[id].Data.DType, g.Values[id].Data.Dims, raw)
	}
	order, err := graph.Topological(g)
	if err != nil {
		panic(err)
	}
	for _, id := range order {
		e.node(g, g.Nodes[id], env, call)
	}
	var out []string
	for _, d := range g.Outputs {
		out = append(out, env[g.ValueName(d.Value)])
	}
	return out
}

func (e *evaluator) node(g *graph.Graph, n *graph.Node, env map[string]string, call args) {
	own := args{}
	for _, a := range n.Attrs {
		if a.Ref == "" {
			own[a.Name] = arg{a.Value, env, call}
		} else if given, ok := call[a.Ref]; ok {
			own[a.Name] = given
		}
	}
	var in []string
	for _, v := range n.Inputs {
		in = append(in, env[g.ValueName(v)])
	}
	for len(in) > 0 && in[len(in)-1] == "" {
		in = in[:len(in)-1]
	}
	terms := e.apply(n, in, own)
	for i, v := range n.Outputs {
		if v != graph.NoValue {
			env[g.ValueName(v)] = terms(i)
		}
	}
}

// apply returns the terms of a node's outputs.
func (e *evaluator) apply(n *graph.Node, in []string, own args) func(int) string {
	for _, f := range e.m.Functions {
		if f.Name == n.Op && f.Overload == n.Rare().Overload &&
			graph.CanonicalDomain(f.Domain) == graph.CanonicalDomain(n.Domain) {
			return e.call(f, in, own)
		}
	}
	if n.Op == "Identity" && n.Domain == "" {
		return func(int) string { return in[0] }
	}
	attrs := ""
	for _, a := range n.Attrs {
		if given, ok := own[a.Name]; ok {
			attrs += a.Name + "=" + e.value(given) + ";"
		}
	}
	self := hash(graph.CanonicalDomain(n.Domain), n.Op, n.Rare().Overload, attrs, strings.Join(in, ","))
	return func(i int) string { return hash(self, i) }
}

func (e *evaluator) value(a arg) string {
	switch v := a.value.(type) {
	case *graph.Graph:
		return e.subgraph(v, a)
	case []*graph.Graph:
		text := ""
		for _, g := range v {
			text += e.subgraph(g, a)
		}
		return text
	}
	return fmt.Sprint(a.value)
}

// subgraph gives the inputs of a subgraph terms of their own.
func (e *evaluator) subgraph(g *graph.Graph, a arg) string {
	env := map[string]string{}
	for k, v := range a.env {
		env[k] = v
	}
	for i, d := range g.Inputs {
		env[g.ValueName(d.Value)] = fmt.Sprintf("input %d of a subgraph", i)
	}
	return hash("graph", strings.Join(e.graph(g, env, a.outer), ","))
}

func (e *evaluator) call(f *graph.Function, in []string, own args) func(int) string {
	for _, a := range f.AttrDefaults {
		if _, ok := own[a.Name]; !ok {
			own[a.Name] = arg{value: a.Value}
		}
	}
	env := map[string]string{}
	for i, v := range f.Inputs {
		if i < len(in) {
			env[f.Body.ValueName(v)] = in[i]
		}
	}
	e.graph(f.Body, env, own)
	return func(i int) string { return env[f.Body.ValueName(f.Outputs[i])] }
}
