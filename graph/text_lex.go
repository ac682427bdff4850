package graph

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// token is a piece of text: an identifier, a quoted name, a backquoted
// expression, a number or one character of punctuation.
type token struct {
	kind tokenKind
	text string // unquoted
	pos  int    // byte offset
}

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokIdent
	tokQuoted // "…"
	tokExpr   // `…`
	tokNumber
	tokPunct // one of <>()[]{},:=.@? or => or …
)

// describe words a token for an error.
func (t token) describe() string {
	switch t.kind {
	case tokEnd:
		return "the end of the text"
	case tokQuoted:
		return "the quoted text " + clip(strconv.Quote(t.text))
	}
	return clip(strconv.Quote(t.text))
}

func clip(s string) string {
	if len(s) > 60 {
		return strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// lexer cuts text into tokens. Blanks and comments, # to the end of the line, are skipped.
type lexer struct {
	src  string
	name string
	at   int
	tok  token // the current token
}

// parseFault is the error by which the parser leaves its recursion.
type parseFault struct{ err error }

// fail reports a fault at a byte offset as name:line:column.
func (l *lexer) fail(pos int, format string, args ...any) {
	line := 1 + strings.Count(l.src[:pos], "\n")
	column := 1 + utf8.RuneCountInString(l.src[strings.LastIndexByte(l.src[:pos], '\n')+1:pos])
	panic(parseFault{fmt.Errorf("%s:%d:%d: %s", l.name, line, column, fmt.Sprintf(format, args...))})
}

// unexpected reports that the current token is not what is wanted.
func (l *lexer) unexpected(wanted string) {
	l.fail(l.tok.pos, "got %s, wanted %s", l.tok.describe(), wanted)
}

func isIdentStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isIdent(c byte) bool { return isIdentStart(c) || isDigit(c) }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// next moves to the next token.
func (l *lexer) next() {
	l.skip()
	start := l.at
	l.tok = token{pos: start}
	if l.at == len(l.src) {
		return
	}
	switch c := l.src[l.at]; {
	case isIdentStart(c):
		for l.at < len(l.src) && isIdent(l.src[l.at]) {
			l.at++
		}
		l.tok.kind, l.tok.text = tokIdent, l.src[start:l.at]
	case isDigit(c) || c == '-' || c == '+':
		l.number(start)
	case c == '"':
		l.quoted(start)
	case c == '`':
		end := strings.IndexByte(l.src[start+1:], '`')
		if end < 0 {
			l.fail(start, "the backquote is never closed")
		}
		l.at = start + end + 2
		l.tok.kind, l.tok.text = tokExpr, l.src[start+1:start+1+end]
	default:
		l.punct(start)
	}
}

func (l *lexer) skip() {
	for l.at < len(l.src) {
		switch c := l.src[l.at]; c {
		case ' ', '\t', '\n', '\r':
			l.at++
		case '#':
			for l.at < len(l.src) && l.src[l.at] != '\n' {
				l.at++
			}
		default:
			return
		}
	}
}

func (l *lexer) punct(start int) {
	l.tok.kind = tokPunct
	for _, p := range []string{"=>", "..."} {
		if strings.HasPrefix(l.src[start:], p) {
			l.at, l.tok.text = start+len(p), p
			return
		}
	}
	r, size := utf8.DecodeRuneInString(l.src[start:])
	if !strings.ContainsRune("<>()[]{},:=.@?", r) {
		l.fail(start, "the character %q is not part of the syntax; names that are no identifiers are quoted", r)
	}
	l.at, l.tok.text = start+size, l.src[start:start+size]
}

// number takes an integer, a float or 0x and hexadecimal digits, with an optional sign; -inf and
// -nan as well.
func (l *lexer) number(start int) {
	l.at++
	for l.at < len(l.src) {
		c := l.src[l.at]
		exponent := (c == '+' || c == '-') && (l.src[l.at-1] == 'e' || l.src[l.at-1] == 'E') && !strings.HasPrefix(l.src[start:], "0x")
		if !isIdent(c) && c != '.' && !exponent {
			break
		}
		l.at++
	}
	l.tok.kind, l.tok.text = tokNumber, l.src[start:l.at]
}

// quoted takes a text in double quotes with the escapes \" \\ \n \t \r and \xHH.
func (l *lexer) quoted(start int) {
	var b strings.Builder
	for i := start + 1; i < len(l.src); i++ {
		switch c := l.src[i]; c {
		case '"':
			l.at = i + 1
			l.tok.kind, l.tok.text = tokQuoted, b.String()
			return
		case '\\':
			i = l.escape(&b, i+1)
		default:
			b.WriteByte(c)
		}
	}
	l.fail(start, "the quote is never closed")
}

// escape takes the escape whose character stands at i and returns the place of its last byte.
func (l *lexer) escape(b *strings.Builder, i int) int {
	if i == len(l.src) {
		l.fail(i-1, "the quote is never closed")
	}
	switch l.src[i] {
	case '"', '\\':
		b.WriteByte(l.src[i])
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r':
		b.WriteByte('\r')
	case 'x':
		if i+2 < len(l.src) {
			if n, err := strconv.ParseUint(l.src[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				return i + 2
			}
		}
		fallthrough
	default:
		l.fail(i-1, `unknown escape; there are \" \\ \n \t \r and \xHH`)
	}
	return i
}

// is reports whether the current token is the given punctuation.
func (l *lexer) is(punct string) bool { return l.tok.kind == tokPunct && l.tok.text == punct }

// accept skips the given punctuation if it is the current token.
func (l *lexer) accept(punct string) bool {
	if !l.is(punct) {
		return false
	}
	l.next()
	return true
}

// expect skips the given punctuation or fails.
func (l *lexer) expect(punct string) {
	if !l.accept(punct) {
		l.unexpected(strconv.Quote(punct))
	}
}

// ident takes an identifier.
func (l *lexer) ident(what string) string {
	if l.tok.kind != tokIdent {
		l.unexpected(what)
	}
	text := l.tok.text
	l.next()
	return text
}

// word takes an identifier or a quoted name.
func (l *lexer) word(what string) string {
	if l.tok.kind != tokIdent && l.tok.kind != tokQuoted {
		l.unexpected(what)
	}
	text := l.tok.text
	l.next()
	return text
}

// quotedText takes a quoted text.
func (l *lexer) quotedText(what string) string {
	if l.tok.kind != tokQuoted {
		l.unexpected(what)
	}
	text := l.tok.text
	l.next()
	return text
}

// quoteName prints a name as an identifier where it is one, else quoted.
func quoteName(s string) string {
	plain := s != "" && isIdentStart(s[0])
	for i := 0; plain && i < len(s); i++ {
		plain = isIdent(s[i])
	}
	if plain {
		return s
	}
	return quoteText(s)
}

// quoteText prints a text in double quotes, with the escapes that the lexer knows.
func quoteText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ' || r == 0x7f || r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	b.WriteByte('"')
	return b.String()
}
