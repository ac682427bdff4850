package graph

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxTextDepth is the number of levels that graphs, and types, may nest in a text.
const maxTextDepth = 64

// ParseError says where a text is no model.
type ParseError struct {
	Name         string // of the text
	Line, Column int    // from 1; columns count characters
	Msg          string
}

// Error returns "name:line:column: what is wrong" in one line.
func (e *ParseError) Error() string {
	msg := strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(e.Msg)
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, msg)
}

// ParseOptions say what ParseWith reads.
type ParseOptions struct {
	// Elided allows contents to be left out as {...}. Reading such contents
	// gives ErrElided.
	Elided bool
}

// Parse reads a model in ONNX's textual syntax with the extensions of [Format]. name
// stands for the text in errors and becomes Model.Path. The model satisfies [Verify];
// node kinds are not bound and types not inferred. Errors are *[ParseError].
//
// Where the grammars differ, Parse follows ONNX's parser rather than its grammar:
// attributes may stand before or behind the inputs, values without a type are
// allowed, inputs may have initializers as defaults, an operand may be left out as ""
// or by a bare comma, and typed parameters of a function become its value_info.
func Parse(src, name string) (*Model, error) { return ParseWith(src, name, ParseOptions{}) }

// ParseWith is Parse with options.
func ParseWith(src, name string, opts ParseOptions) (m *Model, err error) {
	p := &parser{src: src, name: name, opts: opts}
	defer func() {
		if f := recover(); f != nil {
			fault, ok := f.(*ParseError)
			if !ok {
				panic(f)
			}
			m, err = nil, fault
		}
	}()
	p.next()
	return p.model(), nil
}

// parser reads a text by recursive descent. A fault unwinds it as a panic with a
// *ParseError, which ParseWith turns into an error.
type parser struct {
	src   string
	name  string
	opts  ParseOptions
	at    int   // behind the current token
	tok   token // the current token
	depth int   // of graphs, or of types
}

// fail reports a fault at a byte of the text.
func (p *parser) fail(at int, format string, args ...any) {
	before := p.src[:at]
	panic(&ParseError{
		Name:   p.name,
		Line:   1 + strings.Count(before, "\n"),
		Column: 1 + utf8.RuneCountInString(before[1+strings.LastIndexByte(before, '\n'):]),
		Msg:    fmt.Sprintf(format, args...),
	})
}

// unexpected reports that the current token is not what is wanted.
func (p *parser) unexpected(wanted string) {
	p.fail(p.tok.at, "got %s, wanted %s", p.tok, wanted)
}

// check reports an error at a byte of the text.
func (p *parser) check(at int, err error) {
	if err != nil {
		p.fail(at, "%v", err)
	}
}

// enter counts a level of nesting; the caller leaves it.
func (p *parser) enter(what string) {
	if p.depth++; p.depth > maxTextDepth {
		p.fail(p.tok.at, "%s are nested more than %d deep", what, maxTextDepth)
	}
}

func (p *parser) leave() { p.depth-- }

// items reads items with commas between them up to the closing bracket.
func (p *parser) items(end string, item func()) {
	if p.accept(end) {
		return
	}
	for {
		item()
		if p.accept(end) {
			return
		}
		if !p.accept(",") {
			p.unexpected(fmt.Sprintf("%q or %q", ",", end))
		}
	}
}

// notes is what describes a part of a model.
type notes struct {
	doc      string
	metadata []Property
	extra    []byte
}

// header reads "<key: value, ...>", if there is one. read reads the value of a key or
// returns false.
func (p *parser) header(what string, read func(key string) bool) {
	if !p.accept("<") {
		return
	}
	var seen []string
	p.items(">", func() {
		at := p.tok.at
		key := p.ident("a field")
		if slices.Contains(seen, key) {
			p.fail(at, "field %q occurs twice", key)
		}
		seen = append(seen, key)
		p.expect(":")
		if !read(key) {
			p.fail(at, "%s has no field %q", what, shorten(key))
		}
	})
}

// field reads the value of one of the notes' fields.
func (n *notes) field(p *parser, key string) bool {
	switch key {
	case "doc_string":
		n.doc = p.quoted("a quoted text")
	case "metadata_props":
		n.metadata = p.properties()
	case "extra":
		n.extra = []byte(p.quoted("quoted bytes"))
	default:
		return false
	}
	return true
}

// notes reads what describes the part that follows.
func (p *parser) notes() (n notes) {
	p.header("a description", func(key string) bool { return n.field(p, key) })
	return n
}

// docOnly reads notes of a part that has no other than a doc_string.
func (p *parser) docOnly() string {
	at := p.tok.at
	n := p.notes()
	if n.metadata != nil || n.extra != nil {
		p.fail(at, "only doc_string can stand here")
	}
	return n.doc
}

func (p *parser) properties() []Property {
	list := []Property{}
	p.expect("[")
	p.items("]", func() {
		x := p.notes().extra
		key := p.quoted("a quoted key")
		p.expect(":")
		list = append(list, Property{key, p.quoted("a quoted value"), x})
	})
	return list
}

func (p *parser) opsets() []Opset {
	var list []Opset
	p.expect("[")
	p.items("]", func() {
		x := p.notes().extra
		domain := p.quoted("a quoted domain")
		p.expect(":")
		list = append(list, Opset{domain, p.integer(), x})
	})
	return list
}

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

// body is what a graph has behind the head that it does not share with functions.
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
			p.fail(at, `the doc_string of an initializer stands behind its "="`)
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

// finish adds what must know all nodes, and seals the graph. at is its place.
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

// unbound returns the place of the first node with an operand that nothing makes.
func (b *body) unbound(at int) int {
	for i, n := range b.g.Nodes {
		for _, list := range [][]ValueID{n.Inputs, n.Captures} {
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
