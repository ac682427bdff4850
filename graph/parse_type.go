package graph

import (
	"strings"

	"memopt/symbolic"
)

// atType reports whether a type follows rather than a name.
func (p *parser) atType() bool {
	if p.is("?") {
		return true
	}
	return p.tok.kind == tokIdent && isReserved(p.tok.text) && !isFloatWord(p.tok.text)
}

// typ reads a type.
func (p *parser) typ() Type {
	p.enter("types")
	defer p.leave()
	if p.accept("?") {
		return Type{}
	}
	if !p.atType() {
		p.unexpected("a type")
	}
	var t Type
	switch p.tok.text {
	case wordSequence:
		t = Type{Form: FormSequence, Elem: p.elem()}
	case wordOptional:
		t = Type{Form: FormOptional, Elem: p.elem()}
	case wordSparse:
		p.next()
		p.expect("(")
		t = Type{Form: FormSparse, DType: p.dtype(), Shape: p.shape()}
		p.expect(")")
	case wordMap:
		p.next()
		p.expect("(")
		t = Type{Form: FormMap, DType: p.dtype()}
		if p.accept(",") {
			elem := p.typ()
			t.Elem = &elem
		}
		p.expect(")")
	case wordOpaque:
		t = p.opaque()
	default:
		t = Type{Form: FormTensor, DType: p.dtype(), Shape: p.shape()}
	}
	return t
}

// elem reads "(type)" behind a word.
func (p *parser) elem() *Type {
	p.next()
	p.expect("(")
	if p.accept(")") {
		return nil
	}
	t := p.typ()
	p.expect(")")
	return &t
}

// opaque reads opaque(), opaque(dotted.name) or opaque(domain, name).
func (p *parser) opaque() Type {
	p.next()
	p.expect("(")
	t := Type{Form: FormOpaque}
	if p.accept(")") {
		return t
	}
	t.Name = p.dotted("the name of an opaque type")
	if p.accept(",") {
		t.Name += "/" + p.word("the name of an opaque type")
	}
	p.expect(")")
	return t
}

// dotted reads words with dots between them.
func (p *parser) dotted(what string) string {
	text := p.word(what)
	if !p.is(".") {
		return text
	}
	var b strings.Builder
	b.WriteString(text)
	for p.accept(".") {
		b.WriteByte('.')
		b.WriteString(p.word(what))
	}
	return b.String()
}

// dtype reads an element type.
func (p *parser) dtype() DType {
	at := p.tok.at
	word := p.ident("an element type")
	switch word {
	case wordUndefined:
		return Undefined
	case wordDType:
		p.expect("(")
		v := p.integer()
		p.expect(")")
		if int64(DType(v)) != v {
			p.fail(at, "element type %d does not fit 32 bits", v)
		}
		return DType(v)
	}
	d, ok := ParseDType(word)
	if !ok {
		p.fail(at, "got %q, wanted an element type", shorten(word))
	}
	return d
}

// shape reads the dims behind an element type: an empty text for a scalar, [] for an unknown rank.
func (p *parser) shape() Shape {
	s := Shape{Ranked: true}
	if !p.accept("[") {
		return s
	}
	if p.accept("]") {
		return Shape{}
	}
	p.items("]", func() { s.Dims = append(s.Dims, p.dim()) })
	return s
}

// dim reads a number, a symbol, an expression in parentheses or ?. As in files, -1 is an unknown
// dim.
func (p *parser) dim() symbolic.Expr {
	switch {
	case p.is("("):
		return p.expr()
	case p.accept("?"):
		return symbolic.Unknown()
	case p.atWord():
		return symbolic.Sym(p.word("a dim"))
	case p.tok.kind != tokNumber:
		p.unexpected("a dim: a number, a symbol, an expression in parentheses or ?")
	}
	at := p.tok.at
	n := p.integer()
	switch {
	case n == -1:
		return symbolic.Unknown()
	case n < 0:
		p.fail(at, "dim %d is negative, wanted 0 or more, or ? for an unknown one", n)
	}
	return symbolic.Const(n)
}

// expr reads an expression up to the parenthesis that closes the current one. Names in
// backquotes may hold parentheses.
func (p *parser) expr() symbolic.Expr {
	depth, quoted := 1, false
	for i := p.at; i < len(p.src); i++ {
		switch c := p.src[i]; {
		case c == '`':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		}
		if depth > 0 {
			continue
		}
		e, err := symbolic.Parse(p.src[p.at:i])
		p.check(p.at, err)
		p.at = i + 1
		p.next()
		return e
	}
	p.fail(p.tok.at, "unclosed parenthesis")
	return symbolic.Expr{}
}
