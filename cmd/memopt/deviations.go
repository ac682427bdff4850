package main

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// deviating is what the nodes of one operator have in common that are read in one way.
type deviating struct {
	first op.Deviation
	name  string // of the operator
	count int
}

// warnDeviations says of which nodes the operators' definitions are not what the file means, once
// for every operator and way to read it.
func (a *app) warnDeviations(l *loaded) {
	type key struct{ domain, name, read string }
	kinds := map[key]*deviating{}
	var list []*deviating
	l.types.Walk(l.Graph, func(g *graph.Graph, r *op.Result) {
		for _, d := range r.Deviations {
			n := g.Nodes[d.Node]
			k := key{n.Domain, n.Op, d.Read}
			if kinds[k] == nil {
				kinds[k] = &deviating{first: d, name: n.Op}
				list = append(list, kinds[k])
			}
			kinds[k].count++
		}
	})
	for _, d := range list {
		a.warn("%s", d.text())
	}
}

func (d *deviating) text() string {
	also := ""
	if d.count > 1 {
		also = fmt.Sprintf(" (and %d more)", d.count-1)
	}
	if !d.first.Opaque() {
		return fmt.Sprintf("%v%s; read as %s", d.first.Why, also, d.first.Read)
	}
	return fmt.Sprintf("%v%s; planned as an opaque node, with the types that the file states: never recomputed, and refused by run and verify", d.first.Why, also)
}
