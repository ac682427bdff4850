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

// Error returns "name:line:column: fault" in one line.
func (e *ParseError) Error() string {
	msg := strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(e.Msg)
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, msg)
}

// ParseOptions control ParseWith.
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

// unexpected reports that the current token is not the wanted one.
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

// notes is the description of a part of a model.
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

// notes reads the description of the part that follows.
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
