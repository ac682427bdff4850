// Package planfile tells whether the claims of a plan file are true: it rewrites the graph as the file says, follows
// the nodes of the new graph one by one, and simulates the memory of both graphs. It shares the operator table, the
// rewrite and the memory model with the planner, and no code that chooses, orders or places.
package planfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"memopt/check"
	"memopt/graph"
	"memopt/graph/live"
	"memopt/graph/op"
	"memopt/recompute"
	"memopt/symbolic"
)

// ErrOther means that a plan is for another graph, or of a form that is not followed.
var ErrOther = errors.New("the plan cannot be followed in this graph")

// bound is the claim about the least overhead.
type bound struct {
	Lower   *float64 `json:"overhead_lower_bound"`
	Optimal bool     `json:"optimal"`
}

// checker is one call of Check.
type checker struct {
	old    *graph.Model
	new    *graph.Graph
	record *recompute.Record
	report *check.Report
	origin []graph.NodeID  // by node of the new graph: the one that it is or repeats
	stands []graph.ValueID // by value of the new graph: the one of the old graph whose numbers it has, or NoValue
	first  []graph.NodeID  // by node of the old graph: the one in the new graph, or NoNode
}

// Check holds a plan file to the graph of a training step, whose kinds are bound and types inferred. sha is the hash of
// the model's structure. The symbols of the plan's sizes are bound as it says, others by dims.
func Check(m *graph.Model, sha string, dims symbolic.Env, r *recompute.Record) (*check.Report, error) {
	switch {
	case r.StructureSHA256 != sha:
		return nil, fmt.Errorf("%w: it is for structure_sha256 %.12s…, this one has %.12s…", ErrOther,
			r.StructureSHA256, sha)
	case len(r.Fission) > 0:
		return nil, fmt.Errorf("%w: it has regions in parts, which this check does not follow", ErrOther)
	}
	c := &checker{old: m, record: r, report: &check.Report{Schema: check.Schema, Proved: []string{},
		Faults: []check.Fault{}}}
	c.steps()
	if len(c.report.Faults) == 0 {
		c.report.Proved = append(c.report.Proved, "steps")
		env := maps.Clone(dims)
		maps.Copy(env, r.Dims)
		if err := c.numbers(env); err != nil {
			return nil, err
		}
	}
	c.report.Valid = len(c.report.Faults) == 0
	return c.report, nil
}

// fault notes a fault at a step, or at -1 of the whole plan.
func (c *checker) fault(kind string, step int, value, format string, args ...any) {
	f := check.Fault{Kind: kind, Value: value, Message: fmt.Sprintf(format, args...)}
	if step >= 0 {
		f.Step = &step
	}
	c.report.Faults = append(c.report.Faults, f)
}

// steps rewrites the graph and follows its nodes.
func (c *checker) steps() {
	order, err := recompute.ResolveOrder(c.old.Graph, c.record.Order)
	if err != nil {
		c.fault("wrong-order", -1, "", "%v", err)
		return
	}
	placements, err := recompute.ResolvePlacements(c.old.Graph, c.record.Placements)
	if err != nil {
		c.fault("unknown", -1, "", "%v", err)
		return
	}
	b, err := live.FindBoundary(c.old)
	if err != nil {
		c.fault("unknown", -1, "", "%v", err)
		return
	}
	w, err := recompute.Apply(c.old, b, order, placements, recompute.Options{Seed: c.record.Seed})
	if err != nil {
		c.fault("not-made", -1, "", "%v", err)
		return
	}
	c.new, c.origin = w.Model.Graph, w.Origin
	c.report.Steps = len(c.new.Nodes)
	c.stands = make([]graph.ValueID, len(c.new.Values))
	for v := range c.stands {
		c.stands[v] = graph.NoValue
		if !live.Persistent(c.new, graph.ValueID(v)) {
			continue
		}
		if old, ok := c.old.Graph.Lookup(c.new.Values[v].Name); ok {
			c.stands[v] = old
		}
	}
	c.first = make([]graph.NodeID, len(c.old.Graph.Nodes))
	for i := range c.first {
		c.first[i] = graph.NoNode
	}
	for i, n := range c.new.Nodes {
		c.follow(i, n)
	}
	for id, at := range c.first {
		if at == graph.NoNode {
			c.fault("never-computed", -1, c.old.Graph.NodeLabel(graph.NodeID(id)), "the node is never computed")
		}
	}
}

// follow tells whether a node of the new graph computes the numbers of the one that it is or repeats: the same
// operator and attributes on inputs that stand for those of the original.
func (c *checker) follow(i int, n *graph.Node) {
	id := c.origin[i]
	if id == graph.NoNode {
		return // of an anchor or a guard: its outputs stand for no value
	}
	old := c.old.Graph.Nodes[id]
	label := c.new.NodeLabel(graph.NodeID(i))
	if len(n.Inputs) != len(old.Inputs) || len(n.Outputs) != len(old.Outputs) || n.Op != old.Op ||
		n.Domain != old.Domain {
		c.fault("other-node", i, label, "the node is not %s", old.Op)
		return
	}
	for k, v := range n.Inputs {
		if (v == graph.NoValue) != (old.Inputs[k] == graph.NoValue) {
			c.fault("other-node", i, label, "input %d is there in one of both", k)
		} else if v != graph.NoValue && c.stands[v] != old.Inputs[k] {
			c.fault("not-made", i, label, "input %d is %q, which does not have the numbers of %q by then", k,
				c.new.ValueName(v), c.old.Graph.ValueName(old.Inputs[k]))
		}
	}
	if info := op.Of(old.Kind); c.first[id] == graph.NoNode {
		c.first[id] = graph.NodeID(i)
	} else {
		original := c.new.Nodes[c.first[id]]
		switch {
		case info.Class == op.Never:
			c.fault("computed-twice", i, label, "%s may not be computed twice", old.Op)
		case info.Random && (n.Attr(info.SeedAttr) == nil || !sameAttr(n, original, info.SeedAttr)):
			c.fault("other-seed", i, label, "the seed is not that of %q", c.old.Graph.NodeLabel(id))
		case !sameAttrs(n, original):
			c.fault("other-node", i, label, "its attributes are not those of %q", c.old.Graph.NodeLabel(id))
		}
	}
	for k, v := range n.Outputs {
		if v != graph.NoValue {
			c.stands[v] = old.Outputs[k]
		}
	}
}

func sameAttr(a, b *graph.Node, name string) bool {
	x, y := a.Attr(name), b.Attr(name)
	return (x == nil) == (y == nil) && (x == nil || reflect.DeepEqual(x.Value, y.Value))
}

func sameAttrs(a, b *graph.Node) bool {
	if len(a.Attrs) != len(b.Attrs) {
		return false
	}
	for i := range a.Attrs {
		if !sameAttr(a, b, a.Attrs[i].Name) {
			return false
		}
	}
	return true
}

// numbers holds the peaks, the counts and the bound of the plan to the graphs.
func (c *checker) numbers(env symbolic.Env) error {
	r, p := c.report, c.record.Predicted
	same := func(kind, name string, says, got int64) {
		if says != got {
			c.fault(kind, -1, "", "the %s is %d, and the plan says %d", name, got, says)
		}
	}
	clones := len(c.new.Nodes) - len(c.old.Graph.Nodes)
	if cost := c.record.Recompute; cost != nil {
		same("wrong-cost", "number of recomputed nodes", int64(cost.Nodes), int64(clones))
		r.Overhead = cost.Overhead
	}
	c.bound()
	if p == nil {
		return nil
	}
	before, err := peak(c.old.Graph, c.record.Order, env)
	if err != nil {
		return err
	}
	after := int64(0)
	if after, err = c.planned(env); err != nil {
		return err
	}
	r.Peak = float64(after)
	if clones == 0 && after != p.PlannedBytes { // the order of the file where updates of states are put off
		before = after
	}
	if c.workspaces() { // which only the device knows
		before, after = max(before, p.BaselineBytes), max(after, p.PlannedBytes-p.CloneBytes)
	}
	same("wrong-peak", "peak without recomputation", p.BaselineBytes, before)
	same("wrong-peak", "peak", p.PlannedBytes, after+p.CloneBytes)
	same("wrong-peak", "sum of arena and persistent bytes", p.TotalBytes, p.ArenaBytes+p.PersistentBytes)
	if p.ArenaBytes < p.PlannedBytes {
		c.fault("wrong-peak", -1, "", "the arena has %d bytes, and %d are live at once", p.ArenaBytes, p.PlannedBytes)
	}
	if p.LowerBoundBytes > p.PlannedBytes {
		c.fault("wrong-bound", -1, "", "the plan says that no plan has a peak below %d bytes, and its own is %d",
			p.LowerBoundBytes, p.PlannedBytes)
	}
	if len(r.Faults) == 0 && !c.workspaces() {
		r.Proved = append(r.Proved, "numbers")
	}
	return nil
}

// workspaces tells whether the plan's peaks count the workspaces of memopt's own kernels on the CPU.
func (c *checker) workspaces() bool {
	cost := c.record.Recompute
	return cost != nil && (cost.Profile == "cpu" || strings.HasPrefix(cost.Profile, "measured"))
}

// bound holds the bound of the overhead to the overhead.
func (c *checker) bound() {
	var b bound
	text, err := json.Marshal(c.record.Bound)
	if err != nil || json.Unmarshal(text, &b) != nil || b.Lower == nil || c.record.Recompute == nil {
		return
	}
	c.report.Bound = b.Lower
	over := c.record.Recompute.Overhead
	if !(*b.Lower >= 0) || !(*b.Lower <= over+1e-9) || b.Optimal && *b.Lower < over-1e-6 {
		c.fault("wrong-bound", -1, "", "the plan says that no plan has an overhead below %.9g, and its own is %.9g",
			*b.Lower, over)
	}
}

// planned is the peak of the new graph, in the order of its nodes.
func (c *checker) planned(env symbolic.Env) (int64, error) {
	order := make([]int32, len(c.new.Nodes))
	for i := range order {
		order[i] = int32(i)
	}
	return peak(c.new, order, env)
}

// peak is the most live bytes of a graph in an order, without inputs and weights.
func peak(g *graph.Graph, order []int32, env symbolic.Env) (int64, error) {
	sizes, err := live.EvalSizes(g, env)
	if err != nil {
		return 0, err
	}
	o := make(graph.Order, len(order))
	for i, id := range order {
		o[i] = graph.NodeID(id)
	}
	t, err := live.Simulate(g, o, sizes)
	if err != nil {
		return 0, err
	}
	return t.Peak.Bytes, nil
}
