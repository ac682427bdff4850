package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	_ "memopt/internal/test/rapidflags"
)

// onScreen is what a table looks like on a screen.
func onScreen(t require.TestingT, table *Table, columns int) string {
	var b bytes.Buffer
	require.NoError(t, table.WriteText(&Screen{&b, columns}))
	return b.String()
}

func TestFitScreen(t *testing.T) {
	table := &Table{
		Title:  "Things",
		Header: []string{"Nodes run again", "Value", "Why it is kept"},
		Right:  []bool{true},
		Fit:    []Fit{Whole, Cut, Wrap},
	}
	table.Add("1,234,567", "/transformer/h.0/attn/Softmax_output_0", "the plan fits with it")
	table.Add("8", "/h.1/Gelu", "")
	for columns, want := range map[int]string{
		0: `Things
Nodes run again  Value                                   Why it is kept
---------------  --------------------------------------  ---------------------
      1,234,567  /transformer/h.0/attn/Softmax_output_0  the plan fits with it
              8  /h.1/Gelu
`,
		60: `Things
Nodes run  Value                       Why it is kept
    again
---------  --------------------------  ---------------------
1,234,567  /transformer/…max_output_0  the plan fits with it
        8  /h.1/Gelu
`,
		48: `Things
Nodes run  Value              Why it is kept
    again
---------  -----------------  ------------------
1,234,567  /transfo…output_0  the plan fits with
                              it
        8  /h.1/Gelu
`,
		30: `Things
Nodes run again  1,234,567
Value            /trans…tput_0
Why it is kept   the plan fits
                 with it

Nodes run again  8
Value            /h.1/Gelu
`,
	} {
		assert.Equal(t, want, onScreen(t, table, columns), "%d columns", columns)
	}
}

// TestScreenDefault: what is no Screen has 80 columns; forms other than text are never cut.
func TestScreenDefault(t *testing.T) {
	name := strings.Repeat("name", 50)
	table := &Table{Header: []string{"Value"}, Fit: []Fit{Cut}}
	table.Add(name)
	var b bytes.Buffer
	require.NoError(t, table.WriteText(&b))
	assert.Equal(t, onScreen(t, table, DefaultColumns), b.String())
	assert.NotContains(t, b.String(), name)
	for _, f := range []Format{CSVFormat, MarkdownFormat} {
		b.Reset()
		require.NoError(t, table.WriteAs(&Screen{&b, 20}, f))
		assert.Contains(t, b.String(), name)
	}
}

func TestShortened(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"abcdef", 6, "abcdef"}, {"abcdef", 5, "ab…ef"}, {"abcdef", 4, "ab…f"}, {"abcdef", 2, "a…"},
		{"abcdef", 1, "…"}, {"", 1, ""},
		{"層の活性化", 10, "層の活性化"}, {"層の活性化", 9, "層の…性化"}, {"層の活性化", 8, "層の…化"},
		{"層の活性化", 3, "…化"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"}, {"e\u0301e\u0301e\u0301e\u0301", 3, "e\u0301…e\u0301"},
	} {
		assert.Equal(t, c.want, shortened(c.text, c.n), "%q to %d", c.text, c.n)
	}
}

func TestBroken(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want []string
	}{
		{"a b c", 0, []string{"a b c"}}, {"", 3, []string{""}},
		{"one two three", 7, []string{"one two", "three"}},
		{"one two three", 8, []string{"one two", "three"}},
		{"MatMul+Mul+Where+:1:-1", 10, []string{"MatMul+", "Mul+Where+", ":1:-1"}},
		{"abcdefgh", 3, []string{"abc", "def", "gh"}},
		{"  ab cd", 5, []string{"  ab", "cd"}},
		{"層の活", 1, []string{"層", "の", "活"}},
	} {
		assert.Equal(t, c.want, broken(c.text, c.n), "%q to %d", c.text, c.n)
	}
}

func TestParagraph(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, Paragraph(&Screen{&b, 10}, "one two three\x1b[m\n"))
	assert.Equal(t, "one two\nthree\\x1b[\nm\n", b.String())
}

// TestTablesFit: whatever the cells hold, no line is wider than a screen on which the columns that
// stay whole leave room, nothing of a broken cell is lost, and on a screen without a limit each
// row is a line.
func TestTablesFit(t *testing.T) {
	cells := rapid.StringMatching(`([a-z+/. 層é]|\x{65}\x{301}){0,60}`)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "columns")
		table := &Table{}
		for range n {
			table.Header = append(table.Header, rapid.StringMatching(`[a-z]{1,8}( [a-z]{1,8}){0,2}`).Draw(t, "head"))
			table.Right = append(table.Right, rapid.Bool().Draw(t, "right"))
			table.Fit = append(table.Fit, rapid.SampledFrom([]Fit{Whole, Cut, Wrap}).Draw(t, "fit"))
		}
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			row := make([]string, n)
			for i := range row {
				if row[i] = "1,234,567"; table.Fit[i] != Whole {
					row[i] = cells.Draw(t, "cell")
				}
			}
			table.Rows = append(table.Rows, row)
		}
		screen := rapid.IntRange(24, 120).Draw(t, "screen")
		text := onScreen(t, table, screen)
		for line := range strings.Lines(text) {
			require.LessOrEqual(t, uniseg.StringWidth(strings.TrimSuffix(line, "\n")), screen, "%q", line)
		}
		require.Equal(t, len(table.Rows)+2, strings.Count(onScreen(t, table, 0), "\n"))
		for _, row := range table.Rows {
			for i, cell := range row {
				if table.Fit[i] == Wrap {
					joined := strings.Join(broken(cell, screen), "")
					require.Equal(t, strings.ReplaceAll(cell, " ", ""), strings.ReplaceAll(joined, " ", ""))
				}
			}
		}
	})
}
