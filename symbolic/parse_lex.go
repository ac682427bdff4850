package symbolic

import (
	"strings"
	"unicode/utf8"
)

type token uint8

const (
	tokEnd token = iota
	tokInt
	tokName
	tokQuoted
	tokOp // an operator, parenthesis, comma or ?
)

// next reads a token.
func (p *parser) next() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
	p.start = p.pos
	if p.pos == len(p.text) {
		p.tok, p.lit = tokEnd, ""
		return
	}
	rest := p.text[p.pos:]
	switch c := rest[0]; {
	case '0' <= c && c <= '9':
		p.take(tokInt, len(rest)-len(strings.TrimLeft(rest, "0123456789")))
	case c == '`':
		p.quoted(rest)
	case strings.HasPrefix(rest, "**"), strings.HasPrefix(rest, "//"):
		p.take(tokOp, 2)
	case strings.IndexByte("+-*/%(),?", c) >= 0:
		p.take(tokOp, 1)
	default:
		n := identifierLength(rest)
		if n == 0 {
			_, size := utf8.DecodeRuneInString(rest)
			p.fail(p.pos, nil, "unexpected %q; put names that are not identifiers in backquotes", rest[:size])
		}
		p.take(tokName, n)
	}
}

func (p *parser) take(tok token, n int) {
	p.tok, p.lit = tok, p.text[p.pos:p.pos+n]
	p.pos += n
}

func identifierLength(s string) int {
	for i, r := range s {
		if !isNameRune(r, i == 0) {
			return i
		}
	}
	return len(s)
}

// quoted reads a name in backquotes.
func (p *parser) quoted(rest string) {
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] != '`':
			continue
		case i+1 < len(rest) && rest[i+1] == '`':
			i++
			continue
		case i == 1:
			p.fail(p.pos, nil, "empty name")
		}
		p.tok, p.lit = tokQuoted, strings.ReplaceAll(rest[1:i], "``", "`")
		p.pos += i + 1
		return
	}
	p.fail(p.pos, nil, "unclosed backquote")
}
