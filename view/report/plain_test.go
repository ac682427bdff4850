package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"/h.0/attn/Softmax_3":    "/h.0/attn/Softmax_3",
		"größe 重み ×… a b":        "größe 重み ×… a b",
		"a\nmemopt: fake":        `a\nmemopt: fake`,
		"\x1b[31mred\x07":        `\x1b[31mred\a`,
		"\u009b31m":              `\u009b31m`,
		"a\u202eb\u2066c\u200f":  `a\u202eb\u2066c\u200f`,
		"\u2028\u2029\u00a0\x7f": `\u2028\u2029\u00a0\x7f`,
		"tab\tand\rreturn":       `tab\tand\rreturn`,
		"bad \xff\xc3 bytes":     `bad \xff\xc3 bytes`,
		"\ufffd":                 `\ufffd`,
		"\U000e0001":             `\U000e0001`,
	} {
		got := Plain(text)
		require.Equal(t, want, got)
		require.Equal(t, got, Plain(got), "said twice")
	}
}

// FuzzPlain: whatever comes in, what goes out is one line that shows itself and does nothing else.
func FuzzPlain(f *testing.F) {
	f.Add("a\n\x1b[0m")
	f.Add("\xff\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		got := Plain(text)
		require.Equal(t, -1, strings.IndexFunc(got, steers), "%q", got)
		if strings.IndexFunc(text, steers) < 0 {
			require.Equal(t, text, got)
		}
	})
}

func TestMessage(t *testing.T) {
	require.Equal(t, "one two", Message("one\ntwo\n", false))
	at := strings.Repeat("x", maxMessage)
	require.Equal(t, at, Message(at, false))
	long := "first" + strings.Repeat("é", 1<<19) + "last"
	got := Message(long, false)
	require.Less(t, len(got), maxMessage+100)
	require.True(t, strings.HasPrefix(got, "firsté") && strings.HasSuffix(got, "élast") && utf8.ValidString(got), got)
	require.Contains(t, got, "(1047561 bytes left out; -v prints them)")
	require.Equal(t, long, Message(long, true))
}

// TestHostileCells: names cannot forge lines or columns, and no spreadsheet takes them for
// formulas.
func TestHostileCells(t *testing.T) {
	table := Table{Title: "title\nforged", Header: []string{"name", "bytes"}, Right: []bool{false, true}}
	table.Add("a\nb\x1b[2J", "-1")
	table.Add("=cmd|' /C calc'!A0", "1.5e3")
	table.Add("@x", "+y")
	table.Add(`[a](b) \| &lt;`, "`x`")
	table.Add(` =1;+2; "-3`, "＝4")
	var text, csv, markdown bytes.Buffer
	require.NoError(t, table.WriteText(&text))
	require.NoError(t, table.WriteCSV(&csv))
	require.NoError(t, table.WriteMarkdown(&markdown))
	require.Equal(t, `title\nforged
name                bytes
------------------  -----
a\nb\x1b[2J            -1
=cmd|' /C calc'!A0  1.5e3
@x                     +y
[a](b) \| &lt;        `+"`x`"+`
 =1;+2; "-3           ＝4
`, text.String())
	require.Equal(t, `name,bytes
a\nb\x1b[2J,-1
'=cmd|' /C calc'!A0,1.5e3
'@x,'+y
[a](b) \| &lt;,`+"`x`"+`
"' =1;'+2;' ""-3",'＝4
`, csv.String())
	require.Equal(t, `### title\\nforged

| name | bytes |
| --- | ---: |
| a\\nb\\x1b[2J | -1 |
| =cmd\|' /C calc'!A0 | 1.5e3 |
| @x | +y |
| [a]\(b) \\\| &amp;lt; | `+"\\`x\\`"+` |
|  =1;+2; "-3 | ＝4 |

`, markdown.String())
}

// TestCellsAreCut: a one-megabyte name does not make every row of its table as wide. Nothing is cut
// for programs.
func TestCellsAreCut(t *testing.T) {
	long := strings.Repeat("é", 1<<19)
	table := Table{Header: []string{"name"}}
	table.Add(long)
	for range 1000 {
		table.Add("short")
	}
	var text, csv bytes.Buffer
	require.NoError(t, table.WriteText(&Screen{&text, 0}))
	require.NoError(t, table.WriteCSV(&csv))
	require.Less(t, text.Len(), 1<<14)
	require.Contains(t, text.String(), "é … (1047552 bytes) … é")
	require.Contains(t, csv.String(), long+"\n")
}

// TestPlainJSON: what steers a terminal is escaped in JSON, too, and reads back as it was.
func TestPlainJSON(t *testing.T) {
	want := "a\x1b[2J\u009b31m\u202e\u2028\U000e0001\u00a0\x7f\nü重\U0001f600"
	var out bytes.Buffer
	require.NoError(t, WriteJSON(&out, map[string]string{want: want}))
	require.Equal(t, -1,
		strings.IndexFunc(strings.TrimSuffix(out.String(), "\n"), func(r rune) bool { return r != '\n' && steers(r) }),
		"%q", out.String())
	require.Contains(t, out.String(), `\u001b[2J\u009b31m\u202e\u2028\udb40\udc01\u00a0\u007f\nü重😀`)
	var got map[string]string
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, map[string]string{want: want}, got)
}
