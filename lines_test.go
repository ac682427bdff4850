package memopt_test

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxColumns is how wide a line may be, with tabs of tabColumns.
const (
	maxColumns = 120
	tabColumns = 4
)

// TestLineLength holds every line of Go, C, CUDA, Python and prose to maxColumns. Text of other languages within them
// does not count, since its lines have a meaning there: raw strings of Go; tables, listings and links that stand alone
// in Markdown; comments of Python that only a checker reads.
func TestLineLength(t *testing.T) {
	kinds := map[string]func([]byte) []byte{
		".go": withoutRawStrings, ".md": prose, ".py": withoutPragmas, ".c": asIs, ".cu": asIs, ".h": asIs,
	}
	files := map[string]int{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != ".") {
			return filepath.SkipDir
		}
		text := kinds[filepath.Ext(path)]
		if err != nil || d.IsDir() || text == nil {
			return err
		}
		files[filepath.Ext(path)]++
		return checkLineLength(t, path, text)
	})
	require.NoError(t, err)
	require.Len(t, files, len(kinds))
}

func checkLineLength(t *testing.T, path string, text func([]byte) []byte) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(src, []byte("// Code generated ")) {
		return nil
	}
	for i, line := range strings.Split(string(text(src)), "\n") {
		if n := len([]rune(line)) + (tabColumns-1)*strings.Count(line, "\t"); n > maxColumns {
			t.Errorf("%s:%d: the line is %d columns wide, wanted %d at most", path, i+1, n, maxColumns)
		}
	}
	return nil
}

func asIs(src []byte) []byte { return src }

// pragma is a comment of Python for a checker, for example "# type: ignore[arg-type]".
var pragma = regexp.MustCompile(`  # (type: ignore|noqa).*`)

func withoutPragmas(src []byte) []byte { return pragma.ReplaceAll(src, nil) }

// lone is a line of Markdown whose width is not free: a row of a table, a line of an indented listing, a single link.
var lone = regexp.MustCompile(`^(\s*\||    |\s*\[[^]]*\](: |\()\S+$)`)

// prose returns Markdown with empty lines in the place of tables and listings.
func prose(src []byte) []byte {
	lines := strings.Split(string(src), "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || fenced || lone.MatchString(line) {
			lines[i] = ""
		}
		fenced = fenced != fence
	}
	return []byte(strings.Join(lines, "\n"))
}

// withoutRawStrings returns a source with the text of raw strings left out, but for its line breaks.
func withoutRawStrings(src []byte) []byte {
	var out []byte
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(src))
	s.Init(file, src, nil, scanner.ScanComments)
	from := 0
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return append(out, src[from:]...)
		}
		if tok != token.STRING || lit[0] != '`' {
			continue
		}
		at := file.Offset(pos)
		end := at + 1 + bytes.IndexByte(src[at+1:], '`') + 1
		out = append(out, src[from:at]...)
		out = append(out, bytes.Repeat([]byte("\n"), bytes.Count(src[at:end], []byte("\n")))...)
		from = end
	}
}
