package memopt

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/op"
)

// deviating describes the nodes of one operator whose definition is read in the same way.
type deviating struct {
	first op.Deviation
	count int
}

// warn reports nodes that deviate from their operators' definitions, once for each operator and way
// of reading it, and values whose type the file states wrongly.
func (m *Model) warn(say func(text string)) {
	for _, d := range m.deviations() {
		say(d.text())
	}
	m.warnTypes(say)
}

// warnTypes reports values whose type the file states wrongly: one line for elements, and one for
// shapes, each with the first such value.
func (m *Model) warnTypes(say func(text string)) {
	var first [2]string
	var count [2]int
	m.Types.Walk(m.Graph, func(g *graph.Graph, r *op.Result) {
		for _, c := range r.Conflicts {
			kind := 0
			if c.Refuted() {
				kind = 1
			}
			if count[kind]++; count[kind] == 1 {
				first[kind] = fmt.Sprintf("value %q is %v in the file, and %v by the operators that lead to it",
					g.Values[c.Value].Name, c.Declared, c.Inferred)
			}
		}
	})
	for kind, stands := range []string{"the file's shape is not used",
		"the file's type is not used, and run and verify refuse the node"} {
		also := ""
		if count[kind] > 1 {
			also = fmt.Sprintf(" (and %d more values)", count[kind]-1)
		}
		if count[kind] > 0 {
			say(first[kind] + also + ": " + stands)
		}
	}
}

// deviations lists the deviations, in the order of the file.
func (m *Model) deviations() []*deviating {
	type key struct{ domain, name, read string }
	kinds := map[key]*deviating{}
	var list []*deviating
	m.Types.Walk(m.Graph, func(g *graph.Graph, r *op.Result) {
		for _, d := range r.Deviations {
			n := g.Nodes[d.Node]
			k := key{n.Domain, n.Op, d.Read}
			if kinds[k] == nil {
				kinds[k] = &deviating{first: d}
				list = append(list, kinds[k])
			}
			kinds[k].count++
		}
	})
	return list
}

func (d *deviating) text() string {
	also := ""
	if d.count > 1 {
		also = fmt.Sprintf(" (and %d more)", d.count-1)
	}
	if !d.first.Opaque() {
		return fmt.Sprintf("%v%s; read as %s", d.first.Why, also, d.first.Read)
	}
	return fmt.Sprintf("%v%s; planned as an opaque node, with the types that the file states: "+
		"never recomputed, and refused by run and verify", d.first.Why, also)
}
