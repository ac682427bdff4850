package graph

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// token is a piece of the text.
type token struct {
	kind tokenKind
	text string // the name inside quotes, unescaped
	at   int    // its first byte
}

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokIdent
	tokQuoted
	tokNumber
	tokPunct
)

// String describes the token in messages.
func (t token) String() string {
	if t.kind == tokEnd {
		return "the end of the text"
	}
	return strconv.Quote(shorten(t.text))
}

// shorten cuts quotations in messages.
func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// next reads a token.
func (p *parser) next() {
	p.skipBlanks()
	start := p.at
	p.tok = token{at: start}
	if start == len(p.src) {
		return
	}
	switch c := p.src[start]; {
	case isIdentByte(c, true):
		for p.at < len(p.src) && isIdentByte(p.src[p.at], false) {
			p.at++
		}
		p.tok.kind, p.tok.text = tokIdent, p.src[start:p.at]
	case '0' <= c && c <= '9' || c == '-' || c == '+':
		p.at++
		p.number()
		p.tok.kind, p.tok.text = tokNumber, p.src[start:p.at]
	case c == '"':
		p.tok.kind, p.tok.text = tokQuoted, p.unquote()
	default:
		p.punct()
	}
}

func (p *parser) skipBlanks() {
	for ; p.at < len(p.src); p.at++ {
		switch p.src[p.at] {
		case ' ', '\t', '\r', '\n':
		case '#':
			end := strings.IndexByte(p.src[p.at:], '\n')
			if end < 0 {
				p.at = len(p.src)
				return
			}
			p.at += end
		default:
			return
		}
	}
}

// number moves to the end of a number or of a misspelt one, signs of exponents included; the caller
// checks it.
func (p *parser) number() {
	for ; p.at < len(p.src); p.at++ {
		c, before := p.src[p.at], p.src[p.at-1]
		sign := (c == '-' || c == '+') && (before == 'e' || before == 'E')
		dot := c == '.' && !strings.HasPrefix(p.src[p.at:], "...")
		if !isIdentByte(c, false) && !dot && !sign {
			return
		}
	}
}

func (p *parser) punct() {
	size := 1
	switch rest := p.src[p.at:]; {
	case strings.HasPrefix(rest, "=>"):
		size = 2
	case strings.HasPrefix(rest, "..."):
		size = 3
	case strings.IndexByte("()<>[]{},:=.@?", rest[0]) < 0:
		_, size = utf8.DecodeRuneInString(rest)
		p.fail(p.at, "unexpected %q; put names that are not identifiers in quotes", rest[:size])
	}
	p.tok.kind, p.tok.text = tokPunct, p.src[p.at:p.at+size]
	p.at += size
}

// unquote reads a quoted name.
func (p *parser) unquote() string {
	start := p.at + 1
	plain := start
	for plain < len(p.src) && p.src[plain] != '"' && p.src[plain] != '\\' {
		plain++
	}
	if plain < len(p.src) && p.src[plain] == '"' {
		p.at = plain + 1
		return p.src[start:plain]
	}
	buf := []byte(p.src[start:plain])
	for i := plain; i < len(p.src); i++ {
		switch c := p.src[i]; c {
		case '"':
			p.at = i + 1
			return string(buf)
		case '\\':
			b, size := p.escape(i)
			buf = append(buf, b)
			i += size
		default:
			buf = append(buf, c)
		}
	}
	p.fail(p.at, "unclosed quote")
	return ""
}

// escape reads the text behind a backslash and returns its length.
func (p *parser) escape(at int) (b byte, size int) {
	rest := p.src[at+1:]
	if rest == "" {
		p.fail(at, "backslash at the end of the text")
	}
	switch rest[0] {
	case '"', '\\':
		return rest[0], 1
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'x':
		if len(rest) >= 3 {
			if v, err := strconv.ParseUint(rest[1:3], 16, 8); err == nil {
				return byte(v), 3
			}
		}
	}
	p.fail(at, `unknown escape; wanted one of \" \\ \n \r \t \xHH`)
	return 0, 0
}

func (p *parser) is(punct string) bool { return p.tok.kind == tokPunct && p.tok.text == punct }

func (p *parser) accept(punct string) bool {
	if !p.is(punct) {
		return false
	}
	p.next()
	return true
}

func (p *parser) expect(punct string) {
	if !p.accept(punct) {
		p.unexpected(strconv.Quote(punct))
	}
}

func (p *parser) ident(what string) string { return p.take(what, p.tok.kind == tokIdent) }

func (p *parser) quoted(what string) string { return p.take(what, p.tok.kind == tokQuoted) }

// atWord reports whether a name follows.
func (p *parser) atWord() bool { return p.tok.kind == tokIdent || p.tok.kind == tokQuoted }

// word reads an identifier or a quoted name.
func (p *parser) word(what string) string { return p.take(what, p.atWord()) }

func (p *parser) take(what string, ok bool) string {
	if !ok {
		p.unexpected(what)
	}
	text := p.tok.text
	p.next()
	return text
}

func (p *parser) integer() int64 {
	if p.tok.kind != tokNumber {
		p.unexpected("an integer")
	}
	v, err := strconv.ParseInt(p.tok.text, 10, 64)
	if err != nil {
		p.unexpected("an integer of 64 bits")
	}
	p.next()
	return v
}
