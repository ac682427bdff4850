package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Plain returns text that comes from a model, or from any other file, as it may be printed: what would steer a
// terminal, end a line or turn the direction of reading (control characters, escape sequences, line separators,
// bidirectional marks, bytes that are no UTF-8) is written as Go escapes it in a string, "\x1b" for
// example. Names that are words in any script stay as they are.
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

// steers reports whether a rune does more than show itself. utf8.RuneError counts, since it stands for bytes that
// are no UTF-8.
func steers(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }

// maxMessage is how many bytes of a message are printed where nobody asks for more: a dozen lines of a terminal,
// which the longest of memopt's own stay below, but not names of a hostile model.
const maxMessage = 1024

// Message returns what is said on one line: Plain, with lines joined, and without the middle of what is too
// long unless whole is set.
func Message(text string, whole bool) string {
	text = strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", " ")
	if n := len(text); n > maxMessage && !whole {
		const half = maxMessage / 2
		text = fmt.Sprintf("%s … (%d bytes left out; -v prints them) … %s", strings.ToValidUTF8(text[:half], ""), n-2*half, strings.ToValidUTF8(text[n-half:], ""))
	}
	return Plain(text)
}

// line writes one line of a report: whatever the arguments hold, it stays one.
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

// csvCell returns a cell as text in programs that calculate, too: those take one that begins with =, +, - or @ for
// a formula, unless it is a number, and an apostrophe in front tells them not to.
func csvCell(text string) string {
	text = Plain(text)
	if text != "" && strings.IndexByte("=+-@", text[0]) >= 0 {
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return "'" + text
		}
	}
	return text
}
