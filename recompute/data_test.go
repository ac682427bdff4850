package recompute_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
	ortsim "memopt/sim/ort"
)

// TestData runs testdata/*.txt. The input of each command is a graph in ONNX's textual syntax.
//
//	find [probe=L:B] [order=ort|file]   prints order, stashes, candidates, rejections, boundary norms
//	apply [probe=L:B] [strategy=S]      recomputes every entry before its first reader, prints the rewritten nodes
func TestData(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			m, err := graph.Parse(d.Input, "test")
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			if _, err := op.Infer(m); err != nil {
				d.Fatalf(t, "%v", err)
			}
			a, err := analyse(m, arg(d, "probe", "1:0"), arg(d, "order", "ort"))
			if err != nil {
				return err.Error() + "\n"
			}
			switch d.Cmd {
			case "find":
				return describe(a)
			case "apply":
				return rewrite(t, d, a)
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

func arg(d *datadriven.TestData, key, def string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals[0]
		}
	}
	return def
}

func analyse(m *graph.Model, probeText, orderName string) (*recompute.Analysis, error) {
	probe, err := recompute.ParseProbe(probeText)
	if err != nil {
		return nil, err
	}
	b, err := live.FindBoundary(m)
	if err != nil {
		return nil, err
	}
	order := graph.FileOrder(m.Graph)
	if orderName == "ort" && b.Kind == live.YieldBoundary {
		order = ortsim.MemoryEfficientOrder(m.Graph, b.Node)
	}
	return recompute.Find(m, b, order, probe), nil
}

func describe(a *recompute.Analysis) string {
	var b strings.Builder
	g := a.Graph
	names := func(ids []graph.NodeID) string {
		out := make([]string, len(ids))
		for i, id := range ids {
			out[i] = g.NodeLabel(id)
		}
		return strings.Join(out, " ")
	}
	fmt.Fprintf(&b, "boundary %s %s\n", a.Boundary.Kind, g.NodeLabel(a.Boundary.Node))
	fmt.Fprintf(&b, "order %s\n", names(a.Order))
	for _, s := range a.Stashed {
		fmt.Fprintf(&b, "stashed %s for %s\n", g.Values[s.Value].Name, names(s.Readers))
	}
	if len(a.BoundaryNorms) > 0 {
		fmt.Fprintf(&b, "boundary norms %s\n", names(a.BoundaryNorms))
	}
	for _, c := range a.Candidates {
		fmt.Fprintf(&b, "candidate %s:%d at %s frees %d/%d: %s\n", a.Clusters[c.Cluster].ID, c.Strategy,
			g.NodeLabel(c.Entry), c.Ratio.Num, c.Ratio.Den, names(c.Nodes))
	}
	for _, r := range a.Rejections {
		fmt.Fprintf(&b, "rejected %s: %s\n", g.NodeLabel(r.Entry), r.Reason)
	}
	for _, w := range a.Warnings {
		fmt.Fprintf(&b, "warning %s\n", w)
	}
	return b.String()
}

// rewrite recomputes every candidate of a strategy before the first reader of its stash.
func rewrite(t *testing.T, d *datadriven.TestData, a *recompute.Analysis) string {
	pos := a.Order.Positions()
	var placements []recompute.Placement
	for _, c := range a.Candidates {
		if fmt.Sprint(int(c.Strategy)) != arg(d, "strategy", "1") {
			continue
		}
		first := graph.NoNode
		for _, s := range a.Stashed {
			if s.Node == c.Entry && (first == graph.NoNode || pos[s.Readers[0]] < pos[first]) {
				first = s.Readers[0]
			}
		}
		placements = append(placements,
			recompute.Placement{Value: c.Stashed[0], Nodes: c.Nodes, Before: first, Copy: 1})
	}
	r, err := recompute.Apply(a.Model, a.Boundary, a.Order, placements, recompute.Options{})
	if err != nil {
		return err.Error() + "\n"
	}
	return printNodes(r.Model.Graph)
}

// printNodes lists the nodes of a graph.
func printNodes(g *graph.Graph) string {
	var b strings.Builder
	for _, n := range g.Nodes {
		operands := func(ids []graph.ValueID) string {
			out := make([]string, len(ids))
			for i, id := range ids {
				out[i] = g.ValueName(id)
			}
			return strings.Join(out, ", ")
		}
		seed := ""
		if n.Attr("seed") != nil {
			seed = fmt.Sprintf(" seed=%d", n.Int("seed", 0))
		}
		fmt.Fprintf(&b, "%s: %s = %s%s(%s)\n", n.Name, operands(n.Outputs), n.Op, seed, operands(n.Inputs))
	}
	return b.String()
}
