package report

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Plain returns text that comes from a model, or from any other file, in a form that is safe to
// print: characters that would steer a terminal, end a line or change the reading direction
// (control characters, escape sequences, line separators, bidirectional marks, bytes that are not
// UTF-8) are written as Go escapes them in a string, "\x1b" for example. Names that are words in
// any script stay as they are.
func Plain(text string) string {
	at := strings.IndexFunc(text, steers)
	if at < 0 {
		return text
	}
	var b strings.Builder
	b.WriteString(text[:at])
	for at < len(text) {
		r, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case !steers(r):
			b.WriteString(text[at : at+size])
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[at])
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		at += size
	}
	return b.String()
}

// steers reports whether a rune does more than show itself. utf8.RuneError counts, since it stands
// for bytes that are not UTF-8.
func steers(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }

// maxMessage is how many bytes of a message are printed unless more is asked for: a dozen lines of
// a terminal. The longest of memopt's own messages stay below it, names in a hostile model may not.
const maxMessage = 1024

// Message returns a message on one line: Plain, with lines joined, and without the middle of a long
// text unless whole is set.
func Message(text string, whole bool) string {
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", " ")
	if !whole {
		text = cut(text, " (%d bytes left out; -v prints them) ")
	}
	return Plain(text)
}

// cut leaves out the middle of a long text; note says how much that is.
func cut(text, note string) string {
	n := len(text)
	if n <= maxMessage {
		return text
	}
	const half = maxMessage / 2
	return strings.ToValidUTF8(text[:half], "") + " …" + fmt.Sprintf(note, n-2*half) + "… " +
		strings.ToValidUTF8(text[n-half:], "")
}

// shownCell returns a cell of a table for people. A one-megabyte name would make every row of its
// column as wide.
func shownCell(text string) string { return Plain(cut(text, " (%d bytes) ")) }

// line writes exactly one line of a report, even if the arguments have line breaks.
func line(b *strings.Builder, format string, args ...any) {
	b.WriteString(Plain(fmt.Sprintf(format, args...)))
	b.WriteByte('\n')
}

// plainCells returns rows of cells with each of them changed.
func plainCells(rows [][]string, change func(string) string) [][]string {
	out := make([][]string, len(rows))
	for i, row := range rows {
		out[i] = make([]string, len(row))
		for j, cell := range row {
			out[i][j] = change(cell)
		}
	}
	return out
}

// csvCell returns a cell that spreadsheets, too, read as text: they take one that begins with =, +,
// - or @, or with the wide East Asian form of one of these, for a formula unless it is a number; an
// apostrophe in front tells them not to. Leading blanks do not count, and in many countries a
// semicolon begins the next cell.
func csvCell(text string) string {
	text = Plain(text)
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return text
	}
	var b strings.Builder
	for i, part := range strings.Split(text, ";") {
		if i > 0 {
			b.WriteByte(';')
		}
		if rest := strings.TrimLeft(part, ` "'`); strings.HasPrefix(part, "'") || rest == "" ||
			!strings.ContainsRune("=+-@＝＋－＠﹦﹢﹣﹫", firstRune(rest)) {
			b.WriteString(part)
		} else {
			b.WriteString("'" + part)
		}
	}
	return b.String()
}

func firstRune(text string) rune {
	r, _ := utf8.DecodeRuneInString(text)
	return r
}

// plainJSON returns JSON with every character that would steer a terminal escaped by JSON's rules:
// such runes occur within strings only. The encoder itself escapes those of ASCII.
func plainJSON(text []byte) []byte {
	at := bytes.IndexFunc(text, steersJSON)
	if at < 0 {
		return text
	}
	out := slices.Clone(text[:at])
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if !steersJSON(r) {
			out = append(out, text[at:at+size]...)
		} else if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		at += size
	}
	return out
}

func steersJSON(r rune) bool { return r != '\n' && !strconv.IsPrint(r) }
