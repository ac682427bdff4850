package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/symbolic"
)

func (in *Inspection) table(groups []*group) *Table {
	title := map[string]string{"op": "Operator", "node": "Node", "layer": "Layer", "category": "Category"}[in.By]
	t := &Table{Header: []string{title, "Nodes", "Values", "Bytes made", "Stashed bytes", "Bytes made, formula"},
		Right: []bool{false, true, true, true, true}, Fit: []Fit{Cut, Whole, Whole, Wrap, Wrap, Wrap}}
	for _, gr := range groups {
		name := gr.name
		if gr.unknown > 0 {
			name += fmt.Sprintf(" (%d values of unknown size)", gr.unknown)
		}
		t.Add(name, fmt.Sprint(gr.nodes), fmt.Sprint(gr.values), in.number(gr.bytes), in.number(gr.stashed),
			gr.bytes.String())
	}
	return t
}

// number prints an expression's value, or "-" if a symbol is unbound.
func (in *Inspection) number(e symbolic.Expr) string {
	n, err := e.Eval(in.Dims)
	if err != nil {
		return "-"
	}
	return Thousands(n)
}

func (in *Inspection) evaluated(e symbolic.Expr) *int64 {
	n, err := e.Eval(in.Dims)
	if err != nil {
		return nil
	}
	return &n
}

// head prints what the file is, above the table of groups.
func (in *Inspection) head(w io.Writer, stashed []live.Stash) error {
	g, m := in.Model.Graph, in.Model
	var b strings.Builder
	producer := strings.TrimSpace(m.ProducerName + " " + m.ProducerVersion)
	line(&b, "Model     %s: graph %q, %d nodes, %d values, %d functions", m.Path, g.Name, len(g.Nodes), len(g.Values),
		len(m.Functions))
	line(&b, "Opsets    %s; IR version %d; made by %s", in.opsetText(), m.IRVersion, cmp.Or(producer, "(not said)"))
	line(&b, "Symbols   %s", cmp.Or(strings.Join(in.symbolText(), ", "), "none"))
	for i, d := range g.Inputs {
		if i == 8 {
			line(&b, "Input     … and %d more", len(g.Inputs)-i)
			break
		}
		line(&b, "Input     %s %v", g.Values[d.Value].Name, g.Values[d.Value].Type)
	}
	for i, d := range g.Outputs {
		if i == 8 {
			line(&b, "Output    … and %d more", len(g.Outputs)-i)
			break
		}
		line(&b, "Output    %s %v", g.Values[d.Value].Name, g.Values[d.Value].Type)
	}
	if in.Boundary != nil {
		total := stashedBytes(g, stashed)
		line(&b, "Boundary  node %s (%s); %d stashed activations: %s bytes = %s", g.NodeLabel(in.Boundary.Node),
			in.Boundary.Kind, len(stashed), in.number(total), total)
	} else {
		b.WriteString("Boundary  none: this graph has no backward half\n")
	}
	if n := len(in.States); n > 0 {
		line(&b, "States    %d inputs with a next value among the outputs: %s bytes; %s is followed by %s",
			n, in.number(in.stateBytes()), g.ValueName(in.States[0].In), g.ValueName(in.States[0].Out))
	}
	if len(in.Types.NoRow) > 0 {
		line(&b, "Unknown   %d nodes of operators without a row in the op table: %s",
			len(in.Types.NoRow), strings.Join(in.unknownOps(), ", "))
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// stateBytes adds up the inputs of states.
func (in *Inspection) stateBytes() symbolic.Expr {
	total := symbolic.Const(0)
	for _, s := range in.States {
		total = total.Add(in.Model.Graph.Values[s.In].Type.Bytes())
	}
	return total
}

func stashedBytes(g *graph.Graph, stashed []live.Stash) symbolic.Expr {
	total := symbolic.Const(0)
	for _, s := range stashed {
		if e := g.Values[s.Value].Type.Bytes(); e.IsKnown() {
			total = total.Add(e)
		}
	}
	return total
}

func (in *Inspection) opsetText() string {
	var parts []string
	for _, o := range in.Model.Opsets {
		parts = append(parts, fmt.Sprintf("%s %d", cmp.Or(graph.CanonicalDomain(o.Domain), "ai.onnx"), o.Version))
	}
	return strings.Join(parts, ", ")
}

// symbols lists the symbols of all types, sorted.
func (in *Inspection) symbols() []string {
	seen := map[string]bool{}
	g := in.Model.Graph
	for i := range g.Values {
		for _, d := range g.Values[i].Type.Shape.Dims {
			d.VisitSymbols(func(s string) { seen[s] = true })
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func (in *Inspection) symbolText() []string {
	var out []string
	for _, s := range in.symbols() {
		if n, ok := in.Dims[s]; ok {
			s = fmt.Sprintf("%s=%d", s, n)
		}
		out = append(out, s)
	}
	return out
}

func (in *Inspection) unknownOps() []string {
	seen := map[string]bool{}
	for _, id := range in.Types.NoRow {
		n := in.Model.Graph.Nodes[id]
		seen[cmp.Or(n.Domain, "ai.onnx")+"."+n.Op] = true
	}
	return slices.Sorted(maps.Keys(seen))
}
