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
			if n := in.otherwise(f.Body, o, have); n != nil {
				return nil,
					fmt.Errorf("function %q of domain %q uses version %d of the operator set %q, the rest of the "+
						"model version %d, and operator %s is not known to be the same in both; convert one of them",
						f.Name, f.Domain, o.Version, o.Domain, have, n.Op)
			}
		}
	}
	return opsets, nil
}

// otherwise returns the first node whose operator may mean something else in another version of its
// domain, calls left out, or nil.
func (in *inliner) otherwise(g *Graph, from Opset, to int64) (found *Node) {
	for _, n := range g.Nodes {
		if _, call := in.callee(n); !call && CanonicalDomain(n.Domain) == CanonicalDomain(from.Domain) &&
			(in.same == nil || !in.same(n, from.Version, to)) {
			return n
		}
		n.Subgraphs(func(_ string, sub *Graph) {
			if found == nil {
				found = in.otherwise(sub, from, to)
			}
		})
		if found != nil {
			return found
		}
	}
	return nil
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
