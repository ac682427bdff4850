package memopt_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// askedFor lists files outside the tables that may ask which operator a node is, with the reason. A
// folder stands for all files in it. Package op, which has the table, names kinds without a
// qualifier, so the test does not see it.
var askedFor = map[string]string{
	"executor/cpu/":             "kernels of one family share a maker, which asks which of them it makes",
	"executor/cuda/":            "likewise",
	"executor/operand/":         "what the makers of both devices read",
	"internal/test/kerneltest/": "cases of operators, by name",
	"sim/ort/":                  "what ONNX Runtime does with single operators: a table of rewrites",
	"bench/":                    "programs that measure",
}

// TestOperatorsAreRows: no code outside the tables compares a node's kind or name with that of an
// operator; what is true of an operator is a column. op.Unknown is not the kind of an operator.
func TestOperatorsAreRows(t *testing.T) {
	kinds := kindNames(t)
	var found []string
	unused := maps.Clone(askedFor)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		path = filepath.ToSlash(path)
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ask := func(at ast.Node, name string) {
			if prefix := excuse(path); prefix != "" {
				delete(unused, prefix)
				return
			}
			found = append(found, fmt.Sprintf("%v: %s", set.Position(at.Pos()), name))
		}
		ast.Inspect(file, func(n ast.Node) bool { comparisons(n, kinds, ask); return true })
		return nil
	})
	require.NoError(t, err)
	require.Empty(t, found, "operators asked for by name outside the tables: add a column, or a reason to askedFor")
	require.Empty(t, unused, "these ask for no operator any more: take them out of askedFor")
}

// excuse returns the entry of askedFor that a file comes under; "": none.
func excuse(path string) string {
	for prefix := range askedFor {
		if strings.HasPrefix(path, prefix) {
			return prefix
		}
	}
	return ""
}

// comparisons tells ask of every operator that a node of the syntax compares with.
func comparisons(n ast.Node, kinds map[string]bool, ask func(ast.Node, string)) {
	kind := func(e ast.Expr) {
		if s, ok := e.(*ast.SelectorExpr); ok && kinds[s.Sel.Name] {
			if p, ok := s.X.(*ast.Ident); ok && p.Name == "op" {
				ask(e, "op."+s.Sel.Name)
			}
		}
	}
	text := func(e, with ast.Expr) {
		s, named := e.(*ast.SelectorExpr)
		if l, ok := with.(*ast.BasicLit); ok && named && s.Sel.Name == "Op" && l.Value != `""` {
			ask(e, l.Value)
		}
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.EQL || n.Op == token.NEQ {
			kind(n.X)
			kind(n.Y)
			text(n.X, n.Y)
			text(n.Y, n.X)
		}
	case *ast.SwitchStmt:
		for _, s := range n.Body.List {
			for _, e := range s.(*ast.CaseClause).List {
				kind(e)
				if n.Tag != nil {
					text(n.Tag, e)
				}
			}
		}
	case *ast.CompositeLit:
		if _, ok := n.Type.(*ast.MapType); ok {
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					kind(kv.Key)
				}
			}
		}
	}
}

// kindNames are the names of the constants of kinds of operators.
func kindNames(t *testing.T) map[string]bool {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("graph", "op", "kind.go"), nil, 0)
	require.NoError(t, err)
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			for _, name := range v.Names {
				names[name.Name] = true
			}
		}
		return true
	})
	for _, no := range []string{"Unknown", "NumKinds"} {
		delete(names, no)
	}
	require.Greater(t, len(names), 200)
	return names
}

// TestComparisonsAreFound: the test above sees every way to ask.
func TestComparisonsAreFound(t *testing.T) {
	const source = `package p
func f() {
	if n.Kind == op.Relu || op.Add != k || n.Op == "Mul" || "Div" != n.Op || n.Kind == op.Unknown || n.Name == "x" {}
	switch n.Kind { case op.Sub, op.Unknown: }
	switch n.Op { case "Neg": }
	switch { case k == op.Exp: }
	_ = map[graph.Kind]int{op.Log: 1}
	_ = append(list, op.Abs)
}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	require.NoError(t, err)
	var got []string
	ast.Inspect(file, func(n ast.Node) bool {
		comparisons(n, kindNames(t), func(_ ast.Node, name string) { got = append(got, name) })
		return true
	})
	slices.Sort(got)
	require.Equal(t, []string{`"Div"`, `"Mul"`, `"Neg"`, "op.Add", "op.Exp", "op.Log", "op.Relu", "op.Sub"}, got)
}
