package op

import (
	"fmt"

	"memopt/graph"
)

// table is the operator table, indexed by kind. Row 0 stands for every operator
// that memopt does not know: its outputs are unknown and it is never recomputed.
var table [NumKinds]Info

type opKey struct{ domain, name string }

var byName = make(kinds, NumKinds)

// kinds are the rows by domain and name.
type kinds map[opKey]graph.Kind

// of is the kind of an operator, or Unknown.
func (k kinds) of(key opKey) graph.Kind {
	if kind, ok := byDomain[key.domain]; ok {
		return kind
	}
	return k[key]
}

// byDomain has the rows of domains in which nodes may have any name.
var byDomain = map[string]graph.Kind{}

// dialects lists the rows of tools' dialects by the name that they share with a definition, or have
// alone.
var dialects = map[opKey][]graph.Kind{}

// init fills the table. It is no initial value because the rules of control-flow operators infer
// bodies and so read the table.
func init() {
	table = buildTable(mathRows, shapeRows, nnRows, controlRows, microsoftRows, memoptRows, lowBitRows, rankRows,
		copyRows, xlaRows, deeployRows)
	for k := Unknown + 1; k < NumKinds; k++ {
		key := opKey{table[k].Domain, table[k].Name}
		if table[k].AnyName {
			byDomain[table[k].Domain] = k
		}
		if table[k].Dialect != "" {
			dialects[key] = append(dialects[key], k)
		} else {
			byName[key] = k
		}
	}
}

// buildTable puts the rows of all families in their places. A hole or a double
// is a fault of the program, found by the first test that runs.
func buildTable(families ...[]Info) [NumKinds]Info {
	var t [NumKinds]Info
	for _, rows := range families {
		for _, row := range rows {
			if row.Kind <= Unknown || row.Kind >= NumKinds || t[row.Kind].Name != "" {
				panic(fmt.Sprintf("op: kind %d (%s) is out of range or has two rows", row.Kind, row.Name))
			}
			t[row.Kind] = row
		}
	}
	t[Unknown].Outputs.Max, t[Unknown].Inputs.Max = -1, -1
	return t
}

// Of returns the row of a kind.
func Of(k graph.Kind) *Info { return &table[k] }

// Lookup returns the kind of an operator, or Unknown.
func Lookup(domain, name string) graph.Kind {
	return byName.of(opKey{graph.CanonicalDomain(domain), name})
}

// Bind sets the kind of every node of the model, in subgraphs and functions too. A call
// of a model-local function has kind Unknown even where an operator has the same name, unless
// the function is the operator's own definition.
func Bind(m *graph.Model) {
	local := localFunctions(m)
	bindGraph(m.Graph, local)
	for _, f := range m.Functions {
		bindGraph(f.Body, local)
	}
}

// localFunctions are the names of a model's own functions, but for those that only define operators of
// the table.
func localFunctions(m *graph.Model) map[opKey]bool {
	local := make(map[opKey]bool, len(m.Functions))
	for _, f := range m.Functions {
		if defines(f) {
			continue
		}
		local[opKey{graph.CanonicalDomain(f.Domain), f.Name}] = true
	}
	return local
}

func bindGraph(g *graph.Graph, local map[opKey]bool) {
	for _, n := range g.Nodes {
		bindNode(n, local)
		n.Subgraphs(func(_ string, sub *graph.Graph) { bindGraph(sub, local) })
	}
}

// bindNode sets the kind of a node by its name alone.
func bindNode(n *graph.Node, local map[opKey]bool) {
	key := opKey{graph.CanonicalDomain(n.Domain), n.Op}
	n.Version = 0
	setFaults(n, nil, nil)
	if n.Kind = byName.of(key); local[key] {
		n.Kind = Unknown
	}
}

// setFaults records a node's faults: see graph.Rare.
func setFaults(n *graph.Node, fault, clash error) {
	if fault != nil || clash != nil || n.Fault() != nil || n.Clash() != nil {
		n.EditRare(func(r *graph.Rare) { r.Fault, r.Clash = fault, clash })
	}
}
