package graph

func (p *parser) model() *Model {
	m := &Model{Path: p.name}
	var n notes
	p.header("a model", func(key string) bool {
		switch key {
		case "ir_version":
			m.IRVersion = p.integer()
		case "opset_import":
			m.Opsets = p.opsets()
		case "producer_name":
			m.ProducerName = p.quoted("a quoted name")
		case "producer_version":
			m.ProducerVersion = p.quoted("a quoted version")
		case "domain":
			m.Domain = p.quoted("a quoted domain")
		case "model_version":
			m.ModelVersion = p.integer()
		case "configuration":
			m.Configurations = p.configurations()
		default:
			return n.field(p, key)
		}
		return true
	})
	m.Doc, m.Metadata, m.Extra = n.doc, n.metadata, n.extra
	at := p.tok.at
	m.Graph = p.graph(nil)
	p.check(at, VerifyGraph(m.Graph))
	at = p.tok.at
	for p.tok.kind != tokEnd {
		m.Functions = append(m.Functions, p.function())
	}
	p.check(at, CheckFunctions(m))
	return m
}

// body is the part of a graph behind the head that it does not share with functions.
type body struct {
	g       *Graph
	outputs []Decl
	infos   []Decl
	places  []int // of nodes in the text
}

// graph reads a graph. Values are made known in the order of their rank, as when
// decoding: inputs, initializers, nodes, then outputs and value_info.
func (p *parser) graph(outer *Graph) *Graph {
	p.enter("graphs")
	defer p.leave()
	n := p.notes()
	at := p.tok.at
	b := &body{g: New(p.word("a graph"), outer)}
	b.g.Doc, b.g.Metadata, b.g.Extra = n.doc, n.metadata, n.extra
	p.inputs(b.g)
	p.arrow()
	p.expect("(")
	p.items(")", func() { b.outputs = append(b.outputs, p.decl(b.g)) })
	p.valueInfos(b, true)
	p.nodes(b)
	p.finish(b, at)
	return b.g
}

func (p *parser) arrow() { p.expect("=>") }

// inputs reads "(type name = {default}, ...)".
func (p *parser) inputs(g *Graph) {
	p.expect("(")
	var defaults []*TensorData
	p.items(")", func() {
		at := p.tok.at
		d := p.decl(g)
		p.check(at, g.AddInput(d))
		if p.accept("=") {
			defaults = append(defaults, p.dense(at, d.Type, g.ValueName(d.Value)))
		}
	})
	for _, t := range defaults {
		_, err := g.AddInitializer(t)
		p.check(p.tok.at, err)
	}
}

// decl reads "type name".
func (p *parser) decl(g *Graph) Decl {
	d := Decl{Doc: p.docOnly()}
	if p.atType() {
		d.Type = p.typ()
	}
	d.Value = p.value(g)
	return d
}

// value reads the name of a value.
func (p *parser) value(g *Graph) ValueID {
	at := p.tok.at
	id := g.Value(p.word("the name of a value"))
	if id == NoValue {
		p.fail(at, "a value cannot have an empty name")
	}
	return id
}

// valueInfos reads "<type name, type name = {contents}, ...>", if there is one.
func (p *parser) valueInfos(b *body, initializers bool) {
	if !p.accept("<") {
		return
	}
	p.items(">", func() {
		at := p.tok.at
		d := p.decl(b.g)
		if !p.accept("=") {
			b.infos = append(b.infos, d)
			return
		}
		if !initializers {
			p.fail(at, "the body of a function has no initializers; use a Constant node")
		}
		if d.Doc != "" {
			p.fail(at, `the doc_string of an initializer comes after its "="`)
		}
		p.initializer(b.g, d, at)
	})
}

func (p *parser) initializer(g *Graph, d Decl, at int) {
	name := g.ValueName(d.Value)
	if d.Type.Form == FormSparse {
		s := p.sparseParts(at, d.Type, name)
		_, err := g.AddSparse(s)
		p.check(at, err)
		return
	}
	_, err := g.AddInitializer(p.dense(at, d.Type, name))
	p.check(at, err)
}

func (p *parser) nodes(b *body) {
	p.expect("{")
	for !p.accept("}") {
		b.places = append(b.places, p.tok.at)
		at := p.tok.at
		p.check(at, b.g.AddNode(p.node(b.g)))
	}
}

// finish adds the parts that depend on all nodes, and seals the graph. at is its place.
func (p *parser) finish(b *body, at int) {
	for _, d := range b.outputs {
		p.check(at, b.g.AddOutput(d))
	}
	for _, d := range b.infos {
		if v := &b.g.Values[d.Value]; v.Type.Form == FormUnknown {
			v.Type = d.Type
		}
	}
	b.g.ValueInfo = b.infos
	if err := b.g.Seal(); err != nil {
		p.check(b.unbound(at), err)
	}
}

// unbound returns the place of the first node that has an operand without producer.
func (b *body) unbound(at int) int {
	for i, n := range b.g.Nodes {
		for _, list := range [][]ValueID{n.Inputs, n.Captures()} {
			for _, v := range list {
				if v != NoValue && !b.g.bound(v) {
					return b.places[i]
				}
			}
		}
	}
	return at
}

func (p *parser) function() *Function {
	f := &Function{}
	var n notes
	p.header("a function", func(key string) bool {
		switch key {
		case "domain":
			f.Domain = p.quoted("a quoted domain")
		case "overload":
			f.Overload = p.quoted("a quoted overload")
		case "opset_import":
			f.Opsets = p.opsets()
		default:
			return n.field(p, key)
		}
		return true
	})
	at := p.tok.at
	f.Name = p.word("a function")
	if f.Name == "" {
		p.fail(at, "a function cannot have an empty name")
	}
	b := &body{g: New(f.Name, nil)}
	f.Doc, f.Body, b.g.Metadata, b.g.Extra = n.doc, b.g, n.metadata, n.extra
	p.functionAttrs(f)
	f.Inputs = p.parameters(b, func(d Decl) { p.check(at, b.g.AddInput(d)) })
	p.arrow()
	f.Outputs = p.parameters(b, func(d Decl) { b.outputs = append(b.outputs, d) })
	p.valueInfos(b, false)
	p.nodes(b)
	p.finish(b, at)
	p.check(at, VerifyGraph(b.g))
	return f
}

// functionAttrs reads "<name, name = default, ...>", if there is one.
func (p *parser) functionAttrs(f *Function) {
	if !p.accept("<") {
		return
	}
	p.items(">", func() {
		doc := p.docOnly()
		name := p.word("an attribute")
		if p.is(":") || p.is("=") {
			a := p.attrRest(f.Body, name)
			a.Doc = doc
			f.AttrDefaults = append(f.AttrDefaults, a)
			return
		}
		f.AttrNames = append(f.AttrNames, name)
	})
}

// parameters reads the inputs or outputs of a function. Their types, if they have any, are
// value_info: functions declare names only.
func (p *parser) parameters(b *body, add func(Decl)) (ids []ValueID) {
	p.expect("(")
	p.items(")", func() {
		d := p.decl(b.g)
		ids = append(ids, d.Value)
		add(Decl{Value: d.Value})
		if d.Type.Form != FormUnknown {
			b.infos = append(b.infos, d)
		}
	})
	return ids
}
