package memopt_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// flagged are the folders and files whose texts may have flags, with the reasons.
var flagged = map[string]string{
	"cmd/":                   "the command line itself",
	"answers/sweep/":         "it writes command lines",
	"bench/":                 "it runs programs",
	"scripts/":               "they run programs",
	"integrations/":          "modules of their own",
	"internal/test/":         "no part of a program",
	".ci/":                   "it reads the output of tests",
	"executor/cuda/kernels/": "clang's flags",
	"internal/simd/asm/":     "a generator with a command line of its own",
	"train/mpi/launcher.go":  "srun's flags",
}

// TestNoFlags: libraries advise by options (package hint), which cmd/memopt words as flags, so that no text below
// it has the name of a flag.
func TestNoFlags(t *testing.T) {
	flag := regexp.MustCompile(`(^|[^-\w])--[a-z]`)
	literals := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for where := range flagged {
			if strings.HasPrefix(filepath.ToSlash(path), where) {
				return nil
			}
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				literals++
				if flag.MatchString(strings.Trim(lit.Value, "\"`")) {
					t.Errorf("%s: %s names a flag: use an option of package hint", set.Position(lit.Pos()), lit.Value)
				}
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, literals, 10_000)
}
