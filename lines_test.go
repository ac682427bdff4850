package memopt_test

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxColumns is how wide a line of Go may be, with tabs of tabColumns.
const (
	maxColumns = 120
	tabColumns = 4
)

// TestLineLength holds every line of Go to maxColumns. What is in raw strings does not count: it is text
// of other languages, a graph or a listing, whose lines have a meaning there.
func TestLineLength(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		files++
		return checkLineLength(t, path)
	})
	require.NoError(t, err)
	require.Positive(t, files)
}

func checkLineLength(t *testing.T, path string) error {
	src, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if bytes.HasPrefix(src, []byte("// Code generated ")) {
		return nil
	}
	for i, line := range strings.Split(string(withoutRawStrings(src)), "\n") {
		if n := len([]rune(line)) + (tabColumns-1)*strings.Count(line, "\t"); n > maxColumns {
			t.Errorf("%s:%d: the line is %d columns wide, wanted %d at most", path, i+1, n, maxColumns)
		}
	}
	return nil
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
