package graph

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"memopt/symbolic"
)

// maxNesting is how deep subgraphs and types may be nested in text.
const maxNesting = 64

// Parse reads a model in the syntax that Format prints, of which ONNX's textual
// syntax is a part. name stands in front of errors, which give line and column. Kinds
// are not bound and types not inferred.
func Parse(src, name string) (m *Model, err error) {
	p := &parser{lexer: lexer{src: src, name: name}}
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case parseFault:
			m, err = nil, fault.err
		default:
			panic(fault)
		}
	}()
	p.next()
	m = p.model()
	m.Path = name
	if err := Verify(m); err != nil {
		p.fail(0, "%v", err)
	}
	return m, nil
}

type parser struct {
	lexer
	depth int
}

func (p *parser) enter() {
	if p.depth++; p.depth > maxNesting {
		p.fail(p.tok.pos, "nested more than %d levels deep", maxNesting)
	}
}

func (p *parser) leave() { p.depth-- }

func (p *parser) model() *Model {
	m := &Model{IRVersion: 8}
	p.fields(func(key string, pos int) {
		switch key {
		case "ir_version":
			m.IRVersion = p.integer()
		case "model_version":
			m.ModelVersion = p.integer()
		case "opset_import":
			m.Opsets = p.opsets()
		case "producer_name":
			m.ProducerName = p.quotedText("a quoted name")
		case "producer_version":
			m.ProducerVersion = p.quotedText("a quoted version")
		case "domain":
			m.Domain = p.quotedText("a quoted domain")
		case "doc_string":
			m.Doc = p.quotedText("a quoted text")
		case "metadata_props":
			m.Metadata = p.properties()
		default:
			p.fail(pos, "a model has no field %q", key)
		}
	})
	m.Graph = p.graph(nil)
	for p.tok.kind != tokEnd {
		m.Functions = append(m.Functions, p.function())
	}
	return m
}

// fields reads "<key: value, …>" if there is one.
func (p *parser) fields(field func(key string, pos int)) {
	if !p.accept("<") {
		return
	}
	for !p.accept(">") {
		pos := p.tok.pos
		key := p.ident("the name of a field")
		p.expect(":")
		field(key, pos)
		if !p.is(">") {
			p.expect(",")
		}
	}
}

func (p *parser) opsets() []Opset {
	var out []Opset
	p.listed(func() {
		o := Opset{Domain: p.quotedText("a quoted domain")}
		p.expect(":")
		o.Version = p.integer()
		out = append(out, o)
	})
	return out
}

func (p *parser) properties() []Property {
	var out []Property
	p.listed(func() {
		x := Property{Key: p.quotedText("a quoted key")}
		p.expect(":")
		x.Value = p.quotedText("a quoted value")
		out = append(out, x)
	})
	return out
}

// listed reads "[item, …]".
func (p *parser) listed(item func()) {
	p.expect("[")
	for !p.accept("]") {
		item()
		if !p.is("]") {
			p.expect(",")
		}
	}
}

func (p *parser) integer() int64 {
	if p.tok.kind != tokNumber {
		p.unexpected("an integer")
	}
	n, err := strconv.ParseInt(p.tok.text, 10, 64)
	if err != nil {
		p.unexpected("an integer of 64 bits")
	}
	p.next()
	return n
}

func (p *parser) graph(outer *Graph) *Graph {
	p.enter()
	defer p.leave()
	pos := p.tok.pos
	g := New(p.word("the name of a graph"), outer)
	p.declList(g, func(d Decl, t *TensorData) error {
		if err := g.AddInput(d); err != nil || t == nil {
			return err
		}
		_, err := g.AddInitializer(t)
		return err
	})
	p.expect("=>")
	p.declList(g, func(d Decl, _ *TensorData) error { return g.AddOutput(d) })
	p.valueInfo(g)
	p.nodes(g)
	if err := g.Seal(); err != nil {
		p.fail(pos, "%v", err)
	}
	return g
}

// declList reads "(type name, …)"; inputs may have "= {contents}" as default.
func (p *parser) declList(g *Graph, add func(Decl, *TensorData) error) {
	p.expect("(")
	for !p.accept(")") {
		pos := p.tok.pos
		t := p.optionalType()
		name := p.word("the name of a value")
		var data *TensorData
		if p.accept("=") {
			data = p.contents(t, name, pos)
		}
		if err := add(Decl{Value: p.value(g, name, pos), Type: t}, data); err != nil {
			p.fail(pos, "%v", err)
		}
		if !p.is(")") {
			p.expect(",")
		}
	}
}

// value returns the value of a name that may not be empty.
func (p *parser) value(g *Graph, name string, pos int) ValueID {
	if name == "" {
		p.fail(pos, "the name of a value is empty here")
	}
	return g.Value(name)
}

// optionalType reads a type if there is one: an identifier in front of
// something that is no end of a declaration.
func (p *parser) optionalType() Type {
	if p.tok.kind != tokIdent || !p.startsType() {
		return Type{}
	}
	return p.typ()
}

// startsType reports whether the current identifier begins a type and not a name.
func (p *parser) startsType() bool {
	if _, ok := ParseDType(p.tok.text); !ok && !slices.Contains([]string{"seq", "optional", "map", "sparse_tensor", "opaque"}, p.tok.text) {
		return false
	}
	after := p.peek()
	return after != "," && after != ")" && after != ">" && after != "="
}

// peek returns the text of the token behind the current one.
func (p *parser) peek() string {
	ahead := p.lexer
	ahead.next()
	return ahead.tok.text
}

func (p *parser) typ() Type {
	p.enter()
	defer p.leave()
	pos := p.tok.pos
	word := p.ident("a type")
	if d, ok := ParseDType(word); ok {
		return Tensor(d, p.shape())
	}
	p.expect("(")
	var t Type
	switch word {
	case "seq", "optional":
		elem := p.typ()
		t = Type{Form: FormSequence, Elem: &elem}
		if word == "optional" {
			t.Form = FormOptional
		}
	case "map":
		key, ok := ParseDType(p.ident("the type of the keys"))
		if !ok {
			p.fail(pos, "the keys of a map have an unknown type")
		}
		p.expect(",")
		elem := p.typ()
		t = Type{Form: FormMap, DType: key, Elem: &elem}
	case "sparse_tensor":
		t = p.typ()
		t.Form = FormSparse
	case "opaque":
		t = Type{Form: FormOpaque, Name: p.quotedText("the quoted name of an opaque type")}
	default:
		p.fail(pos, "there is no type %q", clip(word))
	}
	p.expect(")")
	return t
}

// shape reads "[dim, …]". "[]" is a shape of unknown rank, nothing a scalar's.
func (p *parser) shape() Shape {
	if !p.accept("[") {
		return Dims()
	}
	if p.accept("]") {
		return Shape{}
	}
	var dims []symbolic.Expr
	for {
		dims = append(dims, p.dim())
		if p.accept("]") {
			return Dims(dims...)
		}
		p.expect(",")
	}
}

func (p *parser) dim() symbolic.Expr {
	switch {
	case p.accept("?"):
		return symbolic.Unknown()
	case p.tok.kind == tokNumber:
		return symbolic.Const(p.integer())
	case p.tok.kind == tokExpr:
		e, err := symbolic.Parse(p.tok.text)
		if err != nil {
			p.fail(p.tok.pos, "%v", err)
		}
		p.next()
		return e
	}
	return symbolic.Sym(p.word("a dim: a number, a symbol, an expression in backquotes or ?"))
}

// valueInfo reads "<type name = {contents}, type name, …>" if there is one.
func (p *parser) valueInfo(g *Graph) {
	if !p.accept("<") {
		return
	}
	for !p.accept(">") {
		pos := p.tok.pos
		if p.tok.text == "sparse" && p.tok.kind == tokIdent {
			if _, err := g.AddSparse(p.sparse()); err != nil {
				p.fail(pos, "%v", err)
			}
		} else {
			p.info(g, pos)
		}
		if !p.is(">") {
			p.expect(",")
		}
	}
}

func (p *parser) info(g *Graph, pos int) {
	t := p.optionalType()
	name := p.word("the name of a value")
	id := p.value(g, name, pos)
	var err error
	if p.accept("=") {
		_, err = g.AddInitializer(p.contents(t, name, pos))
	} else {
		g.ValueInfo = append(g.ValueInfo, Decl{Value: id, Type: t})
		if v := &g.Values[id]; v.Type.Form == FormUnknown {
			v.Type = t
		}
	}
	if err != nil {
		p.fail(pos, "%v", err)
	}
}

func (p *parser) nodes(g *Graph) {
	p.expect("{")
	for !p.accept("}") {
		pos := p.tok.pos
		if err := g.AddNode(p.node(g)); err != nil {
			p.fail(pos, "%v", err)
		}
	}
}

func (p *parser) node(g *Graph) *Node {
	n := &Node{}
	if p.accept("[") {
		n.Name = p.word("the name of a node")
		p.expect("]")
	}
	for !p.accept("=") {
		n.Outputs = append(n.Outputs, g.Value(p.word("the name of an output, or =")))
		if !p.is("=") {
			p.expect(",")
		}
	}
	p.operator(n)
	n.Attrs = p.attrs(g)
	p.expect("(")
	for !p.accept(")") {
		n.Inputs = append(n.Inputs, g.Value(p.word("the name of an input")))
		if !p.is(")") {
			p.expect(",")
		}
	}
	if n.Attrs == nil {
		n.Attrs = p.attrs(g)
	}
	return n
}

// operator reads a qualified operator with an optional overload.
func (p *parser) operator(n *Node) {
	parts := []string{p.word("an operator")}
	for p.accept(".") {
		parts = append(parts, p.word("an operator"))
	}
	n.Op = parts[len(parts)-1]
	n.Domain = strings.Join(parts[:len(parts)-1], ".")
	if p.accept(":") {
		n.Overload = p.word("an overload")
	}
}

func (p *parser) attrs(g *Graph) []Attr {
	if !p.accept("<") {
		return nil
	}
	var out []Attr
	for !p.accept(">") {
		out = append(out, p.attr(g))
		if !p.is(">") {
			p.expect(",")
		}
	}
	return out
}

func (p *parser) attr(g *Graph) Attr {
	pos := p.tok.pos
	a := Attr{Name: p.word("the name of an attribute")}
	kind := ""
	if p.accept(":") {
		kind = p.ident("the type of an attribute")
	}
	p.expect("=")
	if p.accept("@") {
		a.Ref = p.word("the name of an attribute of the function")
		return a
	}
	a.Value = p.attrValue(g, kind, pos)
	return a
}

func (p *parser) attrValue(g *Graph, kind string, pos int) any {
	switch kind {
	case "type_proto":
		return p.typ()
	case "type_protos":
		var out []Type
		p.listed(func() { out = append(out, p.typ()) })
		return nonNil(out)
	}
	if !p.is("[") {
		v := p.single(g)
		if n, ok := v.(int64); ok && kind == "float" {
			return float32(n)
		}
		return v
	}
	var items []any
	p.listed(func() { items = append(items, p.single(g)) })
	return p.unify(items, kind, pos)
}

// unify makes a typed list of the items of an attribute.
func (p *parser) unify(items []any, kind string, pos int) any {
	if len(items) == 0 {
		switch kind {
		case "", "ints":
			return []int64{}
		case "floats":
			return []float32{}
		case "strings":
			return []string{}
		case "tensors":
			return []*TensorData{}
		case "graphs":
			return []*Graph{}
		case "sparse_tensors":
			return []*Sparse{}
		}
		p.fail(pos, "there is no list type %q", clip(kind))
	}
	for _, item := range items { // [1, 2.5] is a list of floats
		if _, ok := item.(float32); ok || kind == "floats" {
			for i := range items {
				if n, ok := items[i].(int64); ok {
					items[i] = float32(n)
				}
			}
		}
	}
	var list any
	ok := false
	switch items[0].(type) {
	case int64:
		list, ok = typedList[int64](items)
	case float32:
		list, ok = typedList[float32](items)
	case string:
		list, ok = typedList[string](items)
	case *TensorData:
		list, ok = typedList[*TensorData](items)
	case *Graph:
		list, ok = typedList[*Graph](items)
	case *Sparse:
		list, ok = typedList[*Sparse](items)
	}
	if !ok {
		p.fail(pos, "the items of a list must be of one type")
	}
	return list
}

func typedList[T any](items []any) ([]T, bool) {
	out := make([]T, len(items))
	for i, item := range items {
		v, ok := item.(T)
		if !ok {
			return nil, false
		}
		out[i] = v
	}
	return out, true
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// single reads one value of an attribute.
func (p *parser) single(g *Graph) any {
	pos := p.tok.pos
	switch p.tok.kind {
	case tokQuoted:
		if p.peek() == "(" {
			return p.graph(g)
		}
		return p.quotedText("a text")
	case tokNumber:
		return p.number()
	case tokIdent:
		switch {
		case p.tok.text == "inf" || p.tok.text == "nan":
			x, _ := strconv.ParseFloat(p.tok.text, 32)
			p.next()
			return float32(x)
		case p.tok.text == "sparse":
			return p.sparse()
		case p.peek() == "(":
			return p.graph(g)
		}
		t := p.typ()
		name := ""
		if p.tok.kind == tokIdent || p.tok.kind == tokQuoted {
			name = p.word("the name of a tensor")
		}
		p.accept("=")
		return p.contents(t, name, pos)
	}
	p.unexpected("the value of an attribute")
	return nil
}

// number reads an integer, or a float where the text has a point, an exponent or a name.
func (p *parser) number() any {
	if n, err := strconv.ParseInt(p.tok.text, 10, 64); err == nil {
		p.next()
		return n
	}
	x, err := strconv.ParseFloat(p.tok.text, 32)
	if err != nil && !math.IsInf(x, 0) {
		p.unexpected("a number")
	}
	p.next()
	return float32(x)
}

// contents reads "{elements}" or "{...}" of a tensor whose type has been read.
func (p *parser) contents(t Type, name string, pos int) *TensorData {
	if t.Form != FormTensor || !t.Shape.Ranked {
		p.fail(pos, "contents need a tensor type with a shape of numbers")
	}
	data := &TensorData{Name: name, DType: t.DType, Dims: make([]int64, 0, len(t.Shape.Dims))}
	for _, d := range t.Shape.Dims {
		n, ok := d.Const()
		if !ok || n < 0 {
			p.fail(pos, "contents need a shape of numbers of at least 0")
		}
		data.Dims = append(data.Dims, n)
	}
	want, err := data.Bytes()
	if err != nil {
		p.fail(pos, "%v", err)
	}
	p.expect("{")
	if p.accept("...") {
		p.expect("}")
		return data
	}
	p.elements(data, pos, want)
	return data
}

// elements reads the elements of a tensor up to the closing brace.
func (p *parser) elements(t *TensorData, pos int, want int64) {
	var raw []byte
	count := 0
	for ; !p.accept("}"); count++ {
		if t.DType == String {
			t.Strings = append(t.Strings, p.quotedText("a quoted element"))
		} else {
			text := p.tok.text
			out, ok := appendElement(t.DType, raw, count, text)
			if !ok || p.tok.kind != tokNumber && p.tok.kind != tokIdent {
				p.unexpected("an element of type " + t.DType.String())
			}
			raw = out
			p.next()
		}
		if !p.is("}") {
			p.expect(",")
		}
	}
	if n, err := t.Elements(); err != nil || int64(count) != n || t.DType != String && int64(len(raw)) != want {
		p.fail(pos, "the tensor has %d elements, its shape %v wants %d", count, t.Dims, n)
	}
	if t.DType != String {
		t.Source = Raw(raw)
	}
}

// sparse reads "sparse type name = {values} at type {indices}".
func (p *parser) sparse() *Sparse {
	p.next()
	pos := p.tok.pos
	t := p.typ()
	name := p.word("the name of a sparse tensor")
	s := &Sparse{Values: &TensorData{Name: name, DType: t.DType}}
	for _, d := range t.Shape.Dims {
		n, ok := d.Const()
		if !ok || n < 0 {
			p.fail(pos, "a sparse tensor needs a shape of numbers of at least 0")
		}
		s.Dims = append(s.Dims, n)
	}
	p.expect("=")
	p.expect("{")
	var raw []byte
	count := 0
	for ; !p.accept("}"); count++ {
		out, ok := appendElement(t.DType, raw, count, p.tok.text)
		if !ok {
			p.unexpected("an element of type " + t.DType.String())
		}
		raw = out
		p.next()
		if !p.is("}") {
			p.expect(",")
		}
	}
	s.Values.Dims, s.Values.Source = []int64{int64(count)}, Raw(raw)
	if p.ident("at and the indices") != "at" {
		p.fail(pos, "the values of a sparse tensor are followed by: at int64[…] {indices}")
	}
	at := p.tok.pos
	s.Indices = p.contents(p.typ(), "", at)
	return s
}

func (p *parser) function() *Function {
	f := &Function{}
	p.fields(func(key string, pos int) {
		switch key {
		case "domain":
			f.Domain = p.quotedText("a quoted domain")
		case "overload":
			f.Overload = p.quotedText("a quoted overload")
		case "doc_string":
			f.Doc = p.quotedText("a quoted text")
		case "opset_import":
			f.Opsets = p.opsets()
		default:
			p.fail(pos, "a function has no field %q", key)
		}
	})
	pos := p.tok.pos
	f.Name = p.word("the name of a function")
	f.Body = New(f.Name, nil)
	if p.accept("<") {
		p.functionAttrs(f)
	}
	p.declList(f.Body, func(d Decl, _ *TensorData) error {
		f.Inputs = append(f.Inputs, d.Value)
		return f.Body.AddInput(d)
	})
	p.expect("=>")
	p.declList(f.Body, func(d Decl, _ *TensorData) error {
		f.Outputs = append(f.Outputs, d.Value)
		return f.Body.AddOutput(d)
	})
	p.valueInfo(f.Body)
	p.nodes(f.Body)
	if err := f.Body.Seal(); err != nil {
		p.fail(pos, "function %q: %v", f.Name, err)
	}
	return f
}

// functionAttrs reads the attributes of a function: names that every call must
// give, and attributes with defaults.
func (p *parser) functionAttrs(f *Function) {
	for !p.accept(">") {
		if next := p.peek(); next == "," || next == ">" {
			f.AttrNames = append(f.AttrNames, p.word("the name of an attribute"))
		} else {
			f.AttrDefaults = append(f.AttrDefaults, p.attr(nil))
		}
		if !p.is(">") {
			p.expect(",")
		}
	}
}
