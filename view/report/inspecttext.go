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

var groupTitles = map[string]string{"op": "Operator", "node": "Node", "layer": "Layer", "category": "Category"}

// table has sizes in bytes and formulas, for programs.
func (in *Inspection) table(groups []*group) *Table {
	t := &Table{
		Header: []string{groupTitles[in.By], "Nodes", "Values", "Bytes made", "Stashed bytes", "Bytes made, formula"},
		Right:  []bool{false, true, true, true, true}}
	for _, gr := range groups {
		t.Add(gr.label(), fmt.Sprint(gr.nodes), fmt.Sprint(gr.values), in.number(gr.bytes), in.number(gr.stashed),
			gr.bytes.String())
	}
	return t
}

// label is the group's name, with how many sizes are left out.
func (gr *group) label() string {
	if gr.unknown == 0 {
		return gr.name
	}
	return fmt.Sprintf("%s (%d %s of unknown size)", gr.name, gr.unknown, plural(gr.unknown, "value", "values"))
}

// screenTable has sizes in one unit. Formulas are for screens without a limit, and for symbols
// without a binding.
func (in *Inspection) screenTable(groups []*group, wide bool) *Table {
	var sizes []int64
	known := true
	for _, gr := range groups {
		n, err := gr.bytes.Eval(in.Dims)
		sizes, known = append(sizes, n), known && err == nil
	}
	unit, print := SizeUnit(sizes...)
	size := func(e symbolic.Expr) string {
		n, err := e.Eval(in.Dims)
		if err != nil {
			return "-"
		}
		return print(n)
	}
	t := &Table{Header: []string{"Nodes", "Values", "Made, " + unit, "Stashed, " + unit},
		Right: []bool{true, true, true, true, false}, Fit: []Fit{Whole, Whole, Whole, Whole, Wrap, Wrap}}
	if wide {
		t.Header, t.Right = append(t.Header, "Made, bytes"), []bool{true, true, true, true, true}
	}
	formulas := wide || !known
	if formulas {
		t.Header = append(t.Header, "Made, formula")
	}
	t.Header = append(t.Header, groupTitles[in.By])
	for _, gr := range groups {
		row := []string{fmt.Sprint(gr.nodes), fmt.Sprint(gr.values), size(gr.bytes), size(gr.stashed)}
		if wide {
			row = append(row, in.number(gr.bytes))
		}
		if formulas {
			row = append(row, gr.bytes.String())
		}
		t.Add(append(row, gr.label())...)
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

// head describes the file, above the table of groups.
func (in *Inspection) head(w io.Writer, stashed []live.Stash) error {
	g, m := in.Model.Graph, in.Model
	var b strings.Builder
	line := func(label, format string, args ...any) {
		labelled(&b, columnsOf(w), label, fmt.Sprintf(format, args...))
	}
	producer := strings.TrimSpace(m.ProducerName + " " + m.ProducerVersion)
	line("Model", "%s: graph %q, %d nodes, %d values, %d functions", m.Path, g.Name, len(g.Nodes), len(g.Values),
		len(m.Functions))
	if in.Program != nil {
		in.Program.head(line)
	}
	line("Opsets", "%s; IR version %d; made by %s", in.opsetText(), m.IRVersion, cmp.Or(producer, "(not said)"))
	line("Symbols", "%s", cmp.Or(strings.Join(in.symbolText(), ", "), "none"))
	for i, d := range g.Inputs {
		if i == 8 {
			line("Input", "… and %d more", len(g.Inputs)-i)
			break
		}
		line("Input", "%s %v", g.Values[d.Value].Name, g.Values[d.Value].Type)
	}
	for i, d := range g.Outputs {
		if i == 8 {
			line("Output", "… and %d more", len(g.Outputs)-i)
			break
		}
		line("Output", "%s %v", g.Values[d.Value].Name, g.Values[d.Value].Type)
	}
	if in.Boundary != nil {
		total := stashedBytes(g, stashed)
		line("Boundary", "node %s (%s); %d stashed activations: %s bytes = %s", g.NodeLabel(in.Boundary.Node),
			in.Boundary.Kind, len(stashed), in.number(total), total)
	} else {
		line("Boundary", "this graph has no backward half")
	}
	if n := len(in.States); n > 0 {
		line("States", "%d inputs with a next value among the outputs: %s bytes; %s is followed by %s",
			n, in.number(in.stateBytes()), g.ValueName(in.States[0].In), g.ValueName(in.States[0].Out))
	}
	if len(in.Types.NoRow) > 0 {
		line("Unknown", "%d nodes of operators without a row in the op table: %s",
			len(in.Types.NoRow), strings.Join(in.unknownOps(), ", "))
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// head describes a compiled program and its memory.
func (p *Program) head(line func(label, format string, args ...any)) {
	order := "in the order of its schedule"
	if !p.Scheduled {
		order = "not scheduled: the compiler may choose another order than the file's, which counts here"
	}
	shared := ""
	k := &p.Peak
	switch {
	case p.Whole && k.Part != nil:
		shared = fmt.Sprintf("; not partitioned: sizes are those of all %d devices together, and arguments take %s of "+
			"each", p.Partitions, Bytes(*k.Part))
	case p.Partitions > 1:
		shared = fmt.Sprintf("; sizes are those of one of %d partitions", p.Partitions)
	}
	if !p.Marked {
		shared += "; no name says which steps are backward, so that the fullest one begins the second half"
	}
	line("Program", "%d instructions in %d computations, %s%s", p.Instructions, p.Computations, order, shared)
	host := ""
	if k.Host > 0 {
		host = fmt.Sprintf("; and %s of the host", Bytes(k.Host))
	}
	line("Peak", "%s: arguments %s (%s of them donated to results), other results %s, temporaries %s at %s%s",
		Bytes(k.Live), Bytes(k.Arguments), Bytes(k.Donated), Bytes(k.Results), Bytes(k.Temporary), k.Step, host)
}

// labelled writes a text behind its label, broken into lines that a screen is wide enough for.
func labelled(b *strings.Builder, screen int, label, text string) {
	const indent = 10
	if screen > 0 {
		screen = max(screen-indent, indent)
	}
	for _, part := range broken(Plain(text), screen) {
		fmt.Fprintf(b, "%-*s%s\n", indent, label, part)
		label = ""
	}
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
