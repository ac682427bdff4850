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
	"memopt/planner/chunk"
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
	whole  *graph.Model   // the model's graph
	parts  *chunk.Applied // the graph in parts; nil without any
	old    *graph.Model   // the graph that is rewritten: in parts, or whole
	new    *graph.Graph
	record *recompute.Record
	report *check.Report
	env    symbolic.Env
	origin []graph.NodeID  // by node of the new graph: the one that it is or repeats
	stands []graph.ValueID // by value of the new graph: the one of the old graph whose numbers it has, or NoValue
	first  []graph.NodeID  // by node of the old graph: the one in the new graph, or NoNode

	// These are for plans with moves.
	rewritten, final *graph.Model // the new graph without and with moves
	micros           []float64    // by node of the old graph: its time
	constant         float64      // time of nodes that the graph in parts has no more
	boundProved      bool
	asSchedule       *Schedule
}

// Check holds a plan file to the graph of a training step, whose kinds are bound and types inferred. sha is the hash of
// the model's structure. The symbols of the plan's sizes are bound as it says, others by dims. The schedule is that of
// a plan whose values move, as far as its nodes could be followed; else nil.
func Check(m *graph.Model, sha string, dims symbolic.Env, r *recompute.Record) (*check.Report, *Schedule, error) {
	if r.StructureSHA256 != sha {
		return nil, nil, fmt.Errorf("%w: it is for structure_sha256 %.12s…, this one has %.12s…", ErrOther,
			r.StructureSHA256, sha)
	}
	c := newChecker(m, dims, r)
	err := c.run()
	c.report.Valid = len(c.report.Faults) == 0
	return c.report, c.asSchedule, err
}

// Proved is the lower bound on the time of a step that the certificate of a plan proves, and the time of every node of
// its graph once, in microseconds.
func Proved(m *graph.Model, dims symbolic.Env, r *recompute.Record) (bound, base float64, err error) {
	c := newChecker(m, dims, r)
	if err := c.run(); err != nil {
		return 0, 0, err
	}
	if base = sum(c.micros); c.report.BoundProved != nil {
		bound = (1+*c.report.BoundProved)*r.Base - c.constant
	}
	return bound, base, nil
}

func newChecker(m *graph.Model, dims symbolic.Env, r *recompute.Record) *checker {
	env := maps.Clone(dims)
	if env == nil {
		env = symbolic.Env{}
	}
	maps.Copy(env, r.Dims)
	return &checker{whole: m, old: m, record: r, env: env, report: &check.Report{Schema: check.Schema,
		Proved: []string{}, Faults: []check.Fault{}}}
}

func (c *checker) run() error {
	if len(c.record.Fission) > 0 {
		if err := c.cut(); err != nil || len(c.report.Faults) > 0 {
			return err
		}
	}
	if c.steps(); len(c.report.Faults) > 0 {
		return nil
	}
	c.report.Proved = append(c.report.Proved, "steps")
	if c.record.MovedRecord != nil {
		if err := c.moves(); err != nil || len(c.report.Faults) > 0 {
			return err
		}
	}
	return c.numbers()
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
	if c.parts != nil {
		b, err = c.parts.Boundary, nil
	}
	if err != nil {
		c.fault("unknown", -1, "", "%v", err)
		return
	}
	w, err := recompute.Apply(c.old, b, order, placements, recompute.Options{Seed: c.record.Seed})
	if err != nil {
		c.fault("not-made", -1, "", "%v", err)
		return
	}
	c.new, c.origin, c.rewritten, c.final = w.Model.Graph, w.Origin, w.Model, w.Model
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
func (c *checker) numbers() error {
	r, p := c.report, c.record.Predicted
	same := func(kind, name string, says, got int64) {
		if says != got {
			c.fault(kind, -1, "", "the %s is %d, and the plan says %d", name, got, says)
		}
	}
	clones := len(c.new.Nodes) - len(c.old.Graph.Nodes)
	if cost := c.record.Recompute; cost != nil {
		same("wrong-cost", "number of recomputed nodes", int64(cost.Nodes), int64(clones))
		if c.record.MovedRecord == nil {
			r.Overhead = cost.Overhead
		}
	}
	c.bound()
	if p == nil {
		return nil
	}
	order := c.record.Order
	if c.parts != nil {
		order = c.record.WholeOrder
	}
	_, t, err := simulate(c.whole, order, c.env)
	if err != nil {
		return err
	}
	before := t.Peak.Bytes
	if _, t, err = simulate(c.final, fileOrder(c.final.Graph), c.env); err != nil {
		return err
	}
	after := t.Peak.Bytes
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
	least := p.LowerBoundBytes
	if c.parts != nil {
		least = p.PartsBoundBytes
	}
	if least > p.PlannedBytes {
		c.fault("wrong-bound", -1, "", "the plan says that no plan has a peak below %d bytes, and its own is %d",
			least, p.PlannedBytes)
	}
	if m := c.record.MovedRecord; m != nil && m.Certificate != nil && p.ArenaBytes > m.Certificate.BudgetBytes {
		c.fault("over-budget", -1, "", "the arena has %d bytes, and the budget of the plan %d", p.ArenaBytes,
			m.Certificate.BudgetBytes)
	}
	if len(r.Faults) == 0 && !c.workspaces() {
		r.Proved = append(r.Proved, "numbers")
	}
	if c.boundProved && len(r.Faults) == 0 {
		r.Proved = append(r.Proved, "bound")
	}
	return nil
}

// workspaces tells whether the plan's peaks count the workspaces of memopt's own kernels on the CPU.
func (c *checker) workspaces() bool {
	cost := c.record.Recompute
	return cost != nil && (cost.Profile == "cpu" || strings.HasPrefix(cost.Profile, "measured"))
}

// lower is the bound that the plan states.
func (c *checker) lower() (b bound) {
	text, err := json.Marshal(c.record.Bound)
	if err != nil || json.Unmarshal(text, &b) != nil {
		return bound{}
	}
	return b
}

// bound holds the bound of the overhead to the overhead.
func (c *checker) bound() {
	b := c.lower()
	if b.Lower == nil || c.record.Recompute == nil {
		return
	}
	c.report.Bound = b.Lower
	over := c.record.Recompute.Overhead
	if !(*b.Lower >= 0) && c.parts == nil || !(*b.Lower <= over+1e-9) || b.Optimal && *b.Lower < over-1e-6 {
		c.fault("wrong-bound", -1, "", "the plan says that no plan has an overhead below %.9g, and its own is %.9g",
			*b.Lower, over)
	}
}

// simulate returns the sizes of a graph, and its timeline in an order.
func simulate(m *graph.Model, order []int32, env symbolic.Env) (*live.Sizes, *live.Timeline, error) {
	sizes, err := live.EvalSizes(m.Graph, env)
	if err != nil {
		return nil, nil, err
	}
	o := make(graph.Order, len(order))
	for i, id := range order {
		o[i] = graph.NodeID(id)
	}
	t, err := live.Simulate(m.Graph, o, sizes)
	return sizes, t, err
}

func fileOrder(g *graph.Graph) []int32 {
	order := make([]int32, len(g.Nodes))
	for i := range order {
		order[i] = int32(i)
	}
	return order
}
