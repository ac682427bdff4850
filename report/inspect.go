package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/symbolic"
)

// InspectSchema is the schema of the JSON that `memopt inspect -O json` prints.
const InspectSchema = "memopt.inspect/v1"

// Inspection is what Inspect reports on.
type Inspection struct {
	Model    *graph.Model
	Types    *op.Result
	Dims     symbolic.Env
	SHA      string
	By       string         // op, node, layer or category
	Top      int            // how many groups; 0: all
	Boundary *live.Boundary // nil for a graph without a backward half
	Order    graph.Order    // nil likewise
	Backward []bool
}

// ValidGrouping reports whether Inspection.By may be the text.
func ValidGrouping(by string) bool {
	return slices.Contains([]string{"op", "node", "layer", "category"}, by)
}

// group sums what belongs together.
type group struct {
	name           string
	nodes, values  int
	bytes, stashed symbolic.Expr // of the values that the nodes make; unknown sizes left out
	unknown        int           // values whose size is unknown
	first          int
}

type inspectJSON struct {
	Schema      string        `json:"schema"`
	Model       modelJSON     `json:"model"`
	Opsets      []opsetJSON   `json:"opsets"`
	Symbols     []string      `json:"symbols"`
	Dims        symbolic.Env  `json:"dims"`
	Boundary    *boundaryJSON `json:"boundary"`
	Inputs      []valueJSON   `json:"inputs"`
	Outputs     []valueJSON   `json:"outputs"`
	Stashed     []valueJSON   `json:"stashed"`
	By          string        `json:"by"`
	Groups      []groupJSON   `json:"groups"`
	UnknownOps  []string      `json:"unknown_ops"`
	Persistent  *int64        `json:"persistent_bytes"`
	StashedExpr string        `json:"stashed_expr"`
}

type opsetJSON struct {
	Domain  string `json:"domain"`
	Version int64  `json:"version"`
}

type valueJSON struct {
	Name  string  `json:"name"`
	Type  string  `json:"type"`
	Bytes *int64  `json:"bytes"`
	Expr  *string `json:"expr"`
}

type groupJSON struct {
	Name        string `json:"name"`
	Nodes       int    `json:"nodes"`
	Values      int    `json:"values"`
	Bytes       *int64 `json:"bytes"`
	Expr        string `json:"expr"`
	StashedByte *int64 `json:"stashed_bytes"`
	StashedExpr string `json:"stashed_expr"`
	Unknown     int    `json:"unknown_sizes"`
}

// Inspect prints what is in a graph.
func Inspect(w io.Writer, format Format, in *Inspection) error {
	groups, stashed := in.groups()
	if format == JSONFormat {
		return writeJSON(w, in.json(groups, stashed))
	}
	if format == TableFormat {
		if err := in.head(w, stashed); err != nil {
			return err
		}
	}
	return in.table(groups).writeAs(w, format)
}

// groups sums the values of the graph as In.By says and lists the stashed ones.
func (in *Inspection) groups() ([]*group, []live.Stash) {
	g := in.Model.Graph
	var stashed []live.Stash
	isStashed := make([]bool, len(g.Values))
	if in.Order != nil {
		stashed = live.Stashed(g, in.Order, in.Backward, func(id graph.NodeID) bool { return op.Of(g.Nodes[id].Kind).Has(op.ConstantRole) })
		for _, s := range stashed {
			isStashed[s.Value] = true
		}
	}
	index := map[string]*group{}
	var list []*group
	at := func(name string) *group {
		gr, ok := index[name]
		if !ok {
			gr = &group{name: name, bytes: symbolic.Const(0), stashed: symbolic.Const(0), first: len(list)}
			index[name] = gr
			list = append(list, gr)
		}
		return gr
	}
	for _, n := range g.Nodes {
		if in.By != "category" {
			at(in.key(n)).nodes++
		}
		for _, v := range n.Outputs {
			if v == graph.NoValue {
				continue
			}
			gr := at(in.valueKey(n, isStashed[v]))
			gr.add(g.Values[v].Type.Bytes(), isStashed[v])
			gr.values++
		}
	}
	if in.By == "category" {
		in.addPersistent(at)
	}
	in.sort(list)
	if in.Top > 0 && len(list) > in.Top {
		list = list[:in.Top]
	}
	return list, stashed
}

func (gr *group) add(bytes symbolic.Expr, stashed bool) {
	if !bytes.IsKnown() {
		gr.unknown++
		return
	}
	gr.bytes = gr.bytes.Add(bytes)
	if stashed {
		gr.stashed = gr.stashed.Add(bytes)
	}
}

func (in *Inspection) key(n *graph.Node) string {
	switch in.By {
	case "node":
		return in.Model.Graph.NodeLabel(n.ID)
	case "layer":
		return layerOf(n.Name)
	}
	if n.Domain == "" {
		return n.Op
	}
	return n.Domain + "." + n.Op
}

// valueKey is the group that a node's output belongs to.
func (in *Inspection) valueKey(n *graph.Node, stashed bool) string {
	switch {
	case in.By != "category":
		return in.key(n)
	case op.Of(n.Kind).Has(op.ConstantRole):
		return "constants"
	case stashed:
		return "stashed activations"
	case in.Backward != nil && in.Backward[n.ID]:
		return "backward values"
	}
	return "other activations"
}

// addPersistent adds the categories of values that no node makes.
func (in *Inspection) addPersistent(at func(string) *group) {
	g := in.Model.Graph
	for i := range g.Values {
		v := &g.Values[i]
		name := "graph inputs"
		if v.IsInitializer() {
			name = "initializers"
		} else if !v.Input {
			continue
		}
		gr := at(name)
		gr.add(v.Type.Bytes(), false)
		gr.values++
	}
}

// layerNumber finds the first path component of a name that is, or ends in, a number:
// the "h.0" of /transformer/h.0/attn/Softmax.
var layerNumber = regexp.MustCompile(`^(.*?[A-Za-z_]+[._]?\d+)(?:[/.]|$)`)

// layerOf returns the layer that a node's name speaks of, or "(other)".
func layerOf(name string) string {
	dir := name
	if i := strings.LastIndexAny(name, "/"); i >= 0 {
		dir = name[:i]
	} else if i := strings.LastIndexByte(name, '.'); i >= 0 {
		dir = name[:i]
	} else {
		return "(other)"
	}
	if m := layerNumber.FindStringSubmatch(dir); m != nil {
		return m[1]
	}
	if dir == "" {
		return "(other)"
	}
	return dir
}

// sort puts the groups that make most bytes first.
func (in *Inspection) sort(list []*group) {
	size := func(gr *group) int64 { return rank(gr.bytes, in.Dims) }
	slices.SortStableFunc(list, func(a, b *group) int {
		return cmp.Or(cmp.Compare(size(b), size(a)), cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.first, b.first))
	})
}

func (in *Inspection) table(groups []*group) *Table {
	title := map[string]string{"op": "Operator", "node": "Node", "layer": "Layer", "category": "Category"}[in.By]
	t := &Table{Header: []string{title, "Nodes", "Values", "Bytes made", "Stashed bytes", "Bytes made, formula"}, Right: []bool{false, true, true, true, true}}
	for _, gr := range groups {
		name := gr.name
		if gr.unknown > 0 {
			name += fmt.Sprintf(" (%d values of unknown size)", gr.unknown)
		}
		t.Add(name, fmt.Sprint(gr.nodes), fmt.Sprint(gr.values), in.number(gr.bytes), in.number(gr.stashed), gr.bytes.String())
	}
	return t
}

// number prints an expression's value, or "-" where a symbol is unbound.
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

// head prints what the file is before the table of groups.
func (in *Inspection) head(w io.Writer, stashed []live.Stash) error {
	g, m := in.Model.Graph, in.Model
	var b strings.Builder
	producer := strings.TrimSpace(m.ProducerName + " " + m.ProducerVersion)
	fmt.Fprintf(&b, "Model     %s: graph %q, %d nodes, %d values, %d functions\n", m.Path, g.Name, len(g.Nodes), len(g.Values), len(m.Functions))
	fmt.Fprintf(&b, "Opsets    %s; IR version %d; made by %s\n", in.opsetText(), m.IRVersion, cmp.Or(producer, "(not said)"))
	fmt.Fprintf(&b, "Symbols   %s\n", cmp.Or(strings.Join(in.symbolText(), ", "), "none"))
	for i, d := range g.Inputs {
		if i == 8 {
			fmt.Fprintf(&b, "Input     … and %d more\n", len(g.Inputs)-i)
			break
		}
		fmt.Fprintf(&b, "Input     %s %v\n", g.Values[d.Value].Name, g.Values[d.Value].Type)
	}
	for i, d := range g.Outputs {
		if i == 8 {
			fmt.Fprintf(&b, "Output    … and %d more\n", len(g.Outputs)-i)
			break
		}
		fmt.Fprintf(&b, "Output    %s %v\n", g.Values[d.Value].Name, g.Values[d.Value].Type)
	}
	if in.Boundary != nil {
		total := stashedBytes(g, stashed)
		fmt.Fprintf(&b, "Boundary  node %s (%s); %d stashed activations: %s bytes = %s\n", g.NodeLabel(in.Boundary.Node), in.Boundary.Kind, len(stashed), in.number(total), total)
	} else {
		b.WriteString("Boundary  none: this graph has no backward half\n")
	}
	if len(in.Types.NoRow) > 0 {
		fmt.Fprintf(&b, "Unknown   %d nodes of operators without a row in the op table: %s\n", len(in.Types.NoRow), strings.Join(in.unknownOps(), ", "))
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
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
			for _, s := range d.Symbols() {
				seen[s] = true
			}
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

func (in *Inspection) json(groups []*group, stashed []live.Stash) *inspectJSON {
	g := in.Model.Graph
	j := &inspectJSON{Schema: InspectSchema, Model: modelJSON{in.Model.Path, in.SHA, len(g.Nodes)}, Opsets: []opsetJSON{},
		Symbols: nonNil(in.symbols()), Dims: in.Dims, Inputs: []valueJSON{}, Outputs: []valueJSON{}, Stashed: []valueJSON{},
		By: in.By, Groups: []groupJSON{}, UnknownOps: nonNil(in.unknownOps()), StashedExpr: stashedBytes(g, stashed).String()}
	for _, o := range in.Model.Opsets {
		j.Opsets = append(j.Opsets, opsetJSON{o.Domain, o.Version})
	}
	if in.Boundary != nil {
		j.Boundary = &boundaryJSON{string(in.Boundary.Kind), g.NodeLabel(in.Boundary.Node)}
	}
	for _, d := range g.Inputs {
		j.Inputs = append(j.Inputs, in.value(d.Value))
	}
	for _, d := range g.Outputs {
		j.Outputs = append(j.Outputs, in.value(d.Value))
	}
	for _, s := range stashed {
		j.Stashed = append(j.Stashed, in.value(s.Value))
	}
	for _, gr := range groups {
		j.Groups = append(j.Groups, groupJSON{gr.name, gr.nodes, gr.values, in.evaluated(gr.bytes), gr.bytes.String(), in.evaluated(gr.stashed), gr.stashed.String(), gr.unknown})
	}
	if sizes, err := live.EvalSizes(g, in.Dims); err == nil {
		if n, err := live.PersistentBytes(g, sizes); err == nil {
			j.Persistent = &n
		}
	}
	return j
}

func (in *Inspection) value(id graph.ValueID) valueJSON {
	v := &in.Model.Graph.Values[id]
	j := valueJSON{Name: v.Name, Type: v.Type.String()}
	if e := v.Type.Bytes(); e.IsKnown() {
		j.Expr = ptr(e.String())
		j.Bytes = in.evaluated(e)
	}
	return j
}
