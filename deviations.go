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
	m.Types.Walk(m.Graph, func(g *graph.Graph, r *op.Result) {
		for _, c := range r.Conflicts {
			stands := "the file's type is used"
			if c.Refuted() {
				stands = "the operator's type is used, and run and verify refuse the node"
			}
			say(fmt.Sprintf("value %q: the file says %v, inference says %v; %s",
				g.Values[c.Value].Name, c.Declared, c.Inferred, stands))
		}
	})
}

// deviations lists what deviates, in the order of the file.
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
