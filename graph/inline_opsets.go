package graph

import (
	"fmt"
	"slices"
)

// mergedOpsets returns the model's operator sets with those that the bodies of
// called functions use.
func (in *inliner) mergedOpsets() ([]Opset, error) {
	opsets := slices.Clone(in.m.Opsets)
	seen := make([]bool, len(in.m.Functions))
	var err error
	var visit func(i int)
	visit = func(i int) {
		if seen[i] || err != nil {
			return
		}
		seen[i] = true
		f := in.m.Functions[i]
		if opsets, err = in.mergeOpsets(opsets, f); err == nil {
			callees(f.Body, in.byKey, visit)
		}
	}
	callees(in.m.Graph, in.byKey, visit)
	return opsets, err
}

func (in *inliner) mergeOpsets(opsets []Opset, f *Function) ([]Opset, error) {
	used := map[string]bool{}
	in.usedDomains(f.Body, used)
	for _, o := range f.Opsets {
		if !used[CanonicalDomain(o.Domain)] {
			continue
		}
		switch have := OpsetVersion(opsets, o.Domain); have {
		case o.Version:
		case 0:
			opsets = append(opsets, Opset{Domain: o.Domain, Version: o.Version})
		default:
			return nil,
				fmt.Errorf("function %q of domain %q uses version %d of the operator set %q, the rest of the model "+
					"version %d; convert one of them",
					f.Name, f.Domain, o.Version, o.Domain, have)
		}
	}
	return opsets, nil
}

// usedDomains finds the domains of the operators, calls left out, in a graph.
func (in *inliner) usedDomains(g *Graph, used map[string]bool) {
	for _, n := range g.Nodes {
		if _, call := in.callee(n); !call {
			used[CanonicalDomain(n.Domain)] = true
		}
		n.Subgraphs(func(_ string, sub *Graph) { in.usedDomains(sub, used) })
	}
}
