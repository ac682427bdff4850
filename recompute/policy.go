package recompute

import (
	"fmt"
	"slices"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// policy says which nodes may run twice.
type policy interface {
	// reject returns why a node may not, or "".
	reject(graph.NodeID) string
	// skip returns the inputs that the search does not follow.
	skip(graph.NodeID) []int
}

func newPolicy(a *Analysis) policy {
	base := newBasePolicy(a.Model, a.Probe.Level)
	if a.Boundary.Kind == live.YieldBoundary {
		return ortPolicy{base}
	}
	return classPolicy{base}
}

func newBasePolicy(m *graph.Model, level int) basePolicy {
	base := basePolicy{g: m.Graph, level: level, versions: map[string]int64{}}
	for _, o := range m.Opsets {
		base.versions[graph.CanonicalDomain(o.Domain)] = o.Version
	}
	return base
}

type basePolicy struct {
	g        *graph.Graph
	level    int
	versions map[string]int64
}

// since returns the schema version of a node's operator, as ONNX Runtime counts.
func (p *basePolicy) since(n *graph.Node) int {
	info := op.Of(n.Kind)
	return info.VersionOf(n, p.versions[info.Domain])
}

func (p *basePolicy) name(n *graph.Node) string {
	if n.Kind == op.Unknown {
		return fmt.Sprintf("operator %s of domain %q", n.Op, n.Domain)
	}
	return fmt.Sprintf("%s-%d", n.Op, p.since(n))
}

// opaque is the rejection of a node that contradicts its operator's definition.
func (p *basePolicy) opaque(n *graph.Node) string {
	return fmt.Sprintf("operator %s of domain %q is not used as it is defined", n.Op, n.Domain)
}

// ortPolicy is the table of ONNX Runtime's memory optimizer.
type ortPolicy struct{ basePolicy }

// entry returns the row of ONNX Runtime's table for a node, at any level.
func (p ortPolicy) entry(n *graph.Node) *op.Recomputable {
	info, since := op.Of(n.Kind), p.since(n)
	for i := range info.ORT {
		if slices.Contains(info.ORT[i].Versions, since) {
			return &info.ORT[i]
		}
	}
	return nil
}

func (p ortPolicy) reject(id graph.NodeID) string {
	n := p.g.Nodes[id]
	e := p.entry(n)
	switch {
	case n.Fault() != nil:
		return p.opaque(n)
	case n.Kind == op.Unknown:
		return p.name(n) + " has no row in the op table"
	case e == nil:
		return p.name(n) + " is not among the operators that ONNX Runtime recomputes"
	case e.Level > p.level:
		return fmt.Sprintf("%s is recomputed from probe level %d on", p.name(n), e.Level)
	case op.Of(n.Kind).Has(op.PythonRole) && !slices.Contains(op.RecomputablePythonFunctions, n.Str("func_name", "")):
		return fmt.Sprintf("the Python function %q is not among those that ONNX Runtime recomputes",
			n.Str("func_name", ""))
	}
	return ""
}

func (p ortPolicy) skip(id graph.NodeID) []int {
	if e := p.entry(p.g.Nodes[id]); e != nil {
		return e.Skip
	}
	return nil
}

// classPolicy goes by the recompute classes of the op table.
type classPolicy struct{ basePolicy }

func (p classPolicy) reject(id graph.NodeID) string {
	n := p.g.Nodes[id]
	info := op.Of(n.Kind)
	switch {
	case n.Fault() != nil:
		return p.opaque(n)
	case n.Kind == op.Unknown:
		return p.name(n) + " has no row in the op table"
	case info.Class == op.Never:
		return p.name(n) + " may not run twice"
	case info.Class == op.Expensive && p.level < 1:
		return p.name(n) + " is bound by arithmetic: recomputed from probe level 1 on"
	case info.Random && !info.CanSeed(p.since(n)):
		return p.name(n) + " draws random numbers and has no seed that would repeat them"
	}
	return ""
}

func (p classPolicy) skip(graph.NodeID) []int { return nil }
