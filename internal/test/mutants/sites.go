package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A site is a place in a file where a few bytes can be replaced: one mutant.
type site struct {
	pkg         string // import path
	file        string // absolute path
	line        int
	reached     int    // the line that tests reach that run it: of a case's expressions, that of the switch
	from, to    int    // bytes of the file that are replaced
	replacement string // text in their place
	what        string // for people: "< becomes <="
}

// swaps has the operators that can stand in another's place.
var swaps = map[token.Token][]token.Token{
	token.LSS:        {token.LEQ, token.GTR},
	token.LEQ:        {token.LSS, token.GTR},
	token.GTR:        {token.GEQ, token.LSS},
	token.GEQ:        {token.GTR, token.LSS},
	token.EQL:        {token.NEQ},
	token.NEQ:        {token.EQL},
	token.LAND:       {token.LOR},
	token.LOR:        {token.LAND},
	token.ADD:        {token.SUB},
	token.SUB:        {token.ADD},
	token.MUL:        {token.QUO},
	token.QUO:        {token.MUL},
	token.REM:        {token.MUL},
	token.AND:        {token.OR},
	token.OR:         {token.AND},
	token.ADD_ASSIGN: {token.SUB_ASSIGN, token.ASSIGN},
	token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.MUL_ASSIGN: {token.ASSIGN},
	token.INC:        {token.DEC},
	token.DEC:        {token.INC},
}

// sitesOf returns the sites of all files of packages, in the order of the files.
func sitesOf(targets []pkg) ([]site, error) {
	var sites []site
	for _, p := range targets {
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			found, err := sitesIn(p.ImportPath, path, text)
			if err != nil {
				return nil, err
			}
			sites = append(sites, found...)
		}
	}
	return sites, nil
}

// sitesIn returns the sites of one file; generated files have none.
func sitesIn(pkg, path string, text []byte) ([]site, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(f) {
		return nil, nil
	}
	v := visitor{files: files, text: text, site: site{pkg: pkg, file: path}}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			ast.Inspect(fn.Body, v.visit)
		}
	}
	return v.sites, nil
}

// A visitor collects the sites of function bodies.
type visitor struct {
	files *token.FileSet
	text  []byte
	site  site // has the package and the file
	sites []site
	cases []caseList
}

// A caseList is where the expressions of a case are, and the line of its switch. Coverage counts a
// case for the tests alone that run its body; every test that comes to the switch may run its
// expressions.
type caseList struct {
	from, to token.Pos
	line     int
}

// add notes the site that replaces the text between two positions.
func (v *visitor) add(from, to token.Pos, replacement, what string) {
	s := v.site
	p := v.files.Position(from)
	s.line, s.from, s.to = p.Line, p.Offset, v.files.Position(to).Offset
	s.reached = s.line
	for _, c := range v.cases {
		if c.from <= from && from < c.to {
			s.reached = c.line
		}
	}
	s.replacement, s.what = replacement, what
	v.sites = append(v.sites, s)
}

// source returns the text of a node.
func (v *visitor) source(n ast.Node) string {
	return string(v.text[v.files.Position(n.Pos()).Offset:v.files.Position(n.End()).Offset])
}

func (v *visitor) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SwitchStmt:
		for _, clause := range n.Body.List {
			if list := clause.(*ast.CaseClause).List; len(list) > 0 {
				line := v.files.Position(n.Switch).Line
				v.cases = append(v.cases, caseList{list[0].Pos(), list[len(list)-1].End(), line})
			}
		}
	case *ast.BinaryExpr:
		v.swap(n.OpPos, n.Op)
	case *ast.IncDecStmt:
		v.swap(n.TokPos, n.Tok)
	case *ast.AssignStmt:
		v.swap(n.TokPos, n.Tok)
		if n.Tok != token.DEFINE && len(n.Lhs) == 1 {
			v.remove(n, n.Lhs[0], n.Rhs[0])
		}
	case *ast.ExprStmt:
		v.remove(n)
	case *ast.IfStmt:
		v.add(n.Cond.Pos(), n.Cond.End(), "!("+v.source(n.Cond)+")", "the condition is negated")
	case *ast.BranchStmt:
		v.branch(n)
	case *ast.ReturnStmt:
		for _, r := range n.Results {
			if id, ok := r.(*ast.Ident); ok {
				v.boolean(id)
			}
		}
	case *ast.BasicLit:
		v.literal(n)
	}
	return true
}

func (v *visitor) swap(at token.Pos, tok token.Token) {
	for _, other := range swaps[tok] {
		v.add(at, at+token.Pos(len(tok.String())), other.String(), fmt.Sprintf("%s becomes %s", tok, other))
	}
}

// remove takes a statement away. Its operands are still mentioned, so that no variable is unused.
func (v *visitor) remove(n ast.Node, operands ...ast.Expr) {
	kept := "{}"
	if len(operands) > 0 {
		var names []string
		for _, e := range operands {
			if id, ok := e.(*ast.Ident); !ok || id.Name != "_" {
				names = append(names, v.source(e))
			}
		}
		kept = "_" + strings.Repeat(", _", max(0, len(names)-1)) + " = " + strings.Join(names, ", ")
	}
	text, _, _ := strings.Cut(v.source(n), "\n")
	v.add(n.Pos(), n.End(), kept, fmt.Sprintf("%q is removed", text))
}

func (v *visitor) branch(n *ast.BranchStmt) {
	switch {
	case n.Label != nil:
	case n.Tok == token.BREAK:
		v.add(n.Pos(), n.End(), "continue", "break becomes continue")
	case n.Tok == token.CONTINUE:
		v.add(n.Pos(), n.End(), "break", "continue becomes break")
	}
}

func (v *visitor) boolean(id *ast.Ident) {
	switch id.Name {
	case "true":
		v.add(id.Pos(), id.End(), "false", "true becomes false")
	case "false":
		v.add(id.Pos(), id.End(), "true", "false becomes true")
	}
}

// literal changes small whole numbers by one.
func (v *visitor) literal(n *ast.BasicLit) {
	if n.Kind != token.INT {
		return
	}
	if i, err := strconv.ParseInt(n.Value, 10, 32); err == nil {
		other := strconv.FormatInt(i+1, 10)
		v.add(n.Pos(), n.End(), other, n.Value+" becomes "+other)
	}
}
