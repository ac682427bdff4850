package graph

import (
	"slices"
)

func (p *printer) model(m *Model) {
	// The first list of other data is the model's, a second one the graph's, so
	// the model's is never left out.
	list := []field{{"ir_version", func() { p.int(m.IRVersion) }}}
	if len(m.Opsets) > 0 {
		list = append(list, field{"opset_import", func() { p.opsets(m.Opsets) }})
	}
	list = p.textField(list, "producer_name", m.ProducerName)
	list = p.textField(list, "producer_version", m.ProducerVersion)
	list = p.textField(list, "domain", m.Domain)
	if m.ModelVersion != 0 {
		list = append(list, field{"model_version", func() { p.int(m.ModelVersion) }})
	}
	list = p.notesFields(list, m.Doc, m.Metadata, m.Extra)
	if len(m.Configurations) > 0 {
		list = append(list, field{"configuration", func() { p.configurations(m.Configurations) }})
	}
	p.fields(list)
	p.newline()
	p.graph(m.Graph)
	p.newline()
	for _, f := range m.Functions {
		p.function(f)
		p.newline()
	}
}

// graph prints a graph without the end of its last line.
func (p *printer) graph(g *Graph) {
	if p.notes(g.Doc, g.Metadata, g.Extra) {
		p.newline()
	}
	p.name(g.Name)
	p.str(" ")
	p.decls("(", g, g.Inputs, ")")
	p.str(" => ")
	p.decls("(", g, g.Outputs, ")")
	p.valueInfos(g)
	p.nodes(g)
}

func (p *printer) decls(open string, g *Graph, list []Decl, end string) {
	p.list(open, len(list), end, func(i int) { p.decl(g, &list[i]) })
}

func (p *printer) decl(g *Graph, d *Decl) {
	p.inlineNotes(d.Doc, nil, nil)
	v := &g.Values[d.Value]
	t := &d.Type
	if p.opts.Types && v.Type.Form != FormUnknown {
		t = &v.Type
	}
	p.typed(t, v.Name)
}

// typed prints a name with its type in front, if one is stated.
func (p *printer) typed(t *Type, name string) {
	if t.Form != FormUnknown {
		p.typ(t)
		p.str(" ")
	}
	p.name(name)
}

// valueInfos prints the types of inner values, and the initializers.
func (p *printer) valueInfos(g *Graph) {
	infos := g.ValueInfo
	if p.opts.Types {
		infos = withInferred(g)
	}
	dense := len(infos) + len(g.Initializers)
	n := dense + len(g.Sparse)
	if n == 0 {
		p.str(" ")
		return
	}
	p.newline()
	p.list("<", n, ">", func(i int) {
		switch {
		case i < len(infos):
			p.decl(g, &infos[i])
		case i < dense:
			t := g.Values[g.Initializers[i-len(infos)]].Data
			p.tensorHead(t.DType, t.Dims, t.Name)
			p.contents(t)
		default:
			p.sparse(g.Values[g.Sparse[i-dense]].SparseData)
		}
	})
	p.newline()
}

// withInferred returns the declarations of inner values, with those of values
// that only inference knows behind them.
func withInferred(g *Graph) []Decl {
	declared := make([]bool, len(g.Values))
	for _, d := range g.ValueInfo {
		declared[d.Value] = true
	}
	infos := slices.Clone(g.ValueInfo)
	for i := range g.Values {
		v := &g.Values[i]
		if v.Def != NoNode && !v.Output && !declared[i] && v.Type.Form != FormUnknown {
			infos = append(infos, Decl{Value: ValueID(i), Type: v.Type})
		}
	}
	return infos
}

func (p *printer) nodes(g *Graph) {
	p.str("{")
	p.indent++
	for _, n := range g.Nodes {
		p.newline()
		p.node(g, n)
	}
	p.indent--
	p.newline()
	p.str("}")
}

func (p *printer) node(g *Graph, n *Node) {
	rare := n.Rare()
	list := p.notesFields(nil, rare.Doc, rare.Metadata, rare.Extra)
	if len(rare.Devices) > 0 {
		list = append(list, field{"device_configurations", func() { p.devices(g, n) }})
	}
	if p.fields(list); len(list) > 0 {
		p.str(" ")
	}
	if n.Name != "" {
		p.str("[")
		p.name(n.Name)
		p.str("] ")
	}
	p.operands(g, n.Outputs)
	if len(n.Outputs) > 0 {
		p.str(" ")
	}
	p.str("= ")
	p.operator(n)
	if len(n.Attrs) > 0 {
		p.str(" ")
		p.list("<", len(n.Attrs), ">", func(i int) { p.attr(&n.Attrs[i]) })
	}
	p.str(" (")
	p.operands(g, n.Inputs)
	p.str(")")
}

func (p *printer) operands(g *Graph, list []ValueID) {
	p.list("", len(list), "", func(i int) { p.name(g.ValueName(list[i])) })
}

func (p *printer) operator(n *Node) {
	if n.Domain != "" {
		if isDotted(n.Domain) {
			p.str(n.Domain)
		} else {
			p.quote(n.Domain)
		}
		p.str(".")
	}
	p.name(n.Op)
	if overload := n.Rare().Overload; overload != "" {
		p.str(":")
		p.name(overload)
	}
}

func (p *printer) function(f *Function) {
	list := p.textField(nil, "domain", f.Domain)
	list = p.textField(list, "overload", f.Overload)
	if len(f.Opsets) > 0 {
		list = append(list, field{"opset_import", func() { p.opsets(f.Opsets) }})
	}
	list = p.notesFields(list, f.Doc, f.Body.Metadata, f.Body.Extra)
	p.fields(list)
	p.newline()
	p.name(f.Name)
	p.str(" ")
	if n := len(f.AttrNames); n+len(f.AttrDefaults) > 0 {
		p.list("<", n+len(f.AttrDefaults), ">", func(i int) {
			if i < n {
				p.name(f.AttrNames[i])
			} else {
				p.attr(&f.AttrDefaults[i-n])
			}
		})
		p.str(" ")
	}
	p.str("(")
	p.operands(f.Body, f.Inputs)
	p.str(") => (")
	p.operands(f.Body, f.Outputs)
	p.str(")")
	p.valueInfos(f.Body)
	p.nodes(f.Body)
}
