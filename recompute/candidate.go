package recompute

import (
	"fmt"

	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
)

// Strategy is how a candidate saves memory, numbered as in ONNX Runtime's
// configuration.
type Strategy int

const (
	// Keep recomputes no node: the cluster is switched off.
	Keep Strategy = 0
	// Full recomputes the entry's stashed outputs from available values.
	Full Strategy = 1
	// Compromise recomputes from a widening Cast on and stashes its input instead.
	Compromise Strategy = 2
)

// String returns the strategy's name in ONNX Runtime's reports.
func (s Strategy) String() string {
	switch s {
	case Full:
		return "Recompute"
	case Compromise:
		return "RecomputeWithCompromise"
	}
	return "Disabled"
}

// ClusterID is the name that equal candidates share: the operators of the
// subgraph in order of execution, each followed by "+".
type ClusterID string

// Ratio is the exact share of a stash that a candidate frees.
type Ratio struct{ Num, Den int64 }

// Float returns the ratio as a number.
func (r Ratio) Float() float64 { return float64(r.Num) / float64(r.Den) }

// reduced returns the ratio in lowest terms.
func (r Ratio) reduced() Ratio {
	a, b := r.Num, r.Den
	for b != 0 {
		a, b = b, a%b
	}
	return Ratio{r.Num / a, r.Den / a}
}

// Candidate is a subgraph whose second computation frees a stash.
type Candidate struct {
	Entry    graph.NodeID    // makes the stash; the last of Nodes
	Strategy Strategy        // Full or Compromise
	Nodes    []graph.NodeID  // the recomputed nodes, in order of execution
	Stashed  []graph.ValueID // the entry's stashed outputs
	Ratio    Ratio           // share of their bytes that is freed
	Cluster  int             // index in Analysis.Clusters
}

// Cluster is a group of candidates that a configuration switches together.
type Cluster struct {
	ID       ClusterID
	Strategy Strategy
	Members  []int // indices in Analysis.Candidates, in order of execution
}

// Config returns the cluster as a configuration names it, for all occurrences:
// "Gelu+:1:-1".
func (c *Cluster) Config() string { return fmt.Sprintf("%s:%d:-1", c.ID, c.Strategy) }

// Rejection says why an entry has no candidate.
type Rejection struct {
	Entry   graph.NodeID
	Blocker graph.NodeID // the node that stopped the search, or NoNode
	Reason  string
}

// Analysis is the result of Find for a training graph.
type Analysis struct {
	Model    *graph.Model
	Graph    *graph.Graph
	Boundary live.Boundary
	Order    graph.Order
	Backward []bool // by node
	Probe    Probe

	Stashed       []live.Stash
	Candidates    []Candidate // by entry in order of execution, Full before Compromise
	Clusters      []Cluster   // in order of first occurrence
	Rejections    []Rejection // by entry in order of execution
	BoundaryNorms []graph.NodeID
	Warnings      []string

	rejected []int32 // by node: one past its place in Rejections, or 0
	entries  []int32 // by node: one past its first candidate, or 0; the others follow it
	numbers  []int   // 0, 1, 2 …: OfEntry returns parts of it
}

// Rejected returns why an entry has no candidate.
func (a *Analysis) Rejected(entry graph.NodeID) (Rejection, bool) {
	if entry < 0 || int(entry) >= len(a.rejected) || a.rejected[entry] == 0 {
		return Rejection{}, false
	}
	return a.Rejections[a.rejected[entry]-1], true
}

// Uncloneable returns why Apply could not clone a candidate, or "".
func (a *Analysis) Uncloneable(candidate int) string {
	for _, id := range a.Candidates[candidate].Nodes {
		if why := uncloneable(a.Graph, id); why != "" {
			return why
		}
	}
	return ""
}

// uncloneable returns why a node cannot be cloned, or "".
func uncloneable(g *graph.Graph, id graph.NodeID) string {
	n := g.Nodes[id]
	switch {
	case op.Of(n.Kind).Has(op.PythonRole):
		return fmt.Sprintf("node %q calls the Python function %q, which memopt cannot clone",
			g.NodeLabel(id), n.Str("func_name", ""))
	case n.HasSubgraphs():
		return fmt.Sprintf("node %q (%s) has subgraphs, which memopt does not clone", g.NodeLabel(id), n.Op)
	}
	return ""
}

// OfEntry returns the indices of an entry's candidates. The slice is shared: do not edit it.
func (a *Analysis) OfEntry(entry graph.NodeID) []int {
	if entry < 0 || int(entry) >= len(a.entries) || a.entries[entry] == 0 {
		return nil
	}
	from := int(a.entries[entry]) - 1
	to := from + 1
	for to < len(a.Candidates) && a.Candidates[to].Entry == entry {
		to++
	}
	return a.numbers[from:to:to]
}
