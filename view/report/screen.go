package report

import (
	"io"
	"strings"

	"github.com/rivo/uniseg"
)

// DefaultColumns is the width of text for people if the width of their screen is unknown.
const DefaultColumns = 80

// Screen is a writer that knows how many columns its reader sees. Tables and paragraphs that are
// written to it fit them; those that are written to another writer fit DefaultColumns.
type Screen struct {
	io.Writer
	Columns int // 0 means no limit: no text is cut or broken
}

// columnsOf returns how wide text for people may be on a writer; 0 means no limit.
func columnsOf(w io.Writer) int {
	if s, ok := w.(*Screen); ok {
		return s.Columns
	}
	return DefaultColumns
}

// Paragraph writes sentences, broken at blanks where the line would be wider than the screen. The
// text always ends in one newline.
func Paragraph(w io.Writer, text string) error {
	lines := broken(Plain(strings.TrimRight(text, "\n")), columnsOf(w))
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// displayWidth is how many columns of a terminal a text takes: two for a wide East Asian character,
// 0 for an accent that is added to a letter.
func displayWidth(text string) int { return uniseg.StringWidth(text) }

// prefix splits off the longest start of a text that takes at most n columns.
func prefix(text string, n int) (start, rest string) {
	rest, state := text, -1
	for rest != "" {
		_, after, width, next := uniseg.FirstGraphemeClusterInString(rest, state)
		if n -= width; n < 0 {
			break
		}
		rest, state = after, next
	}
	return text[:len(text)-len(rest)], rest
}

// shortened leaves out the middle of a text that takes more than n columns: names differ at their
// ends, where the layer and the operator stand.
func shortened(text string, n int) string {
	total := displayWidth(text)
	if total <= n {
		return text
	}
	if n < 2 {
		return "…"
	}
	start, _ := prefix(text, n/2)
	left, _ := prefix(text, total-(n-1-displayWidth(start)))
	end := text[len(left):]
	for displayWidth(start)+1+displayWidth(end) > n { // a wide character stood at the cut
		_, end = prefix(end, max(1, firstWidth(end)))
	}
	return start + "…" + end
}

func firstWidth(text string) int {
	_, _, width, _ := uniseg.FirstGraphemeClusterInString(text, -1)
	return width
}

// broken breaks a text into lines of at most n columns: at blanks, longer words behind a character
// that joins the parts of a name, else anywhere. Leading blanks stay, so that rows can be indented.
// n = 0 means one line.
func broken(text string, n int) []string {
	if n <= 0 || displayWidth(text) <= n {
		return []string{text}
	}
	var lines []string
	for {
		start, rest := prefix(text, n)
		if rest == "" {
			break
		}
		if start == "" { // a character that is wider than the line
			start, rest = prefix(text, firstWidth(text))
		}
		at := len(start)
		if rest != "" && rest[0] != ' ' {
			at = breakPoint(start)
		}
		lines = append(lines, strings.TrimRight(text[:at], " "))
		text = strings.TrimLeft(text[at:], " ")
	}
	if text != "" {
		lines = append(lines, text)
	}
	return lines
}

// breakPoint is how many bytes of a line's start to keep on it.
func breakPoint(start string) int {
	indent := len(start) - len(strings.TrimLeft(start, " "))
	if at := strings.LastIndexByte(start, ' '); at > indent {
		return at
	}
	if at := strings.LastIndexAny(start, "+/.,;:_=|"); at > indent {
		return at + 1
	}
	return len(start)
}
