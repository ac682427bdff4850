package report

import (
	"slices"
	"strings"
)

// Fit is how the cells of a column are shortened if a table is wider than the screen.
type Fit uint8

const (
	Auto  Fit = iota // Whole in a column that is aligned to the right, else Cut
	Whole            // never shortened: numbers, and short words
	Cut              // the middle is left out: names of values and nodes
	Wrap             // broken into lines: sentences, and text to copy
)

// Narrower than these, columns are not made: names would all look alike, sentences be one word to a
// line.
const (
	leastCut  = 12
	leastWrap = 16
)

// gap is how many blanks stand between columns.
const gap = 2

// fit returns how a column may change.
func (t *Table) fit(column int) Fit {
	if column < len(t.Fit) && t.Fit[column] != Auto {
		return t.Fit[column]
	}
	if column < len(t.Right) && t.Right[column] {
		return Whole
	}
	return Cut
}

// layout returns the widths of the columns on a screen; nil if the table cannot be made to fit.
// Headers of several words are broken first, then the widest columns that may shrink do.
func (t *Table) layout(rows [][]string, screen int) []int {
	width := make([]int, len(t.Header))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], displayWidth(cell))
		}
	}
	cells := slices.Clone(width)
	for i, head := range t.Header {
		width[i] = max(width[i], displayWidth(head))
	}
	if screen <= 0 || total(width) <= screen {
		return width
	}
	least := make([]int, len(width))
	for i, head := range t.Header {
		least[i] = max(cells[i], longestWord(head))
	}
	shrink(width, least, screen)
	for i, head := range t.Header {
		word := longestWord(head)
		switch t.fit(i) {
		case Cut:
			least[i] = min(width[i], max(word, leastCut))
		case Wrap:
			least[i] = min(width[i], max(word, leastWrap))
		default:
			least[i] = width[i]
		}
	}
	if total(least) > screen {
		return nil
	}
	shrink(width, least, screen)
	return width
}

// shrink narrows the widest columns until a row fits the screen, or no column can be narrower.
func shrink(width, least []int, screen int) {
	for total(width) > screen {
		i := widest(width, least)
		if i < 0 {
			return
		}
		width[i]--
	}
}

// widest is the widest column that is above its least width; -1 if there is no such column.
func widest(width, least []int) int {
	best := -1
	for i, n := range width {
		if n > least[i] && (best < 0 || n > width[best]) {
			best = i
		}
	}
	return best
}

// total is how many columns of the screen a row takes.
func total(width []int) int {
	n := gap * (len(width) - 1)
	for _, w := range width {
		n += w
	}
	return n
}

func longestWord(text string) int {
	n := 0
	for _, word := range strings.Fields(text) {
		n = max(n, displayWidth(word))
	}
	return n
}

// lines returns a cell as the lines that it takes in a column of some width.
func (t *Table) lines(column int, cell string, width int) []string {
	switch t.fit(column) {
	case Cut:
		return []string{shortened(cell, width)}
	case Wrap:
		return broken(cell, width)
	}
	return []string{cell}
}

// writeRow writes cells of one line or more, padded to the widths of their columns.
func (t *Table) writeRow(b *strings.Builder, row [][]string, width []int) {
	height := 1
	for _, cell := range row {
		height = max(height, len(cell))
	}
	for y := range height {
		var text strings.Builder
		for i, cell := range row {
			part := ""
			if y < len(cell) {
				part = cell[y]
			}
			pad := strings.Repeat(" ", max(0, width[i]-displayWidth(part)))
			if i > 0 {
				text.WriteString(strings.Repeat(" ", gap))
			}
			if i < len(t.Right) && t.Right[i] {
				text.WriteString(pad + part)
			} else {
				text.WriteString(part + pad)
			}
		}
		b.WriteString(strings.TrimRight(text.String(), " "))
		b.WriteByte('\n')
	}
}

// writeStacked writes the rows one below the other, each cell on a line of its own behind its
// header: for screens that are narrower than any table.
func (t *Table) writeStacked(b *strings.Builder, rows [][]string, screen int) {
	head := 0
	for _, h := range t.Header {
		head = max(head, displayWidth(h))
	}
	head = min(head, screen/2)
	left := Table{Header: make([]string, 2), Fit: []Fit{Whole, Wrap}}
	width := []int{head, max(1, screen-head-gap)}
	for i, row := range rows {
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, cell := range row {
			if cell != "" {
				left.writeRow(b, [][]string{broken(t.Header[j], head), t.stacked(j, cell, width[1])}, width)
			}
		}
	}
}

// stacked is a cell of a stacked table: a column that is never shortened may be wider than the
// screen.
func (t *Table) stacked(column int, cell string, width int) []string {
	if t.fit(column) == Cut {
		return []string{shortened(cell, width)}
	}
	return broken(cell, width)
}
