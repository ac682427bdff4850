package planner

import (
	"fmt"
	"slices"
	"strings"

	"memopt/graph"
	"memopt/graph/op"
	"memopt/hint"
	"memopt/internal/nearmiss"
	"memopt/planner/budget"
	"memopt/recompute"
)

// ErrDemand means that Options.Keep or Options.Recompute cannot be obeyed.
var ErrDemand = recompute.ErrDemand

// FindValues is graph.Graph.Find; if there is no match, its error suggests similar names.
func FindValues(g *graph.Graph, text string) ([]graph.ValueID, graph.FoundBy, error) {
	found, by := g.Find(text)
	if by != graph.NotFound {
		return found, by, nil
	}
	return nil, by, fmt.Errorf("no value, node or layer matches %q%s", text, meant(g, text))
}

// meant suggests names for a text without a match.
func meant(g *graph.Graph, text string) string {
	near := "*" + strings.Trim(text, "*") + "*"
	if _, by := g.Find(near); by != graph.NotFound && strings.Trim(text, "*") != "" {
		return fmt.Sprintf("; did you mean %q? A glob matches whole names", near)
	}
	if near = nearmiss.Find(text, g.FindableNames()); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// demands are Options.Keep and Options.Recompute, resolved in one order of the graph.
type demands struct {
	a        *recompute.Analysis
	view     func(*graph.Node) bool
	root     []graph.ValueID  // by value: the one that it shows
	stashes  [][]graph.NodeID // by root: the nodes that make values which show it, and which backward nodes read
	why      []string         // by node: why it must not be recomputed, or ""
	kept     []bool           // by node: there is such a reason; nil if no value is kept
	forced   []recompute.Candidate
	chains   [][]graph.NodeID // of forced: the entry, and the views up to the node that makes the bytes
	makers   []budget.Forced  // the nodes that make the bytes of forced values
	demanded []string         // by node: the text that asks for its recomputation, or ""
	warnings []string
}

// demands resolves the names to keep and to recompute; nil if there are no such names.
func (r *request) demands(a *recompute.Analysis) (*demands, error) {
	if len(r.opts.Keep) == 0 && len(r.opts.Recompute) == 0 {
		return nil, nil
	}
	d := r.newDemands(a)
	for _, do := range []struct {
		texts []string
		obey  func(string) error
	}{{r.opts.Keep, d.keep}, {r.opts.Recompute, d.recompute}} {
		for _, text := range do.texts {
			for _, one := range split(a.Graph, text) {
				if err := do.obey(one); err != nil {
					return nil, err
				}
			}
		}
	}
	return d, nil
}

// newDemands has the stashes, and no demands yet.
func (r *request) newDemands(a *recompute.Analysis) *demands {
	d := &demands{a: a, view: func(n *graph.Node) bool { return op.Of(n.Kind).View },
		why: make([]string, len(a.Graph.Nodes)), demanded: make([]string, len(a.Graph.Nodes))}
	if aliased := r.opts.Aliased; aliased != nil {
		d.view = func(n *graph.Node) bool { return aliased[n.ID] }
	}
	d.findRoots()
	return d
}

// markable is the error of a value that is no stashed activation, or is to be kept.
func (d *demands) markable(v graph.ValueID) error {
	if v < 0 || int(v) >= len(d.root) {
		return fmt.Errorf("%w: the graph has no value %d", ErrDemand, v)
	}
	if why := d.unstashed(d.root[v]); why != "" {
		return fmt.Errorf("%w: value %q: %s", ErrDemand, d.a.Graph.ValueName(v), why)
	}
	return d.conflict(d.root[v], d.a.Graph.ValueName(v))
}

// split takes a list apart, unless it is a name itself.
func split(g *graph.Graph, text string) []string {
	if _, by := g.Find(text); by.Exact() {
		return []string{text}
	}
	return strings.Split(text, ",")
}

// findRoots follows views, and notes the producers of stashed values that show a root.
func (d *demands) findRoots() {
	g := d.a.Graph
	d.root = make([]graph.ValueID, len(g.Values))
	for v := range d.root {
		d.root[v] = graph.ValueID(v)
	}
	for _, id := range d.a.Order {
		n := g.Nodes[id]
		if out, in := n.Output(0), n.Input(0); d.view(n) && out != graph.NoValue && in != graph.NoValue {
			d.root[out] = d.root[in]
		}
	}
	d.stashes = make([][]graph.NodeID, len(g.Values))
	for _, st := range d.a.Stashed {
		reads := func(id graph.NodeID) bool { return slices.Contains(g.Nodes[id].Inputs, st.Value) }
		if !slices.ContainsFunc(st.Readers, reads) {
			continue // subgraphs alone read it, and they read originals
		}
		root := d.root[st.Value]
		if list := d.stashes[root]; len(list) == 0 || list[len(list)-1] != st.Node {
			d.stashes[root] = append(list, st.Node)
		}
	}
}

// keep forbids recomputation of the nodes that make some values, or the bytes that these show.
func (d *demands) keep(text string) error {
	g := d.a.Graph
	found, _, err := FindValues(g, text)
	if err != nil {
		return fmt.Errorf("%w: %v: %w", ErrDemand, hint.Keep, err)
	}
	if d.kept == nil {
		d.kept = make([]bool, len(g.Nodes))
	}
	for _, v := range found {
		for _, w := range []graph.ValueID{v, d.root[v]} {
			if def := g.Values[w].Def; def != graph.NoNode {
				d.kept[def] = true
				d.why[def] = fmt.Sprintf("%v %q asks for it to be kept", hint.Keep, text)
			}
		}
	}
	return nil
}

// recompute forces the stashes among some values.
func (d *demands) recompute(text string) error {
	found, by, err := FindValues(d.a.Graph, text)
	if err != nil {
		return fmt.Errorf("%w: %v: %w", ErrDemand, hint.Recompute, err)
	}
	var roots []graph.ValueID
	refused, reason := 0, ""
	seen := make([]bool, len(d.root))
	for _, v := range found {
		root := d.root[v]
		if seen[root] {
			continue
		}
		seen[root] = true
		switch why := d.unstashed(root); {
		case why == "":
			roots = append(roots, root)
		case reason == "":
			reason = fmt.Sprintf("%q cannot be recomputed: %s", d.a.Graph.ValueName(v), why)
		}
	}
	forced, exact := 0, by == graph.ValueName || by == graph.NodeName
	for _, root := range roots {
		if err := d.conflict(root, text); err != nil {
			return err
		}
		rejected := d.force(root, text, exact)
		if rejected == nil {
			forced++
			continue
		}
		if refused++; refused == 1 {
			reason = fmt.Sprintf("%q cannot be recomputed: %s", d.a.Graph.NodeLabel(rejected.Entry), rejected.Reason)
		}
	}
	switch {
	case forced == 0 || refused > 0 && exact:
		return fmt.Errorf("%w: %v %q: %s", ErrDemand, hint.Recompute, text, reason)
	case refused > 0:
		d.warnings = append(d.warnings, fmt.Sprintf("%v %q: %d of %d stashed values are kept; %s", hint.Recompute, text,
			refused, len(roots), reason))
	}
	return nil
}

// unstashed says why no view of a root is stashed for the backward half, or "".
func (d *demands) unstashed(root graph.ValueID) string {
	g := d.a.Graph
	def := g.Values[root].Def
	switch {
	case def == graph.NoNode || op.IsConstant(g, def):
		return "it is, or shows, an input, a weight or a constant, which is live throughout"
	case d.a.Backward[def]:
		return fmt.Sprintf("node %q makes it in the backward half, but only values that the forward half makes for "+
			"the backward half can be recomputed", g.NodeLabel(def))
	case len(d.stashes[root]) == 0:
		return "no backward node reads it"
	}
	return ""
}

// conflict is the error for a value that is to be kept as well.
func (d *demands) conflict(root graph.ValueID, text string) error {
	g := d.a.Graph
	for _, id := range append([]graph.NodeID{g.Values[root].Def}, d.stashes[root]...) {
		if d.kept != nil && d.kept[id] {
			return fmt.Errorf("%w: value %q is to be recomputed (%v %q), and %s: leave it out of one of the two",
				ErrDemand, g.ValueName(root), hint.Recompute, text, d.why[id])
		}
	}
	return nil
}

// force forces the entries that show a root, or returns the first rejection.
func (d *demands) force(root graph.ValueID, text string, exact bool) *recompute.Rejection {
	g := d.a.Graph
	maker := g.Values[root].Def
	chains := make([][]graph.NodeID, 0, len(d.stashes[root]))
	for _, id := range d.stashes[root] {
		chain := []graph.NodeID{id}
		for id != maker {
			id = g.Values[g.Nodes[id].Input(0)].Def // a view of it
			chain = append(chain, id)
		}
		chains = append(chains, chain)
	}
	forced, rejected := d.a.Force(chains, d.kept)
	if len(rejected) > 0 {
		return &rejected[0]
	}
	if d.demanded[maker] != "" {
		return nil // by a text before
	}
	asked := fmt.Sprintf("%v %q", hint.Recompute, text)
	for _, c := range forced {
		d.demanded[c.Entry] = asked
	}
	d.demanded[maker] = asked
	f := budget.Forced{Node: maker}
	if exact {
		f.Asked = asked
	}
	d.forced, d.chains = append(d.forced, forced...), append(d.chains, chains...)
	d.makers = append(d.makers, f)
	return nil
}

// mayRun reports whether a candidate recomputes no kept node.
func (d *demands) mayRun(c *recompute.Candidate) bool { return d == nil || !c.Runs(d.kept) }

// apply adds the demands to the problem of a search for a budget.
func (d *demands) apply(p *budget.Problem) {
	if d != nil {
		p.Kept, p.Forced = d.why, d.makers
	}
}

// edit makes placements that were chosen elsewhere obey: kept nodes are removed, and forced ones
// that are not recomputed yet are added.
func (d *demands) edit(m *maker, placements []recompute.Placement) ([]recompute.Placement, error) {
	if d == nil {
		return placements, nil
	}
	if d.kept != nil {
		placements = m.evaluator.Without(placements, d.kept)
	}
	again := make([]bool, len(d.a.Graph.Nodes))
	for i := range placements {
		for _, id := range placements[i].Nodes {
			again[id] = true
		}
	}
	all := m.evaluator.Forced
	defer func() { m.evaluator.Forced = all }()
	m.evaluator.Forced = nil
	for i, c := range all {
		if slices.ContainsFunc(d.chains[i], func(id graph.NodeID) bool { return !again[id] }) {
			m.evaluator.Forced = append(m.evaluator.Forced, c)
		}
	}
	if len(m.evaluator.Forced) == 0 {
		return placements, nil
	}
	t, err := m.evaluator.Beside(placements)
	if err != nil {
		return nil, err
	}
	return t.Placements, nil
}

// count counts the forced candidates of the analysis as applied.
func (d *demands) count(sel *selection) {
	if d == nil {
		return
	}
	chosen := make([]bool, len(d.a.Graph.Nodes))
	for _, i := range sel.chosen {
		chosen[d.a.Candidates[i].Entry] = true
	}
	for _, c := range d.forced {
		if c.Cluster >= 0 && !chosen[c.Entry] {
			sel.applied[c.Cluster]++
		}
	}
}

// leftOut warns of forced values that a plan for a budget cannot recompute.
func (d *demands) leftOut(a *budget.Answer) {
	if d == nil || a == nil || len(a.Left) == 0 {
		return
	}
	l := a.Left[0]
	d.warnings = append(d.warnings, fmt.Sprintf("%s: %d nodes cannot run again in a plan to a budget; the "+
		"first is %q: %s", d.demanded[l.Node], len(a.Left), d.a.Graph.NodeLabel(l.Node), l.Why))
}
