package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
)

// Format is the form of a report.
type Format string

// The forms that -O selects.
const (
	TableFormat    Format = "table"
	JSONFormat     Format = "json"
	CSVFormat      Format = "csv"
	MarkdownFormat Format = "markdown"
)

// Formats lists the valid forms.
var Formats = []Format{TableFormat, JSONFormat, CSVFormat, MarkdownFormat}

// ParseFormat checks the value of -O.
func ParseFormat(text string) (Format, error) {
	for _, f := range Formats {
		if text == string(f) {
			return f, nil
		}
	}
	return "", fmt.Errorf("output %q: wanted one of table, json, csv, markdown", text)
}

// Table is a grid of text with a header.
type Table struct {
	Title  string
	Header []string
	Rows   [][]string
	// Right marks the columns whose cells are aligned to the right.
	Right []bool
	// Fit is how the cells of each column are shortened if the screen is too narrow; Auto for
	// columns that are not mentioned. Long names belong into the last column. CSV, Markdown and
	// JSON have all cells whole.
	Fit []Fit
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// WriteText writes the table for people: columns padded to their width plus two blanks, the header
// underlined. It fits the columns of a Screen, or 80: long cells are cut in the middle or broken
// into lines as Fit says, and if that is not enough, each cell has a line of its own.
func (t *Table) WriteText(w io.Writer) error {
	var b strings.Builder
	screen := columnsOf(w)
	if t.Title != "" {
		b.WriteString(strings.Join(broken(Plain(t.Title), screen), "\n") + "\n")
	}
	rows := plainCells(t.Rows, shownCell)
	width := t.layout(rows, screen)
	if width == nil {
		t.writeStacked(&b, rows, screen)
		_, err := io.WriteString(w, b.String())
		return err
	}
	head, rule := make([][]string, len(width)), make([][]string, len(width))
	for i, n := range width {
		head[i] = broken(t.Header[i], n)
		rule[i] = []string{strings.Repeat("-", n)}
	}
	t.writeRow(&b, head, width)
	t.writeRow(&b, rule, width)
	for _, row := range rows {
		cells := make([][]string, len(row))
		for i, cell := range row {
			cells[i] = t.lines(i, cell, width[i])
		}
		t.writeRow(&b, cells, width)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteCSV writes the table as CSV (RFC 4180) with a header line. Cells that a spreadsheet would
// take for formulas have an apostrophe in front.
func (t *Table) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write(t.Header); err != nil {
		return err
	}
	if err := c.WriteAll(plainCells(t.Rows, csvCell)); err != nil {
		return err
	}
	c.Flush()
	return c.Error()
}

// WriteMarkdown writes the table as a GitHub-flavoured Markdown table.
func (t *Table) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	if t.Title != "" {
		line(&b, "### %s", escapeMarkdown(t.Title))
		b.WriteByte('\n')
	}
	row := func(cells []string) {
		b.WriteByte('|')
		for _, c := range cells {
			fmt.Fprintf(&b, " %s |", escapeMarkdown(c))
		}
		b.WriteByte('\n')
	}
	row(t.Header)
	b.WriteByte('|')
	for i := range t.Header {
		if i < len(t.Right) && t.Right[i] {
			b.WriteString(" ---: |")
		} else {
			b.WriteString(" --- |")
		}
	}
	b.WriteByte('\n')
	for _, cells := range t.Rows {
		row(cells)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// markup escapes text that would end a cell or turn into markup: emphasis, tags, entities, links
// and pictures.
var markup = strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "`", "\\`", "<", "&lt;", "&", "&amp;", "](", `]\(`)

// escapeMarkdown returns a cell's text as text.
func escapeMarkdown(s string) string { return markup.Replace(Plain(s)) }
