package op_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"memopt/graph"
	"memopt/graph/op"
)

// TestRules runs testdata/nn/*.txt. The command "infer" takes graph inputs on its first line,
// initializers in <> on its second if there are any, and nodes on the rest, all in ONNX's textual
// syntax; it prints the types of all node outputs, with the contents that inference could follow,
// or the error. "flops" prints each node's floating-point operations. The argument opset is the
// version of ONNX's operator set, 17 unless given.
func TestRules(t *testing.T) {
	datadriven.Walk(t, "testdata/nn", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, inferText)
	})
}

// inferText runs one command of a test file.
func inferText(t *testing.T, d *datadriven.TestData) string {
	opset := 17
	d.MaybeScanArgs(t, "opset", &opset)
	m, err := graph.Parse(modelText(d.Input, opset), d.Pos)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	r, err := op.Infer(m)
	if err != nil {
		return err.Error() + "\n"
	}
	if d.Cmd == "flops" {
		return flopsText(m, r)
	}
	return typesText(m, r)
}

// modelText completes a test's input to a model.
func modelText(input string, opset int) string {
	lines := strings.Split(input, "\n")
	head, rest := lines[0], lines[1:]
	inits := ""
	if len(rest) > 0 && strings.HasPrefix(rest[0], "<") {
		inits, rest = rest[0], rest[1:]
	}
	return fmt.Sprintf("<ir_version: 10, opset_import: [\"\" : %d, \"com.microsoft\" : 1, \"org.pytorch.aten\" : 1, "+
		"\"memopt\" : 1]>\n"+
		"g %s => () %s {\n%s\n}\n", opset, head, inits, strings.Join(rest, "\n"))
}

func typesText(m *graph.Model, r *op.Result) string {
	var b strings.Builder
	for _, n := range m.Graph.Nodes {
		for _, id := range n.Outputs {
			if id == graph.NoValue {
				continue
			}
			v := &m.Graph.Values[id]
			fmt.Fprintf(&b, "%s %v", v.Name, v.Type)
			if e, ok := r.Contents(id); ok {
				fmt.Fprintf(&b, " = %v", graph.Dims(e...))
			}
			b.WriteByte('\n')
		}
	}
	r.Walk(m.Graph, func(g *graph.Graph, r *op.Result) {
		for _, c := range r.Conflicts {
			fmt.Fprintf(&b, "conflict in %s: %s is declared %v and inferred %v\n", g.Name, g.ValueName(c.Value),
				c.Declared, c.Inferred)
		}
		for _, id := range r.NoRow {
			fmt.Fprintf(&b, "no row in %s: %s\n", g.Name, g.Nodes[id].Op)
		}
	})
	return b.String()
}

func flopsText(m *graph.Model, r *op.Result) string {
	var b strings.Builder
	for i, f := range op.FLOPs(m.Graph, m.Opsets, r) {
		fmt.Fprintf(&b, "%s %v\n", m.Graph.Nodes[i].Op, f)
	}
	return b.String()
}
